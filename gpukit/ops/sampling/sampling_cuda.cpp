#include "gpukit/base/error.h"
#include "gpukit/ops/sampling/sampling_impl.h"

namespace gpukit::cuda {

void sample(const SamplingWork& work) {
  throw UnsupportedError("sample: has no kernels yet, logits is on " + str(work.out.device()));
}

}  // namespace gpukit::cuda
