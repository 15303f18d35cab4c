#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/sampling/whisper_rules_impl.h"

namespace gpukit::cuda {
namespace {

using enum DType;
const jit::KernelSet masks("gpukit/ops/sampling/whisper_rules.cuh", {"gpukit::whisper_mask<{T}>"},
                           {float16, bfloat16, float32});
const jit::KernelSet steps("gpukit/ops/sampling/whisper_advance.cuh", {"gpukit::whisper_advance"});

}  // namespace

void whisper_mask(const Array& logits, const Array& texts, const Array& suppressed, const WhisperRulesSpace& space) {
  jit::launch(masks.get(0, logits.dtype()), logits.device(),
              {.grid_x = static_cast<unsigned>(logits.shape(0)), .block_x = whisper::kThreads}, write(logits),
              read(texts), read(suppressed), space);
}

void whisper_advance(const Array& texts, const Array& tokens, const WhisperRulesSpace& space) {
  const int64_t rows = tokens.size();
  jit::launch(steps.get(0), texts.device(),
              {.grid_x = static_cast<unsigned>(ceil_div(rows, int64_t{128})), .block_x = 128}, write(texts),
              read(tokens), rows, space);
}

}  // namespace gpukit::cuda
