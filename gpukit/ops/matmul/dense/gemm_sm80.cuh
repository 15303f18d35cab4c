// gemm80: a matrix product on the tensor cores of any chip since SM 80; one block makes one tile of one batch.
// kThreads threads and kSharedBytes of dynamic shared memory; the grid has a block for every tile of every batch.
//
// Each output has one accumulator that takes k in ascending steps of one instruction, so its bits depend on its row and
// its column alone. Past the end of k both operands are zero. 8-bit floats go through partial sums of 128 of k, because
// the unit keeps fewer bits of them than float32 has.
#pragma once
#include "gpukit/ops/common/float8.cuh"
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/common/vec.cuh"
#include "gpukit/ops/matmul/dense/gemm_sm80_tile.cuh"
#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit {

inline constexpr int kStepBytes = 32;   // of k in one instruction
inline constexpr int kChunkBytes = 16;  // of one copy

/// The slices of one operand in shared memory: how they are stored, and the fragments in them.
///
/// A slice is panels of rows of up to 128 bytes that are contiguous in global memory: rows of k, or (Major::mn) rows
/// along m or n. The 16-byte chunks of a row are permuted by its number, so that the same chunk of 8 rows lies in 8
/// different banks.
template <typename T, Major kMajor, int kExtent_, int kWarpExtent, typename Tile>
struct GemmSlice {
  static constexpr int kExtent = kExtent_;
  static constexpr bool kTransposed = kMajor == Major::mn;
  /// Fragments hold rows 2g and 2g + 1 of their 16 instead of g and g + 8: with elements of other sizes than 16 bits
  /// that is what one load of a transposed operand gives.
  static constexpr bool kPaired = kTransposed && sizeof(T) != 2;
  static constexpr int kElementBytes = sizeof(T);
  static constexpr int kDepth = Tile::kSliceBytes / kElementBytes;
  static constexpr int kStepDepth = kStepBytes / kElementBytes;
  static constexpr int kRows = kTransposed ? kDepth : kExtent;
  static constexpr int kLineBytes = kTransposed ? kExtent * kElementBytes : Tile::kSliceBytes;
  static constexpr int kWidth = kLineBytes < 128 ? kLineBytes : 128;
  static constexpr int kRowChunks = kWidth / kChunkBytes;
  static constexpr int kPanelBytes = kRows * kWidth;
  static constexpr int kBytes = kExtent * Tile::kSliceBytes;
  static constexpr int kCopies = kBytes / kChunkBytes / Tile::kThreads;  // per thread
  static constexpr int kPassRows = Tile::kThreads / kRowChunks;          // rows of a panel all threads copy at once
  static constexpr int kFragments = kWarpExtent / 16;
  static_assert(kCopies * kChunkBytes * Tile::kThreads == kBytes, "every thread copies the same number of chunks");
  static_assert(kPassRows % (kTransposed && kElementBytes == 1 ? 16 : 8) == 0,
                "a pass keeps the places of its rows in their group");

  static GPUKIT_DEVICE int permuted(int offset) { return offset ^ ((offset >> 7 & (kRowChunks - 1)) * kChunkBytes); }

  /// The k that the stored row holds. Rows that one load of a fragment reads lie side by side (8-bit elements) or at
  /// every other place (32-bit), because these two fill the banks.
  static GPUKIT_DEVICE int k_of_row(int row) {
    if constexpr (kElementBytes == 1) return (row & ~15) | (row & 6) << 1 | (row >> 3 & 1) << 1 | (row & 1);
    if constexpr (kElementBytes == 4) return (row & ~7) | (row & 1) << 2 | (row >> 1 & 3);
    return row;
  }

  /// Where this lane reads for the first step and the first fragment of its warp, which starts at `extent`.
  struct Lane {
    uint32_t offset, second;  // second: 32-bit transposed elements, the later half of the step
  };
  static GPUKIT_DEVICE Lane lane_at(int extent) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if constexpr (!kTransposed) {
      return {static_cast<uint32_t>(permuted((extent + lane % 16) * kWidth + lane / 16 * kChunkBytes)), 0};
    } else {
      const int start = extent * kElementBytes;
      const int base = start / kWidth * kPanelBytes + start % kWidth;
      if constexpr (kElementBytes == 2) {
        const int row = lane / 16 * 8 + lane % 8;
        return {static_cast<uint32_t>(permuted(base + row * kWidth + lane / 8 % 2 * kChunkBytes)), 0};
      } else if constexpr (kElementBytes == 1) {
        return {static_cast<uint32_t>(permuted(base + lane * kWidth)), 0};
      } else {
        const int row = lane % 4 * 2, in_row = lane / 4 * 8;
        return {static_cast<uint32_t>(permuted(base + row * kWidth + in_row)),
                static_cast<uint32_t>(permuted(base + (row + 1) * kWidth + in_row))};
      }
    }
  }

  /// Fragment `index` of the warp at step `step` of the slice that starts at `slice`.
  static GPUKIT_DEVICE void load(uint32_t (&to)[4], uint32_t slice, Lane lane, int step, int index) {
    if constexpr (!kTransposed) {
      load_matrices(to, ((slice + lane.offset) ^ (step * kStepBytes)) + index * 16 * kWidth);
    } else {
      const int along = index * 16 * kElementBytes;
      const int further = along / kWidth * kPanelBytes + step * kStepDepth * kWidth;
      const uint32_t place = ((slice + lane.offset) ^ (along % kWidth)) + further;
      if constexpr (kElementBytes == 2) {
        load_matrices_transposed(to, place);
      } else if constexpr (kElementBytes == 1) {
        uint32_t pairs[4];
        load_matrices_transposed(pairs, place);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          to[2 * half] = pick_bytes(pairs[2 * half], pairs[2 * half + 1], 0x6420);
          to[2 * half + 1] = pick_bytes(pairs[2 * half], pairs[2 * half + 1], 0x7531);
        }
      } else {
        load_shared(to[0], to[1], place);
        load_shared(to[2], to[3], ((slice + lane.second) ^ (along % kWidth)) + further);
      }
    }
    if constexpr (kElementBytes == 4) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = round_to_tf32(to[i]);
    }
  }
};

/// Brings the slices of one operand into shared memory, one after the other: begin() starts a slice of which `k_left`
/// steps of k are inside, finish() ends what this thread has to do for it.
template <typename T, typename Slice, typename Tile>
struct GemmCopy {
  const char* from;
  int64_t row_stride;
  int row, in_row;  // this thread's first chunk
  int other_left;   // across k, from that chunk: rows, or bytes (transposed)

  /// The operand starts at `origin` and `extent` of its rows or columns are left. Strides are in elements.
  GPUKIT_DEVICE GemmCopy(const T* origin, int64_t extent, int64_t extent_stride, int64_t k_stride) {
    const int line = static_cast<int>(threadIdx.x) / Slice::kRowChunks;
    row = Slice::kTransposed ? Slice::k_of_row(line % Slice::kRows) : line % Slice::kRows;
    in_row = line / Slice::kRows * Slice::kWidth + static_cast<int>(threadIdx.x) % Slice::kRowChunks * kChunkBytes;
    row_stride = Slice::kTransposed ? k_stride : extent_stride;
    from = reinterpret_cast<const char*>(origin + row * row_stride) + in_row;
    const int inside = static_cast<int>(extent < Slice::kExtent ? extent : Slice::kExtent);
    other_left = Slice::kTransposed ? inside * Slice::kElementBytes - in_row : inside - row;
  }

  GPUKIT_DEVICE void begin(uint32_t slice, int k_left) {
    const int rows_left = Slice::kTransposed ? k_left - row : other_left;
    const int bytes_left = Slice::kTransposed ? other_left : k_left * Slice::kElementBytes - in_row;
    const uint32_t to = slice + Slice::permuted(static_cast<int>(threadIdx.x) * kChunkBytes);
#pragma unroll
    for (int i = 0; i < Slice::kCopies; ++i) {
      const int down = i * Slice::kPassRows % Slice::kRows, along = i * Slice::kPassRows / Slice::kRows * Slice::kWidth;
      const int bytes = bytes_left - along;
      copy_async(to + i * Tile::kThreads * kChunkBytes, from + down * Slice::kElementBytes * row_stride + along,
                 down >= rows_left || bytes < 0 ? 0
                 : bytes < kChunkBytes          ? bytes
                                                : kChunkBytes);
    }
    from += Slice::kTransposed ? Tile::kSliceBytes * row_stride : Tile::kSliceBytes;
  }
  GPUKIT_DEVICE void finish(uint32_t) {}
};

/// The same for any strides and alignment: element by element through registers, stored along k.
template <typename T, typename Slice, typename Tile>
struct GemmGather {
  static constexpr int kElements = kChunkBytes / Slice::kElementBytes;
  const T* from;
  int64_t extent_stride, k_stride;
  int extent;
  bool along_k;  // neighbouring threads read along k, else along the rows or columns
  Vec<uint32_t, 4> held[Slice::kCopies];

  GPUKIT_DEVICE GemmGather(const T* origin, int64_t extent, int64_t extent_stride, int64_t k_stride)
      : from(origin),
        extent_stride(extent_stride),
        k_stride(k_stride),
        extent(static_cast<int>(extent < Slice::kExtent ? extent : Slice::kExtent)),
        along_k(extent_stride != 1) {}

  struct Chunk {
    int row, number;
  };
  GPUKIT_DEVICE Chunk chunk(int i) const {
    const int c = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
    return along_k ? Chunk{c / Slice::kRowChunks, c % Slice::kRowChunks} : Chunk{c % Slice::kRows, c / Slice::kRows};
  }
  GPUKIT_DEVICE void begin(uint32_t, int k_left) {
#pragma unroll
    for (int i = 0; i < Slice::kCopies; ++i) {
      const Chunk at = chunk(i);
      const int inside = at.row < extent ? k_left - at.number * kElements : 0;
      const T* element = from + at.row * extent_stride + at.number * kElements * k_stride;
      Vec<T, kElements> elements = {};
#pragma unroll
      for (int e = 0; e < kElements; ++e, element += k_stride)
        if (e < inside) elements.v[e] = *element;
      held[i] = *reinterpret_cast<const Vec<uint32_t, 4>*>(&elements);
    }
    from += Slice::kDepth * k_stride;
  }
  GPUKIT_DEVICE void finish(uint32_t slice) {
#pragma unroll
    for (int i = 0; i < Slice::kCopies; ++i) {
      const Chunk at = chunk(i);
      store_shared(slice + Slice::permuted(at.row * Slice::kWidth + at.number * kChunkBytes), held[i].v);
    }
  }
};

/// The sums of one warp: [16 rows][16 columns][half of the columns][as the instruction has them].
template <typename T, int kRows, int kColumns>
struct GemmSums {
  using Sum = typename Mma<T>::Sum;
  Sum total[kRows][kColumns][2][4] = {};

  GPUKIT_DEVICE void add(const uint32_t (&a)[kRows][4], const uint32_t (&b)[kColumns][4]) { add_to(total, a, b); }
  template <int kSliceBytes>
  GPUKIT_DEVICE void end_slice() {}

  static GPUKIT_DEVICE void add_to(Sum (&sums)[kRows][kColumns][2][4], const uint32_t (&a)[kRows][4],
                                   const uint32_t (&b)[kColumns][4]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) Mma<T>::add(sums[i][j][half], a[i], b[j][half], b[j][half + 2]);
  }
};

/// With a partial sum for each 128 of k, added to the total in float32.
template <typename T, int kRows, int kColumns>
struct GemmPartialSums {
  float total[kRows][kColumns][2][4] = {};
  float partial[kRows][kColumns][2][4] = {};

  GPUKIT_DEVICE void add(const uint32_t (&a)[kRows][4], const uint32_t (&b)[kColumns][4]) {
    GemmSums<T, kRows, kColumns>::add_to(partial, a, b);
  }
  template <int kSliceBytes>
  GPUKIT_DEVICE void end_slice() {
    static_assert(kSliceBytes == 128, "a slice is a partial sum");
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            total[i][j][half][e] += partial[i][j][half][e];
            partial[i][j][half][e] = 0.0f;
          }
  }
};
template <typename T>
inline constexpr bool kHasPartialSums = false;
template <>
inline constexpr bool kHasPartialSums<float8_e4m3> = true;
template <>
inline constexpr bool kHasPartialSums<float8_e5m2> = true;

template <bool kCondition, typename Yes, typename No>
struct GemmEither {
  using type = Yes;
};
template <typename Yes, typename No>
struct GemmEither<false, Yes, No> {
  using type = No;
};

template <typename T, typename Slice, typename Tile, Major kMajor>
using GemmLoader =
    typename GemmEither<kMajor == Major::any, GemmGather<T, Slice, Tile>, GemmCopy<T, Slice, Tile>>::type;

/// A sum as an element of the output, rounded once; integers wrap around.
template <typename Out>
struct GemmResult {
  template <typename Sum>
  static GPUKIT_DEVICE Out of(Sum v) {
    return static_cast<Out>(v);
  }
};
template <>
struct GemmResult<half> {
  static GPUKIT_DEVICE half of(float v) { return to_half(v); }
};
template <>
struct GemmResult<bfloat16> {
  static GPUKIT_DEVICE bfloat16 of(float v) { return to_bfloat16(v); }
};
template <>
struct GemmResult<float8_e4m3> {
  static GPUKIT_DEVICE float8_e4m3 of(float v) { return to_float8_e4m3(v); }
};
template <>
struct GemmResult<float8_e5m2> {
  static GPUKIT_DEVICE float8_e5m2 of(float v) { return to_float8_e5m2(v); }
};

/// Where a batch's results go. `vectors`: four neighbours of a row can be stored at once.
template <typename Out>
struct GemmTarget {
  Out* out;
  int64_t rows, columns, row_stride, column_stride;
  bool vectors;

  GPUKIT_DEVICE GemmTarget(Out* out, const MatmulProblem& s)
      : out(out), rows(s.m), columns(s.n), row_stride(s.out_m), column_stride(s.out_n) {
    vectors = column_stride == 1 && row_stride % 4 == 0 && reinterpret_cast<uint64_t>(out) % (4 * sizeof(Out)) == 0;
  }

  /// The sums of columns `column` to `column` + 3 of one row; `column` is a multiple of 4.
  template <typename Sum>
  GPUKIT_DEVICE void store(int64_t row, int64_t column, const Vec<Sum, 4>& sums) const {
    if (row >= rows) return;
    Out* to = out + row * row_stride + column * column_stride;
    Vec<Out, 4> results;
#pragma unroll
    for (int i = 0; i < 4; ++i) results.v[i] = GemmResult<Out>::of(sums.v[i]);
    if (vectors && column + 4 <= columns) {
      store_vec<Out, 4>(to, results);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (column + i < columns) to[i * column_stride] = results.v[i];
    }
  }
};

/// Stores the sums of 16 rows of a warp, four neighbours at a time and whole rows together, by way of `staging`: 16
/// rows of shared memory, kStagingPitch apart.
template <int kFragments>
inline constexpr int kStagingPitch = kFragments * 16 + 8;  // 8 more: rows that are written together use other banks
template <bool kPairedRows, bool kPairedColumns, typename Sum, int kFragments, typename Target>
GPUKIT_DEVICE void store_rows(const Target& target, int64_t row, int64_t column, const Sum (&sums)[kFragments][2][4],
                              Sum* staging) {
  constexpr int kPitch = kStagingPitch<kFragments>, kQuads = kFragments * 4;
  const int lane = static_cast<int>(threadIdx.x) % 32, group = lane / 4, t = lane % 4;
#pragma unroll
  for (int j = 0; j < kFragments; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {  // of the rows
      const Sum(&left)[4] = sums[j][0], (&right)[4] = sums[j][1];
      Sum* to = staging + (kPairedRows ? 2 * group + half : group + 8 * half) * kPitch + j * 16;
      const int c = 2 * half;
      if constexpr (kPairedColumns) {
        store_vec<Sum, 4>(to + 4 * t, {left[c], right[c], left[c + 1], right[c + 1]});
      } else {
        store_vec<Sum, 2>(to + 2 * t, {left[c], left[c + 1]});
        store_vec<Sum, 2>(to + 2 * t + 8, {right[c], right[c + 1]});
      }
    }
  __syncwarp();
#pragma unroll 2
  for (int quad = lane; quad < 16 * kQuads; quad += 32) {
    const int r = quad / kQuads, c = quad % kQuads * 4;
    target.store(row + r, column + c, load_vec<Sum, 4>(staging + r * kPitch + c));
  }
  __syncwarp();
}

/// kA and kB say how `a` and `b` lie in memory. T's results may be stored as T or as Mma<T>::Sum.
template <typename T, typename Out, typename Tile, Major kA, Major kB>
__global__ void __launch_bounds__(Tile::kThreads, kHasPartialSums<T> ? 1 : Tile::kResident)
    gemm80(Out* out, const T* a, const T* b, MatmulProblem s) {
  using ASlice = GemmSlice<T, kA, Tile::kRows, Tile::kWarpRows, Tile>;
  using BSlice = GemmSlice<T, kB, Tile::kColumns, Tile::kWarpColumns, Tile>;
  constexpr int kSteps = Tile::kSliceBytes / kStepBytes, kStages = Tile::kStages, kStageBytes = Tile::kStageBytes;
  static_assert(kSteps % 2 == 0, "steps alternate between two sets of fragments");
  static_assert(kStages >= 3, "a stage is filled while another is read and a third one waits");
  extern __shared__ __align__(128) unsigned char gemm_stages[];

  const GemmPlace place = place_of(blockIdx.x, static_cast<uint32_t>((s.m + Tile::kRows - 1) / Tile::kRows),
                                   static_cast<uint32_t>((s.n + Tile::kColumns - 1) / Tile::kColumns));
  const int64_t row = int64_t{place.row_tile} * Tile::kRows, column = int64_t{place.column_tile} * Tile::kColumns;
  const MatmulOffsets at = batch_offsets(s, place.batch);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp % (Tile::kRows / Tile::kWarpRows) * Tile::kWarpRows;
  const int warp_column = warp / (Tile::kRows / Tile::kWarpRows) * Tile::kWarpColumns;

  GemmLoader<T, ASlice, Tile, kA> a_loader(a + at.a + row * s.a_m, s.m - row, s.a_m, s.a_k);
  GemmLoader<T, BSlice, Tile, kB> b_loader(b + at.b + column * s.b_n, s.n - column, s.b_n, s.b_k);
  const typename ASlice::Lane a_lane = ASlice::lane_at(warp_row);
  const typename BSlice::Lane b_lane = BSlice::lane_at(warp_column);

  const uint32_t stages = shared_address(gemm_stages);
  int left = static_cast<int>((s.k + ASlice::kDepth - 1) / ASlice::kDepth);  // slices to fill
  const auto begin_slice = [&](uint32_t stage) {
    const int inside = left > 1 ? ASlice::kDepth : static_cast<int>((s.k - 1) % ASlice::kDepth) + 1;
    a_loader.begin(stage, inside);
    b_loader.begin(stage + ASlice::kBytes, inside);
  };
  const auto finish_slice = [&](uint32_t stage) {
    a_loader.finish(stage);
    b_loader.finish(stage + ASlice::kBytes);
  };
#pragma unroll 1
  for (int i = 0; i < kStages - 1; ++i, --left) {
    if (left > 0) {
      begin_slice(stages + i * kStageBytes);
      finish_slice(stages + i * kStageBytes);
    }
    commit_copies();
  }

  typename GemmEither<kHasPartialSums<T>, GemmPartialSums<T, ASlice::kFragments, BSlice::kFragments>,
                      GemmSums<T, ASlice::kFragments, BSlice::kFragments>>::type sums;
  constexpr bool kAhead = Tile::kAhead && !kHasPartialSums<T>;
  constexpr int kSets = kAhead ? 2 : 1;
  uint32_t a_fragments[kSets][ASlice::kFragments][4], b_fragments[kSets][BSlice::kFragments][4];
  const auto load_fragments = [&](int set, uint32_t stage, int step) {
#pragma unroll
    for (int i = 0; i < ASlice::kFragments; ++i) ASlice::load(a_fragments[set][i], stage, a_lane, step, i);
#pragma unroll
    for (int j = 0; j < BSlice::kFragments; ++j)
      BSlice::load(b_fragments[set][j], stage + ASlice::kBytes, b_lane, step, j);
  };

  // A stage is filled again one slice after it was read: the barrier between the two is the only one of a slice.
  constexpr uint32_t kLastStage = (kStages - 1) * kStageBytes;
  uint32_t reading = 0;
  const auto await_slice = [] {
    wait_copies<kStages - 2>();
    __syncthreads();
  };
  await_slice();
  if constexpr (kAhead) load_fragments(0, stages + reading, 0);
#pragma unroll 1
  for (; left > 1 - kStages; --left) {
    const bool more = left > 0;
    const uint32_t filling = stages + (reading == 0 ? kLastStage : reading - kStageBytes);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if constexpr (kAhead) {
        if (step == kSteps - 1) {
          await_slice();
          reading = reading == kLastStage ? 0 : reading + kStageBytes;
        }
        load_fragments((step + 1) % kSets, stages + reading, (step + 1) % kSteps);
      } else {
        load_fragments(0, stages + reading, step);
      }
      if (step == 0) {
        if (more) begin_slice(filling);
        commit_copies();
      }
      sums.add(a_fragments[step % kSets], b_fragments[step % kSets]);
    }
    if (more) finish_slice(filling);
    sums.template end_slice<Tile::kSliceBytes>();
    if constexpr (!kAhead) {
      await_slice();
      reading = reading == kLastStage ? 0 : reading + kStageBytes;
    }
  }

  __syncthreads();  // the stages become the staging of the results
  using Sum = typename Mma<T>::Sum;
  const GemmTarget<Out> target(out + at.out, s);
  constexpr int kStaging = 16 * kStagingPitch<BSlice::kFragments>;
  static_assert(Tile::kWarps * kStaging * sizeof(Sum) <= Tile::kSharedBytes, "the staging lies in the stages");
  Sum* staging = reinterpret_cast<Sum*>(gemm_stages) + warp * kStaging;
#pragma unroll
  for (int i = 0; i < ASlice::kFragments; ++i)
    store_rows<ASlice::kPaired, BSlice::kPaired>(target, row + warp_row + i * 16, column + warp_column, sums.total[i],
                                                 staging);
}

}  // namespace gpukit
