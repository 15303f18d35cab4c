#include "gpukit/base/error.h"
#include "gpukit/ops/attention/attention_impl.h"

namespace gpukit::cuda {

void attention(const AttentionCall& call) { throw Error(std::string(call.op) + ": no kernel"); }
std::string explain_attention(const AttentionCall&) { throw Error("explain_attention: no kernel"); }

}  // namespace gpukit::cuda
