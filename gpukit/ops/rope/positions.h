// Positions without RoPE: sums of sines and cosines, straight lines over the scores, and scales that grow with the
// position.
//
// All throw ShapeError, DTypeError, DeviceError, ArgumentError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// float32 [positions, dim]: sin(p base^(-2i / dim)) in column 2i, cos in column 2i + 1.
Array pope_encoding(int64_t positions, int64_t dim, double base, Device device);
/// q and k [tokens, heads, dim] += encoding[start + token], in place; rounded once.
void pope(const char* op, const Array& q, const Array& k, const Array& encoding, int64_t start);

/// float32 [heads]: 2^(-8 (h + 1) / heads).
Array alibi_slopes(int64_t heads, Device device);
/// float32 [heads, length, length]: slope (j - i); -1e9 where j > i and `causal`.
Array alibi_bias(int64_t length, const Array& slopes, bool causal);
/// scores [batch, heads, queries, keys] += slope (j - (start + i)), in place.
void alibi_add(const Array& scores, const Array& slopes, int64_t start);

/// q [tokens, heads, dim] times 1 + attn_scale ln(1 + floor((position + 1) / floor_scale)); positions are integers
/// [tokens].
Array irope_scale(const char* op, const Array& q, const Array& positions, double attn_scale, double floor_scale,
                  const Array* out = nullptr);

}  // namespace gpukit
