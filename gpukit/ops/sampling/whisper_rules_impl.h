// Between whisper_rules.cpp and the two backends.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/sampling/whisper_rules_space.cuh"

namespace gpukit {

namespace cpu {
void whisper_mask(const Array& logits, const Array& texts, const Array& suppressed, const WhisperRulesSpace& space);
void whisper_advance(const Array& texts, const Array& tokens, const WhisperRulesSpace& space);
}  // namespace cpu
namespace cuda {
void whisper_mask(const Array& logits, const Array& texts, const Array& suppressed, const WhisperRulesSpace& space);
void whisper_advance(const Array& texts, const Array& tokens, const WhisperRulesSpace& space);
}  // namespace cuda

}  // namespace gpukit
