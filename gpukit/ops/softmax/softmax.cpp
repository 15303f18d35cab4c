#include "gpukit/ops/softmax/softmax.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

Array softmax(const Array& input, int64_t axis, const Array* out) {
  check_floating("softmax", "input", input);
  if (input.ndim() == 0) throw ShapeError("softmax", "input", "have at least one dimension", input.shape().str());
  const int along = normalize_axis("softmax", axis, input.ndim());
  const Array target = result("softmax", out, input.shape(), input.dtype(), input.device());
  if (target.size() == 0) return target;
  if (must_buffer(target, {&input})) {
    Temporaries temporaries("softmax");
    const Array fresh = temporaries.empty_like(target);
    copy_into(target, softmax(input, axis, &fresh));
    return target;
  }
  switch (input.device().kind) {
    case DeviceKind::cpu: cpu::softmax(target, input, along); break;
    case DeviceKind::cuda: cuda::softmax(target, input, along); break;
  }
  return target;
}

}  // namespace gpukit
