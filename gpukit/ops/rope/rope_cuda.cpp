#include "gpukit/base/error.h"
#include "gpukit/ops/rope/rope_impl.h"

namespace gpukit::cuda {

void rope(const RopeCall&) { throw Error("rope: no kernel"); }
void qkv_rope_append(const QkvCall&) { throw Error("qkv_rope_append: no kernel"); }

}  // namespace gpukit::cuda
