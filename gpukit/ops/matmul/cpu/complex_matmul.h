// Products of complex matrices on the CPU, by the loops of floats.
#pragma once

#include "gpukit/ops/matmul/matmul_impl.h"

namespace gpukit::cpu {

/// Submits out = a @ b of complex dtypes, in the bits of the chain of fused steps of docs/determinism.md. False, and
/// nothing is submitted, where out's columns do not lie side by side.
bool complex_matmul(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem);

}  // namespace gpukit::cpu
