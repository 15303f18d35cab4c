// Tiles of attention_sm80 in shared memory: how they come there, and products of their fragments.
//
// Rows of queries, keys and values lie in panels of 64 dims, 128 bytes a row, whose 16-byte chunks are permuted by the
// row's number, so that the same chunk of 8 rows lies in 8 different banks.
#pragma once
#include "gpukit/ops/attention/attention_rows.cuh"
#include "gpukit/ops/attention/attention_sm80_shape.cuh"
#include "gpukit/ops/common/float8.cuh"
#include "gpukit/ops/common/mma.cuh"

namespace gpukit {

GPUKIT_DEVICE uint32_t chunk_offset(int row, int chunk) {
  return static_cast<uint32_t>(row * 128 + ((chunk ^ (row & 7)) << 4));
}
/// Where this lane reads its part of the first 16 rows by 16 dims.
GPUKIT_DEVICE uint32_t lane_offset() {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return chunk_offset(lane % 16, lane / 16);
}
/// 16 rows from `row` on by dims [16 step, 16 step + 16) of panels of `panel_bytes`.
GPUKIT_DEVICE uint32_t fragment_at(uint32_t tile, int panel_bytes, int row, int step, uint32_t lane) {
  return tile + step / 4 * panel_bytes + row * 128 + (lane ^ (step % 4 * 32));
}

GPUKIT_DEVICE void store_word(uint32_t shared, uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}

/// Two floats, rounded, the first in the lower half.
GPUKIT_DEVICE uint32_t pack_pair(half*, float first, float second) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
GPUKIT_DEVICE uint32_t pack_pair(bfloat16*, float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
template <typename T>
GPUKIT_DEVICE uint32_t pack(float first, float second) {
  return pack_pair(static_cast<T*>(nullptr), first, second);
}

/// sums[i] += queries * keys: 16 rows from q_row on by keys [key + 8 i, key + 8 i + 8), dims in ascending steps of 16.
template <typename T, int kBlocks>
GPUKIT_DEVICE void multiply_keys(float (&sums)[kBlocks][4], uint32_t q, int q_rows, int q_row, uint32_t keys, int key,
                                 int dim, uint32_t lane) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i)
#pragma unroll
    for (float& value : sums[i]) value = 0.0f;
#pragma unroll 2
  for (int step = 0; step * 16 < dim; ++step) {
    uint32_t rows[4];
    load_matrices(rows, fragment_at(q, q_rows * 128, q_row, step, lane));
#pragma unroll
    for (int i = 0; i < kBlocks; i += 2) {
      uint32_t columns[4];
      load_matrices(columns, fragment_at(keys, kPanelBytes, key + 8 * i, step, lane));
      Mma<T>::add(sums[i], rows, columns[0], columns[2]);
      Mma<T>::add(sums[i + 1], rows, columns[1], columns[3]);
    }
  }
}

/// sums[2 i], sums[2 i + 1] += weights * values: dims [16 (first + stride i), ... + 16), 16 keys from `key` on.
template <typename T, int kBlocks>
GPUKIT_DEVICE void multiply_values(float (&sums)[kBlocks][4], const uint32_t (&weights)[4], uint32_t values, int key,
                                   int first, int stride, int dim, uint32_t lane) {
#pragma unroll
  for (int i = 0; i < kBlocks / 2; ++i) {
    const int step = first + stride * i;
    if (step * 16 >= dim) break;
    uint32_t columns[4];
    load_matrices_transposed(columns, fragment_at(values, kPanelBytes, key, step, lane));
    Mma<T>::add(sums[2 * i], weights, columns[0], columns[1]);
    Mma<T>::add(sums[2 * i + 1], weights, columns[2], columns[3]);
  }
}

GPUKIT_DEVICE float code_value(CacheKind kind, uint8_t code) {
  return kind == CacheKind::int8 ? static_cast<float>(static_cast<int8_t>(code)) : to_float(float8_e4m3{code});
}

/// Codes of the keys or values of one head on their way to `raw`, 8 at a time. What is missing is left out.
template <int kDim>
GPUKIT_DEVICE void request_codes(uint32_t raw, const void* data, const int64_t* places, const uint32_t (&readable)[2],
                                 int dim) {
  constexpr int kGroups = kDim / 8;
#pragma unroll 2
  for (int i = 0; i < kKeyTile * kGroups / (32 * kMmaWarps); ++i) {
    const int unit = static_cast<int>(threadIdx.x) + i * 32 * kMmaWarps, key = unit / kGroups, group = unit % kGroups;
    const bool inside = (readable[key / 32] >> key % 32 & 1) != 0 && group * 8 < dim;
    copy_async_if<8>(inside, raw + unit * 8,
                     static_cast<const uint8_t*>(data) + (inside ? places[key] + group * 8 : 0));
  }
}
/// What this thread requested, widened to `to`; what was left out is zeros. `scales`: null, or of each key.
template <typename T, int kDim>
GPUKIT_DEVICE void widen_codes(uint32_t to, uint32_t raw, CacheKind kind, const float* scales,
                               const uint32_t (&readable)[2], int dim) {
  constexpr int kGroups = kDim / 8;
#pragma unroll 2
  for (int i = 0; i < kKeyTile * kGroups / (32 * kMmaWarps); ++i) {
    const int unit = static_cast<int>(threadIdx.x) + i * 32 * kMmaWarps, key = unit / kGroups, group = unit % kGroups;
    uint32_t codes[2], values[4] = {};
    if ((readable[key / 32] >> key % 32 & 1) != 0 && group * 8 < dim) {
      load_shared(codes[0], codes[1], raw + unit * 8);
      const float scale = scales == nullptr ? 1.0f : scales[key];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint32_t pair = codes[j / 2] >> (j % 2 * 16);
        values[j] = pack<T>(code_value(kind, pair & 255) * scale, code_value(kind, pair >> 8 & 255) * scale);
      }
    }
    store_shared(to + group / 8 * kPanelBytes + chunk_offset(key, group % 8), values);
  }
}

/// Brings keys or values of one head to `to`, by chunks or elements; `scale`: null, or what codes are multiplied by.
/// Missing keys and dims are zeros. Chunks need commit_copies() and a wait, elements a barrier.
template <typename T, int kDim>
GPUKIT_DEVICE void read_tile(uint32_t to, TileCopy copy, CacheKind kind, const void* data, const int64_t* places,
                             const float* scales, const uint32_t (&readable)[2], int64_t step, int dim) {
  const int thread = static_cast<int>(threadIdx.x);
  auto is_readable = [&](int key) { return (readable[key / 32] >> key % 32 & 1) != 0; };
  if (copy == TileCopy::chunks) {
    const int chunk = thread % 8;
#pragma unroll
    for (int i = 0; i < kKeyTile / 16; ++i) {
      const int key = thread / 8 + 16 * i;
      const T* from = static_cast<const T*>(data) + (is_readable(key) ? places[key] : 0) + chunk * 8;
#pragma unroll
      for (int panel = 0; panel < kDim / kPanelDims; ++panel) {
        const int left = is_readable(key) ? dim - panel * kPanelDims - chunk * 8 : 0;
        copy_async(to + panel * kPanelBytes + chunk_offset(key, chunk), left > 0 ? from + panel * kPanelDims : data,
                   left <= 0  ? 0
                   : left < 8 ? left * 2
                              : 16);
      }
    }
    return;
  }
#pragma unroll 1
  for (int unit = thread; unit < kKeyTile * kDim / 2; unit += 32 * kMmaWarps) {
    const int key = unit / (kDim / 2), at = unit % (kDim / 2) * 2;
    float values[2] = {0.0f, 0.0f};
    for (int i = 0; i < 2; ++i) {
      if (!is_readable(key) || at + i >= dim) continue;
      const int64_t place = places[key] + (at + i) * step;
      const bool coded = kind >= CacheKind::float8_e4m3;
      values[i] = coded ? code_value(kind, static_cast<const uint8_t*>(data)[place])
                        : to_float(static_cast<const T*>(data)[place]);
      if (coded && scales != nullptr) values[i] *= scales[key];
    }
    store_word(to + at / kPanelDims * kPanelBytes + chunk_offset(key, at % kPanelDims / 8) + at % 8 * 2,
               pack<T>(values[0], values[1]));
  }
}

}  // namespace gpukit
