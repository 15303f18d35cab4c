// How the sums of a warpgroup leave a tile of gemm90: 64 rows by N columns, N / 2 registers a thread. Register 4j + i
// of a thread stands in row lane / 4 + 8 (i / 2) of its warp's 16 rows and in column 8j + 2 (lane % 4) + i % 2.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/hopper/barrier.cuh"
#include "gpukit/ops/hopper/stmatrix.cuh"
#include "gpukit/ops/hopper/tma.cuh"
#include "gpukit/ops/matmul/dense/gemm_sm90_problem.cuh"

namespace gpukit {

/// Two neighbours in a row as they are stored.
template <typename Out>
struct Pair {
  using Word = uint64_t;
  static GPUKIT_DEVICE uint64_t of(Out low, Out high) {
    uint64_t pair;
    asm("mov.b64 %0, {%1, %2};" : "=l"(pair) : "r"(bits(low)), "r"(bits(high)));
    return pair;
  }
  static GPUKIT_DEVICE uint32_t bits(float v) { return __float_as_uint(v); }
  static GPUKIT_DEVICE uint32_t bits(int32_t v) { return static_cast<uint32_t>(v); }
};
template <>
struct Pair<half> {
  using Word = uint32_t;
  static GPUKIT_DEVICE uint32_t of(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};
template <>
struct Pair<bfloat16> {
  using Word = uint32_t;
  static GPUKIT_DEVICE uint32_t of(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

GPUKIT_DEVICE void store_shared(uint32_t address, uint32_t v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
GPUKIT_DEVICE void store_shared(uint32_t address, uint64_t v) {
  asm volatile("st.shared.b64 [%0], %1;" ::"r"(address), "l"(v) : "memory");
}

struct Gemm90At {
  int row, column, batch;
};

/// The sums as they are.
struct NoFinish {
  static constexpr bool kBiased = false, kAdds = false;  // kAdds: a tile of another array
  template <typename Sum>
  using Value = Sum;
  template <int N>
  struct Operands {};

  template <int N>
  GPUKIT_DEVICE void fetch(Operands<N>&, const Gemm90At&) const {}
  template <int N, typename Sum>
  GPUKIT_DEVICE void apply(Sum (&to)[N / 2], const Sum* from, const Operands<N>&, const Gemm90At&) const {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) to[i] = from[i];
  }
};

template <typename Out>
struct alignas(2 * sizeof(Out)) OutPair {
  Out x, y;
};

/// Steps an instance is made for, a sum of these.
inline constexpr int kScales = 1, kBias = 2, kResidual = 4;  // kBias: and the activation

/// Gemm90Epilogue up to the activation: see there. A null pointer's step is left out, too. Bias and scales start at
/// multiples of 16 bytes; the output has an even number of columns.
template <typename Out, int Steps>
struct Finish {
  static constexpr bool kBiased = (Steps & kBias) != 0, kAdds = (Steps & kResidual) != 0;
  template <typename Sum>
  using Value = float;
  /// What N columns need, asked for before it is needed.
  template <int N>
  struct Operands {
    // Words: pairs of shorter elements would be taken apart, and so waited for, where they are read.
    typename Pair<Out>::Word bias[Steps & kBias ? N / 8 : 1];
    OutPair<float> scale[Steps & kScales ? N / 8 : 1];
    float scale_m[2];
  };
  const Gemm90Problem& s;
  const Gemm90Epilogue& e;
  const Out* bias;
  const float* scale_m;
  const float* scale_n;

  /// N columns from `at` on. What lies outside of the output takes its neighbour's place.
  template <int N>
  GPUKIT_DEVICE void fetch(Operands<N>& o, const Gemm90At& at) const {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
    const int first = at.row + thread / 32 * 16 + lane / 4, last = s.n - 2;
    const int column = at.column + lane % 4 * 2;
    const int rows[2] = {min(first, s.m - 1), min(first + 8, s.m - 1)};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      o.scale_m[h] = e.alpha;
      if (Steps & kScales && scale_m != nullptr) o.scale_m[h] *= scale_m[rows[h] * e.scale_m];
      if (Steps & kScales && scale_n != nullptr && e.scale_n == 0) o.scale_m[h] *= scale_n[0];
    }
    if (Steps & kScales && scale_n != nullptr && e.scale_n != 0) {
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
        o.scale[j] = *reinterpret_cast<const OutPair<float>*>(scale_n + min(column + j * 8, last));
    }
    if (Steps & kBias && bias != nullptr) {
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
        o.bias[j] = *reinterpret_cast<const typename Pair<Out>::Word*>(bias + min(column + j * 8, last));
    }
  }

  template <int N, typename Sum>
  GPUKIT_DEVICE void apply(float (&d)[N / 2], const Sum* from, const Operands<N>& o, const Gemm90At&) const {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) d[i] = __fmul_rn(static_cast<float>(from[i]), o.scale_m[i / 2 % 2]);
    if (Steps & kScales && scale_n != nullptr && e.scale_n != 0) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) d[i] *= i % 2 ? o.scale[i / 4].y : o.scale[i / 4].x;
    }
    if (Steps & kBias && bias != nullptr) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        const auto& pair = reinterpret_cast<const OutPair<Out>&>(o.bias[i / 4]);
        d[i] = __fadd_rn(d[i], load(i % 2 ? pair.y : pair.x));
      }
    }
    if (Steps & kBias && e.activation == ActivationCode::relu) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) d[i] = d[i] > 0.0f || d[i] != d[i] ? d[i] : 0.0f;  // NaN stays
    }
    if (Steps & kBias && e.activation == ActivationCode::gelu) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) d[i] = gelu_short(d[i]);
    }
    if (Steps & kBias && e.activation == ActivationCode::silu) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) d[i] = silu_short(d[i]);
    }
    if (Steps & kBias && e.activation == ActivationCode::gelu_erf) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) d[i] = gelu_erf_short(d[i]);
    }
  }
};

/// Element by element, with any strides.
template <typename Out, int N, typename Sum>
GPUKIT_DEVICE void store_elements(Out* out, const Sum* d, const Gemm90Problem& s, const Gemm90At& at) {
  const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = at.row + warp * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const int row = first + i / 2 % 2 * 8, column = at.column + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row < s.m && column < s.n) out[row * s.out_m + column * s.out_n] = store<Out>(d[i]);
  }
}

/// Where a lane's row of four 8 x 8 matrices lies, columns 16h to 16h + 15 of a box of 64 rows of kBytes with 16-bit
/// elements and the swizzle of its width.
template <int kBytes>
GPUKIT_DEVICE uint32_t matrices_at(uint32_t buffer, int h) {
  const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = warp * 16 + lane % 16;
  const int swizzle = kBytes == 128 ? row & 7 : kBytes == 64 ? row >> 1 & 3 : row >> 2 & 1;
  return buffer + row * kBytes + ((h * 2 + lane / 16) ^ swizzle) * 16;
}

/// A box of 64 rows of kBytes into shared memory, with the swizzle of its width.
template <typename Out, int kBytes, typename V>
GPUKIT_DEVICE void fill_box(uint32_t buffer, const V* v) {
  constexpr int kColumns = kBytes / static_cast<int>(sizeof(Out));
  if constexpr (sizeof(Out) == 2) {
#pragma unroll
    for (int h = 0; h < kColumns / 16; ++h)
      store_matrices(matrices_at<kBytes>(buffer, h), Pair<Out>::of(v[h * 8], v[h * 8 + 1]),
                     Pair<Out>::of(v[h * 8 + 2], v[h * 8 + 3]), Pair<Out>::of(v[h * 8 + 4], v[h * 8 + 5]),
                     Pair<Out>::of(v[h * 8 + 6], v[h * 8 + 7]));
  } else {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
      const int row = warp * 16 + lane / 4 + i % 2 * 8, chunk = i / 2 * 2 + lane % 4 / 2;
      store_shared(buffer + row * kBytes + (chunk ^ (row & 7)) * 16 + lane % 2 * 8,
                   Pair<Out>::of(v[i * 2], v[i * 2 + 1]));
    }
  }
}

/// Adds a box in shared memory, of 16-bit elements.
template <typename Out, int kBytes>
GPUKIT_DEVICE void add_box(float* v, uint32_t buffer) {
#pragma unroll
  for (int h = 0; h < kBytes / 32; ++h) {
    uint32_t x[4];
    load_matrices(x, matrices_at<kBytes>(buffer, h));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto& pair = reinterpret_cast<const OutPair<Out>&>(x[i]);
      v[h * 8 + i * 2] += load(pair.x);
      v[h * 8 + i * 2 + 1] += load(pair.y);
    }
  }
}

/// By boxes of kBytes a row, through two buffers in turns. Called by a whole warpgroup; `barrier` is its own.
/// `operands` are those of the first box; `added` holds what is added to each.
template <typename Out, int N, int kBytes, typename Sum, typename F, typename Added>
GPUKIT_DEVICE void store_by_tma(const TileMap* map, uint32_t buffers, const Sum* d, int barrier, Gemm90At at,
                                const F& finish, typename F::template Operands<kBytes / sizeof(Out)>& operands,
                                const Added& added) {
  constexpr int kColumns = kBytes / static_cast<int>(sizeof(Out));
  constexpr bool kOdd = N / kColumns % 2 != 0;
  const int thread = static_cast<int>(threadIdx.x) % 128;
#pragma unroll
  for (int box = 0; box < N / kColumns; ++box, at.column += kColumns) {
    const uint32_t buffer = buffers + (box & 1) * 64 * kBytes;
    typename F::template Value<Sum> v[kColumns / 2];
    const auto now = operands;
    if (box + 1 < N / kColumns) finish.template fetch<kColumns>(operands, {at.row, at.column + kColumns, at.batch});
    finish.template apply<kColumns>(v, &d[box * kColumns / 2], now, at);
    added.template add<Out, kBytes>(v, box);
    if (thread == 0) {
      // The last of an odd number of boxes left the buffer of the first.
      if (kOdd && box == 0) {
        store_wait_read<0>();
      } else {
        store_wait_read<1>();
      }
    }
    named_barrier(barrier, 128);
    fill_box<Out, kBytes>(buffer, v);
    shared_publish();
    named_barrier(barrier, 128);
    added.release(box);
    if (thread == 0) {
      tile_store(map, buffer, at.column, at.row, at.batch);
      store_commit();
    }
  }
}

/// Which neighbours in memory stand in rows lane / 4 and lane / 4 + 8 of a warp, where threads take transposed rows of
/// four bytes themselves: the box of 32 rows, the 16 of its 128 bytes, and the byte in them. With the 128-byte swizzle
/// no two lanes of an access meet in a bank, neither reading lines lane % 4 of K nor writing columns 2 (lane % 4).
struct PairedRows {
  int box, chunk, byte;
  GPUKIT_DEVICE PairedRows() {
    const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
    box = warp / 2;
    chunk = (warp % 2 * 2 + lane / 16) ^ lane / 8 % 2 * 5;
    byte = lane / 4 % 2 * 8;
  }
};

/// 64 rows of kColumns columns into shared memory, transposed: boxes of kColumns lines of 128 bytes. `kPaired`: the
/// rows of a thread are those of PairedRows.
template <typename Out, int kColumns, bool kPaired, typename V>
GPUKIT_DEVICE void fill_transposed(uint32_t buffer, const V* v) {
  constexpr int kRows = 128 / static_cast<int>(sizeof(Out));  // of a box
  const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (sizeof(Out) == 2) {
#pragma unroll
    for (int h = 0; h < kColumns / 16; ++h) {
      const int column = h * 16 + lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
      store_matrices_transposed(buffer + column * 128 + (chunk ^ lane % 8) * 16, Pair<Out>::of(v[h * 8], v[h * 8 + 1]),
                                Pair<Out>::of(v[h * 8 + 2], v[h * 8 + 3]), Pair<Out>::of(v[h * 8 + 4], v[h * 8 + 5]),
                                Pair<Out>::of(v[h * 8 + 6], v[h * 8 + 7]));
    }
  } else if constexpr (kPaired) {
    const PairedRows rows;
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
      const int column = i / 2 * 8 + lane % 4 * 2 + i % 2, first = i / 2 * 4 + i % 2;
      store_shared(buffer + (rows.box * kColumns + column) * 128 + (rows.chunk ^ column % 8) * 16 + rows.byte,
                   Pair<Out>::of(v[first], v[first + 2]));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      store_shared(buffer + (row / kRows * kColumns + column) * 128 + (row % kRows / 4 ^ column % 8) * 16 + row % 4 * 4,
                   Pair<Out>::bits(v[i]));
    }
  }
}

/// Boxes with the rows dense in memory: 128 bytes of rows by kColumns columns each, through two buffers in turns where
/// there are several. `kPaired`: the rows of a thread are those of PairedRows.
template <typename Out, int N, int kColumns, bool kPaired, typename Sum>
GPUKIT_DEVICE void store_transposed(const TileMap* map, uint32_t buffers, const Sum* d, int barrier,
                                    const Gemm90At& at) {
  constexpr int kRows = 128 / static_cast<int>(sizeof(Out));  // of a box
  const int thread = static_cast<int>(threadIdx.x) % 128;
#pragma unroll
  for (int part = 0; part < N / kColumns; ++part) {
    const uint32_t buffer = buffers + (part & 1) * 64 * kColumns * static_cast<int>(sizeof(Out));
    Sum v[kColumns / 2];  // read before threads part ways, or the compiler serialises the products
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) v[i] = d[part * kColumns / 2 + i];
    if (thread == 0) {
      // The last of an odd number of boxes left the buffer of the first.
      if (part == 0) {
        store_wait_read<0>();
      } else {
        store_wait_read<1>();
      }
    }
    named_barrier(barrier, 128);
    fill_transposed<Out, kColumns, kPaired>(buffer, v);
    shared_publish();
    named_barrier(barrier, 128);
    if (thread == 0) {
#pragma unroll
      for (int box = 0; box < 64 / kRows; ++box)
        tile_store(map, buffer + box * kColumns * 128, at.row + box * kRows, at.column + part * kColumns, at.batch);
      store_commit();
    }
  }
}

}  // namespace gpukit
