// gemm_simt: a product of float32 or float64 matrices on CUDA cores; one block makes one tile of one batch.
// kThreads threads and shared_bytes() of dynamic shared memory; the grid has a block for every tile of every batch.
//
// Each output has one accumulator that takes one fused multiply-add for each k, in ascending order: the bits of
// gemm_any_dtype.cuh. What limits the speed is that every other instruction takes the turn of a multiply-add, so copies
// go to shared memory without passing through registers, and addresses are one register and a constant.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/common/vec.cuh"
#include "gpukit/ops/matmul/dense/gemm_simt_tile.cuh"

namespace gpukit {

GPUKIT_DEVICE float fused_step(float sum, float a, float b) { return __fmaf_rn(a, b, sum); }
GPUKIT_DEVICE double fused_step(double sum, double a, double b) { return __fma_rn(a, b, sum); }

/// The slices of one operand in shared memory, line by line of k.
template <typename T, typename Tile, int kExtent_>
struct SimtSlice {
  static constexpr int kExtent = kExtent_;
  static constexpr int kPitchBytes = kExtent * static_cast<int>(sizeof(T)) + Tile::kLinePad;
  static constexpr int kBytes = Tile::kDepth * kPitchBytes;
};

/// Brings slices into shared memory, one after the other, `k_left` steps of each at most. Here the operand is
/// contiguous across k, and 16 bytes are one copy.
template <typename T, typename Slice, typename Tile>
struct SimtChunks {
  static constexpr int kVector = 16 / sizeof(T), kLineChunks = Slice::kExtent / kVector;
  static constexpr int kPassLines = Tile::kThreads / kLineChunks;  // that all threads copy at once
  static_assert(kPassLines > 0 && Tile::kDepth % kPassLines == 0, "every thread copies the same number of chunks");
  const T* from;
  int64_t k_stride;
  int k;        // this thread's first line; beyond every k where its chunks lie outside of the operand
  uint32_t to;  // in the slice

  /// The operand starts at `origin` and `extent` of its rows or columns are left.
  GPUKIT_DEVICE SimtChunks(const T* origin, int64_t extent, int64_t, int64_t k_stride) : k_stride(k_stride) {
    const int line = static_cast<int>(threadIdx.x) / kLineChunks;
    const int at = static_cast<int>(threadIdx.x) % kLineChunks * kVector;
    k = at < extent ? line : kSimtMaxDepth;
    from = origin + line * k_stride + at;
    to = line * Slice::kPitchBytes + at * sizeof(T);
  }
  GPUKIT_DEVICE void copy(uint32_t slice, int k_left) {
#pragma unroll
    for (int line = 0; line < Tile::kDepth; line += kPassLines)
      copy_async_if<16>(k < k_left - line, slice + to + line * Slice::kPitchBytes, from + line * k_stride);
    from += Tile::kDepth * k_stride;
  }
};

/// The same for an operand that is contiguous along k (kDense), or has any strides: element by element.
template <typename T, typename Slice, typename Tile, bool kDense>
struct SimtElements {
  static constexpr int kPassDepth = 8, kPassExtent = Tile::kThreads / kPassDepth;  // that all threads copy at once
  static_assert(Tile::kDepth % kPassDepth == 0 && Slice::kExtent % kPassExtent == 0,
                "every thread copies the same number of elements");
  const T* from;
  int64_t pass_stride, k_stride;
  int k, left;  // this thread's first step of k, and how many rows or columns are left from its first one on
  uint32_t to;  // in the slice

  GPUKIT_DEVICE SimtElements(const T* origin, int64_t extent, int64_t extent_stride, int64_t k_stride_)
      : pass_stride(kPassExtent * extent_stride), k_stride(kDense ? 1 : k_stride_) {
    const bool along_k = kDense || extent_stride != 1;  // neighbouring threads read along k
    const int thread = static_cast<int>(threadIdx.x);
    const int at = along_k ? thread / kPassDepth : thread % kPassExtent;
    k = along_k ? thread % kPassDepth : thread / kPassExtent;
    left = (extent < Slice::kExtent ? static_cast<int>(extent) : Slice::kExtent) - at;
    from = origin + at * extent_stride + k * k_stride;
    to = k * Slice::kPitchBytes + at * sizeof(T);
  }
  GPUKIT_DEVICE void copy(uint32_t slice, int k_left) {
#pragma unroll
    for (int line = 0; line < Tile::kDepth; line += kPassDepth) {
      const int inside = k < k_left - line ? left : 0;
      const T* element = from + line * k_stride;
#pragma unroll
      for (int at = 0; at < Slice::kExtent; at += kPassExtent, element += pass_stride)
        copy_async_if<sizeof(T)>(at < inside, slice + to + line * Slice::kPitchBytes + at * static_cast<int>(sizeof(T)),
                                 element);
    }
    from += Tile::kDepth * k_stride;
  }
};

template <typename T, typename Slice, typename Tile, Major kMajor>
struct SimtLoader : SimtElements<T, Slice, Tile, kMajor == Major::k> {
  using SimtElements<T, Slice, Tile, kMajor == Major::k>::SimtElements;
};
template <typename T, typename Slice, typename Tile>
struct SimtLoader<T, Slice, Tile, Major::mn> : SimtChunks<T, Slice, Tile> {
  using SimtChunks<T, Slice, Tile>::SimtChunks;
};

/// kA and kB say how `a` and `b` lie in memory. Major::mn needs a base, strides, batch strides and rows or columns of
/// multiples of 16 bytes. k is at most kSimtMaxDepth.
template <typename T, typename Tile, Major kA, Major kB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kResident)
    gemm_simt(T* out, const T* a, const T* b, MatmulProblem s) {
  using ASlice = SimtSlice<T, Tile, Tile::kRows>;
  using BSlice = SimtSlice<T, Tile, Tile::kColumns>;
  constexpr int kDepth = Tile::kDepth, kStages = Tile::kStages;
  constexpr int kElementBytes = sizeof(T), kVector = 16 / kElementBytes;
  constexpr int kStageBytes = ASlice::kBytes + BSlice::kBytes;
  static_assert(kStages * kStageBytes == Tile::shared_bytes(kElementBytes), "the host reserves what the stages take");
  static_assert(kDepth % 2 == 0, "steps alternate between two sets of chunks");
  static_assert(kStages >= 3, "a stage is filled while another is read and a third one waits");
  extern __shared__ __align__(16) unsigned char simt_stages[];

  const GemmPlace place = place_of(blockIdx.x, static_cast<uint32_t>((s.m + Tile::kRows - 1) / Tile::kRows),
                                   static_cast<uint32_t>((s.n + Tile::kColumns - 1) / Tile::kColumns));
  const int64_t row = int64_t{place.row_tile} * Tile::kRows, column = int64_t{place.column_tile} * Tile::kColumns;
  const MatmulOffsets at = batch_offsets(s, place.batch);

  // A warp is 8 x 4 threads. Neighbours share their chunks of a, every other two those of b, so that half a warp reads
  // no more than the 128 bytes shared memory gives in a cycle.
  constexpr int kRowStep = 8 * kVector, kColumnStep = 4 * kVector;  // from one chunk of a thread to its next
  constexpr int kRowChunks = Tile::kWarpRows / kRowStep, kColumnChunks = Tile::kWarpColumns / kColumnStep;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int thread_row = warp % (Tile::kRows / Tile::kWarpRows) * Tile::kWarpRows + lane / 2 % 8 * kVector;
  const int thread_column =
      warp / (Tile::kRows / Tile::kWarpRows) * Tile::kWarpColumns + (lane % 2 + lane / 16 * 2) * kVector;

  SimtLoader<T, ASlice, Tile, kA> a_loader(a + at.a + row * s.a_m, s.m - row, s.a_m, s.a_k);
  SimtLoader<T, BSlice, Tile, kB> b_loader(b + at.b + column * s.b_n, s.n - column, s.b_n, s.b_k);
  const uint32_t stages = shared_address(simt_stages);
  int k_left = static_cast<int>(s.k);  // to copy; below zero: further slices were asked for than there are
  const auto copy_slice = [&](int stage) {
    a_loader.copy(stages + stage, k_left);
    b_loader.copy(stages + stage + ASlice::kBytes, k_left);
    commit_copies();
    k_left -= kDepth;
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) copy_slice(i * kStageBytes);

  T* const to = out + at.out + (row + thread_row) * s.out_m + (column + thread_column) * s.out_n;
  const bool vectors = s.out_n == 1 && s.out_m % kVector == 0 && reinterpret_cast<uint64_t>(out + at.out) % 16 == 0;
  /// f(row of sums, first column of sums, place, columns inside the output) for each chunk of outputs of this thread.
  const auto each_chunk = [&](auto&& f) {
#pragma unroll
    for (int i = 0; i < kRowChunks * kVector; ++i) {
      const int down = i / kVector * kRowStep + i % kVector;
      if (row + thread_row + down >= s.m) continue;
#pragma unroll
      for (int j = 0; j < kColumnChunks; ++j) {
        const int along = j * kColumnStep;
        f(i, j * kVector, to + down * s.out_m + along * s.out_n, s.n - column - thread_column - along);
      }
    }
  };

  T sums[kRowChunks * kVector][kColumnChunks * kVector] = {};
  if (s.subtracts)
    each_chunk([&](int i, int j, const T* place, int64_t columns_left) {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (e < columns_left) sums[i][j + e] = negated(place[e * s.out_n]);
    });
  Vec<T, kVector> a_chunks[2][kRowChunks], b_chunks[2][kColumnChunks];
  const unsigned char* const a_first = simt_stages + thread_row * kElementBytes;
  const unsigned char* const b_first = simt_stages + ASlice::kBytes + thread_column * kElementBytes;
  const auto chunk_at = [](const unsigned char* place) { return *reinterpret_cast<const Vec<T, kVector>*>(place); };
  const auto load_chunks = [&](int set, int stage, int step) {
#pragma unroll
    for (int i = 0; i < kRowChunks; ++i)
      a_chunks[set][i] = chunk_at(a_first + stage + (step * ASlice::kPitchBytes + i * kRowStep * kElementBytes));
#pragma unroll
    for (int j = 0; j < kColumnChunks; ++j)
      b_chunks[set][j] = chunk_at(b_first + stage + (step * BSlice::kPitchBytes + j * kColumnStep * kElementBytes));
  };
  const auto add_products = [&](int set) {
#pragma unroll
    for (int i = 0; i < kRowChunks * kVector; ++i)
#pragma unroll
      for (int j = 0; j < kColumnChunks * kVector; ++j)
        sums[i][j] = fused_step(sums[i][j], a_chunks[set][i / kVector].v[i % kVector],
                                b_chunks[set][j / kVector].v[j % kVector]);
  };

  // A stage is filled again one slice after it was read: the barrier between the two is the only one of a slice.
  constexpr int kLastStage = (kStages - 1) * kStageBytes;
  int reading = 0, filling = kLastStage;
  const auto await_slice = [] {
    wait_copies<kStages - 2>();
    __syncthreads();
  };
  await_slice();
  load_chunks(0, reading, 0);
  constexpr int kAhead = (kStages - 1) * kDepth;  // of k copied or asked for before it is read
#pragma unroll 1
  while (k_left + kAhead >= kDepth) {
#pragma unroll
    for (int step = 0; step < kDepth; ++step) {
      if (step == kDepth - 1) {
        await_slice();
        filling = reading;
        reading = reading == kLastStage ? 0 : reading + kStageBytes;
      }
      load_chunks((step + 1) % 2, reading, (step + 1) % kDepth);
      if (step == 0) copy_slice(filling);
      add_products(step % 2);
    }
  }
  // A padded step would turn a sum of -0 into +0, so the last slice stops at k.
#pragma unroll 1
  for (int step = 0; step < k_left + kAhead; ++step) {
    load_chunks(0, reading, step);
    add_products(0);
  }

  each_chunk([&](int i, int j, T* place, int64_t columns_left) {
    Vec<T, kVector> results;
#pragma unroll
    for (int e = 0; e < kVector; ++e) results.v[e] = s.subtracts ? negated(sums[i][j + e]) : sums[i][j + e];
    if (vectors && columns_left >= kVector) {
      store_vec<T, kVector>(place, results);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (e < columns_left) place[e * s.out_n] = results.v[e];
    }
  });
}

}  // namespace gpukit
