// Positions of tokens: rotary embeddings and their tables, other encodings, and the kernel that prepares attention.
//
// Tables are float32 [positions, rotary_dim / 2]. Positions are int32 in the memory of the data's device: one outside
// of the table leaves its row as it is, and the next wait raises OutOfRangeError. All throw ShapeError, DTypeError,
// DeviceError, ArgumentError.
#pragma once

#include <utility>

#include "gpukit/array/array.h"
#include "gpukit/ops/kv_cache/kv_cache.h"

namespace gpukit {

/// How the frequencies base^(-2 i / rotary_dim) are changed for texts longer than those of the training.
struct RopeScaling {
  enum class Kind {
    none,
    linear,  // position / factor
    ntk,     // base * factor^(dim / (dim - 2))
    yarn,    // fast frequencies as they are, slow ones / factor, a ramp between; tables times attention_factor
    llama3,  // by wavelength against original_length, as Llama 3.1 does
  };
  Kind kind = Kind::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_length = 0;  // of the training; yarn and llama3 need it
  double beta_fast = 32, beta_slow = 1;
  double attention_factor = 0;  // yarn; 0: 0.1 ln(factor) + 1
};

/// cos and sin of position * frequency, computed in float64.
std::pair<Array, Array> rope_tables(int64_t positions, int64_t rotary_dim, double base, const RopeScaling& scaling,
                                    Device device);

struct RopeOptions {
  int64_t rotary_dim = 0;    // the first dims of a head are turned; 0: all
  bool interleaved = false;  // pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2)
};

/// Turns x [tokens, heads, dim] (float16, bfloat16 or float32) in place. `cos` and `sin` are float32 or x's dtype, of
/// [positions, at least rotary_dim / 2]. `positions` is [tokens], or undefined: token i is at position i.
void rope(const Array& x, const Array& cos, const Array& sin, const Array& positions, const RopeOptions& options = {});

struct QkvOptions {
  Array bias;            // [(heads + 2 kv_heads) dim], added first
  Array q_norm, k_norm;  // [dim]: rmsnorm of every head of q and k
  double norm_eps = 1e-6;
  Array cos, sin;  // undefined: no RoPE
  RopeOptions rope;
};

/// In one kernel: splits qkv [tokens, (heads + 2 kv_heads) dim] (float16, bfloat16 or float32) into heads, adds the
/// bias, normalises q and k, turns them, writes q to q_out [tokens, heads, dim] and k and v to the cache at
/// (sequence_ids[i], positions[i]), rounded once from float32. float8_e4m3 holds value / scale[head]; int8 holds value
/// / scale with scale = max|value| / 127 of the token and head, which is written too. A sequence id of -1 writes
/// nothing to the cache; its position may be anything. Of tokens for the same place the last one stays. Bad positions,
/// ids and block table entries write nothing to the cache and raise at the next wait. q_out may share memory with the
/// first heads * dim columns of qkv, as the very same elements.
void qkv_rope_append(const Array& qkv, const Array& q_out, const KvCache& cache, const Array& sequence_ids,
                     const Array& positions, const QkvOptions& options);

/// q, k and v, the heads of qkv [tokens, q + k + v], as arrays [tokens, ...] of the same number of elements.
void split_qkv(const Array& qkv, const Array& q, const Array& k, const Array& v);

}  // namespace gpukit
