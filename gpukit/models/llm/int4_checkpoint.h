// int4 matrices as AWQ and GPTQ checkpoints store them.
#pragma once

#include "gpukit/io/safetensors.h"
#include "gpukit/models/llm/config.h"
#include "gpukit/ops/quantize/quantize.h"

namespace gpukit::llm {

/// The matrix [n, k] of `stem`.qweight, .qzeros and .scales (and .g_idx), as quantize() would hold it: the same numbers
/// exactly. AWQ packs columns of [k, n] eight to a word, as 0 2 4 6 1 3 5 7; GPTQ packs along k in order. Throws
/// FormatError naming the tensor, UnsupportedError for a g_idx that is not in order.
Quantized load_int4(const io::TensorFile& file, const std::string& stem, const Int4Layout& layout, int64_t n, int64_t k,
                    Device device);

}  // namespace gpukit::llm
