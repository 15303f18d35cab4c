#include "gpukit/ops/elementwise/copy.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/move_impl.h"

namespace gpukit {

namespace {

void move(const Array& out, const ElementInput& a) {
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::move(out, a); break;
    case DeviceKind::cuda: cuda::move(out, a); break;
  }
}

void check_writable(const char* op, const Array& dst) {
  if (!dst.is_contiguous() && has_internal_overlap(dst))
    throw ArgumentError(op, "dst", "not reach one element twice", "a broadcast view of strides " + dst.strides().str());
}

}  // namespace

void copy_into(const Array& dst, const Array& src) {
  check_same_device("copy", dst, src);
  check_writable("copy", dst);
  if (!(src.shape() == dst.shape()) && !(broadcast_shapes("copy", dst.shape(), src.shape()) == dst.shape()))
    throw ShapeError("copy", "src", "broadcast to " + dst.shape().str(), src.shape().str());
  if (src.dtype() != dst.dtype()) {
    const Array view = src.shape() == dst.shape() ? src : src.broadcast_to(dst.shape());
    cast("copy", view, dst.dtype(), &dst);
    return;
  }
  if (must_buffer(dst, {&src})) {
    Temporaries temporaries("copy");
    const Array buffer = temporaries.empty_like(src);
    move(buffer, {&src, {}});
    move(dst, {&buffer, {}});
    return;
  }
  move(dst, {&src, {}});
}

Array contiguous(const Array& input) { return input.is_contiguous() ? input : copy(input); }

Array copy(const Array& input) {
  Array out = Array::empty_like(input);
  move(out, {&input, {}});
  return out;
}

Array contiguous(const Array& input, Temporaries& into) { return input.is_contiguous() ? input : copy(input, into); }

Array copy(const Array& input, Temporaries& into) {
  Array out = into.empty_like(input);
  move(out, {&input, {}});
  return out;
}

void fill(const Array& dst, const Scalar& value) {
  check_writable("fill", dst);
  move(dst, {nullptr, to_element("fill", value, dst.dtype())});
}

void copy_to(const Array& src, const Array& dst) {
  check_dtype("copy_to", "dst", dst, src.dtype());
  if (src.size() != dst.size())
    throw ShapeError("copy_to", "dst",
                     "have as many elements as src, " + std::to_string(src.size()) + " of shape " + src.shape().str(),
                     std::to_string(dst.size()) + " of shape " + dst.shape().str());
  if (src.shape() == dst.shape()) return copy_into(dst, src);
  check_same_device("copy_to", dst, src);
  if (dst.can_view(src.shape())) return copy_into(dst.reshape_view(src.shape()), src);
  Temporaries temporaries("copy_to");
  copy_into(dst, contiguous(src, temporaries).reshape_view(dst.shape()));
}

}  // namespace gpukit
