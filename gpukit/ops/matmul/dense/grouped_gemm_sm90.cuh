// Products of rows in the order of their experts (grouped_rows.cuh) on sm_90a: gemm90 over a list of tiles, whose rows
// go back to their places as they are stored. An element's sum is that of gemm90.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/matmul/dense/gemm_sm90.cuh"
#include "gpukit/ops/matmul/dense/grouped_problem.cuh"

namespace gpukit {

/// Where a tile stands, in the order of experts, and where its rows end.
struct ExpertAt : Gemm90At {
  int end;
};

/// Lines of 128 bytes in shared memory that go to rows of the result, 8 threads a line.
template <int Lines>
struct ScatteredLines {
  int rows[Lines / 16];  // -1: none

  /// `row_of` gives the row of a line.
  template <typename F>
  GPUKIT_DEVICE explicit ScatteredLines(const F& row_of) {
#pragma unroll
    for (int i = 0; i < Lines / 16; ++i) rows[i] = row_of(static_cast<int>(threadIdx.x) % 128 / 8 + i * 16);
  }

  /// The lines as fill_box and fill_transposed leave them, to columns from `column` on, of n.
  template <typename Out>
  GPUKIT_DEVICE void store(Out* out, uint32_t buffer, int column, int n, int64_t out_m, int64_t out_n,
                           bool pieces) const {
    constexpr int kPiece = 16 / static_cast<int>(sizeof(Out));
    const int thread = static_cast<int>(threadIdx.x) % 128, line = thread / 8, chunk = thread % 8;
    column += chunk * kPiece;
#pragma unroll
    for (int i = 0; i < Lines / 16; ++i) {
      if (rows[i] < 0 || column >= n) continue;
      const uint4 piece = load_piece(buffer + (line + i * 16) * 128 + (chunk ^ line % 8) * 16);
      Out* to = out + rows[i] * out_m + column * out_n;
      if (pieces && column + kPiece <= n) {
        *reinterpret_cast<uint4*>(to) = piece;
      } else {
        const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
        for (int j = 0; j < kPiece; ++j)
          if (column + j < n)
            put(to + j * out_n, words[j * static_cast<int>(sizeof(Out)) / 4] >> j * 8 * sizeof(Out) % 32);
      }
    }
  }

 private:
  static GPUKIT_DEVICE uint4 load_piece(uint32_t address) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address)
                 : "memory");
    return v;
  }
  template <typename Out>
  static GPUKIT_DEVICE void put(Out* to, uint32_t bits) {
    if constexpr (sizeof(Out) == 2)
      *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(bits);
    else
      *reinterpret_cast<uint32_t*>(to) = bits;
  }
};

/// 64 rows by N columns of sums to the rows that `lines` name, which stand as rows or, `kTransposed`, as columns.
template <bool kTransposed, typename Out, int N, typename Lines, typename Sum, typename F, typename Operands>
GPUKIT_DEVICE void scatter_sums(const Lines& lines, Out* out, uint32_t buffers, const Sum* d, int barrier,
                                const Gemm90Problem& s, Gemm90At at, bool pieces, const F& finish, Operands& operands) {
  constexpr int kColumns = kTransposed ? N : 128 / static_cast<int>(sizeof(Out));  // of one box
  static_assert(N % kColumns == 0 && (!kTransposed || sizeof(Out) == 2), "a line is 128 bytes");
#pragma unroll
  for (int box = 0; box < N / kColumns; ++box, at.column += kColumns) {
    const uint32_t buffer = buffers + (box & 1) * 64 * 128;
    typename F::template Value<Sum> v[kColumns / 2];
    finish.template apply<kColumns>(v, &d[box * kColumns / 2], operands, at);
    if (box + 1 < N / kColumns) finish.template fetch<kColumns>(operands, {at.row, at.column + kColumns, at.batch});
    named_barrier(barrier, 128);  // all threads have read what left this buffer before
    if constexpr (kTransposed)
      fill_transposed<Out, kColumns, false>(buffer, v);
    else
      fill_box<Out, 128>(buffer, v);
    named_barrier(barrier, 128);
    lines.store(out, buffer, kTransposed ? at.row : at.column, kTransposed ? s.m : s.n, kTransposed ? s.out_n : s.out_m,
                kTransposed ? s.out_m : s.out_n, pieces);
  }
}

/// The tiles of a list, instead of AllTiles. Rows stand as rows or, `kTransposed`, as columns. The list is read before
/// run_gemm90 waits for the kernel before: these kernels do not overlap.
template <bool kTransposed>
struct ListedTiles {
  static constexpr bool kScattered = true;
  static constexpr int kBlocks = 1;
  const ExpertTiles* list;
  const int32_t* order;
  int listed, pieces;

  GPUKIT_DEVICE ListedTiles(const ExpertTiles* list, const int32_t* order, int pieces)
      : list(list), order(order), listed(list->tiles), pieces(pieces) {}

  /// Tiles of the side that is not listed.
  template <int Rows, int Columns>
  GPUKIT_DEVICE int others(const Gemm90Problem& s) const {
    return kTransposed ? (s.m + Rows - 1) / Rows : (s.n + Columns - 1) / Columns;
  }
  template <int Rows, int Columns>
  GPUKIT_DEVICE int count(const Gemm90Problem& s) const {
    return listed * others<Rows, Columns>(s);
  }
  /// Listed tiles of one group by one piece of the weights, then by the next.
  template <int Rows, int Columns>
  GPUKIT_DEVICE ExpertAt at(const Gemm90Problem& s, int tile) const {
    const int in_all = s.group * others<Rows, Columns>(s), group = tile / in_all, in_group = tile - group * in_all;
    const int together = min(s.group, listed - group * s.group), other = in_group / together;
    const ExpertTile* tiles = reinterpret_cast<const ExpertTile*>(list + 1);
    const int4 found = __ldg(reinterpret_cast<const int4*>(tiles + group * s.group + in_group - other * together));
    if (kTransposed) return {{other * Rows, found.y, found.x}, found.z};
    return {{found.y, other * Columns, found.x}, found.z};
  }

  template <typename Out, int N, Gemm90Store kStore, typename Sum, typename F, typename Operands>
  GPUKIT_DEVICE void store(Out* out, uint32_t buffers, const Sum* d, int barrier, const Gemm90Problem& s,
                           const ExpertAt& at, const F& finish, Operands& operands) const {
    const int first = kTransposed ? at.column : at.row;
    const ScatteredLines<kTransposed ? N : 64> lines(
        [&](int line) { return first + line < at.end ? order[first + line] : -1; });
    scatter_sums<kTransposed, Out, N>(lines, out, buffers, d, barrier, s, at, pieces != 0, finish, operands);
  }
};

/// The experts of a few rows, found by the block itself: no row is moved, each expert is multiplied by all of them, as
/// columns, and what belongs to others is dropped.
struct MetExperts {
  static constexpr bool kScattered = true;
  static constexpr int kBlocks = 1;
  static constexpr int kMostRows = 64;
  struct Found {
    int32_t id[kMostRows], expert[kMostRows];  // of each row, -1: none; the experts, ascending
    bool first[kMostRows];                     // of its expert
  };
  const Found& found;
  int met, pieces;

  /// Called by the whole block. A bad id is noted by the first one, which clears the row, too.
  template <typename Out>
  GPUKIT_DEVICE MetExperts(Found& found, const int32_t* ids, int64_t id_m, const Gemm90Problem& s, Out* out, int pieces,
                           Fault* fault, int32_t fault_op)
      : found(found), pieces(pieces) {
    const int thread = static_cast<int>(threadIdx.x), rows = s.n;
    int32_t id = -1;
    if (thread < rows) {
      id = ids[thread * id_m];
      if (id < 0 || id >= s.batches) {
        if (blockIdx.x == 0 && id != -1) note_fault(fault, fault_op, id, s.batches);
        id = -1;
      }
      found.id[thread] = id;
    }
    __syncthreads();
    bool first = id >= 0;
    if (thread < rows) {
      for (int i = 0; i < thread; ++i) first = first && found.id[i] != id;
      found.first[thread] = first;
    }
    met = __syncthreads_count(first);
    if (first) {
      int before = 0;
      for (int i = 0; i < rows; ++i) before += found.first[i] && found.id[i] < id;
      found.expert[before] = id;
    }
    if (blockIdx.x == 0) {
      for (int row = 0; row < rows; ++row)
        for (int c = thread; found.id[row] < 0 && c < s.m; c += static_cast<int>(blockDim.x))
          out[row * s.out_n + c * s.out_m] = ::gpukit::store<Out>(0.0f);
    }
    __syncthreads();
  }

  template <int Rows, int Columns>
  GPUKIT_DEVICE int count(const Gemm90Problem& s) const {
    return met * ((s.m + Rows - 1) / Rows);
  }
  template <int Rows, int Columns>
  GPUKIT_DEVICE Gemm90At at(const Gemm90Problem& s, int tile) const {
    const int of_one = (s.m + Rows - 1) / Rows, expert = tile / of_one;
    return {(tile - expert * of_one) * Rows, 0, found.expert[expert]};
  }

  template <typename Out, int N, Gemm90Store kStore, typename Sum, typename F, typename Operands>
  GPUKIT_DEVICE void store(Out* out, uint32_t buffers, const Sum* d, int barrier, const Gemm90Problem& s,
                           const Gemm90At& at, const F& finish, Operands& operands) const {
    const ScatteredLines<N> lines([&](int line) { return line < s.n && found.id[line] == at.batch ? line : -1; });
    scatter_sums<true, Out, N>(lines, out, buffers, d, barrier, s, at, pieces != 0, finish, operands);
  }
};

/// Scales of the columns are those of the tile's expert.
template <typename Out, int Steps>
struct ExpertFinish : Finish<Out, Steps> {
  template <int N>
  using Operands = typename Finish<Out, Steps>::template Operands<N>;
  int64_t scale_batch;

  template <int N>
  GPUKIT_DEVICE void fetch(Operands<N>& o, const Gemm90At& at) const {
    Finish<Out, Steps> of_expert = *this;
    if (of_expert.scale_n != nullptr) of_expert.scale_n += at.batch * scale_batch;
    of_expert.template fetch<N>(o, at);
  }
};

struct ExpertBlockScales : BlockScales {
  int64_t b_batch;

  template <int Columns>
  GPUKIT_DEVICE void fetch(Scales<Columns>& scales, const Gemm90Problem& s, const Gemm90At& at, int i) const {
    BlockScales of_expert = *this;
    of_expert.b += at.batch * b_batch;
    of_expert.fetch(scales, s, at, i);
  }
};

/// Sums as they are. `kTransposed`: a holds the weights, b the rows.
template <typename T, int Rows, int Columns, bool kTransposed>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    grouped90(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, T* out, const ExpertTiles* list,
              const int32_t* order, const __grid_constant__ Gemm90Problem s, int32_t pieces) {
  constexpr Gemm90Store kStore = kTransposed ? Gemm90Store::transposed_tma : Gemm90Store::tma;
  run_gemm90<T, T, Rows, Columns, 0, 0, kStore, false>(&a, &b, &b, &b, out, s, NoFinish{}, NoBlocks{},
                                                       ListedTiles<kTransposed>(list, order, pieces));
}

/// Up to `Columns` rows, which stay where they lie: a holds the weights of all experts, b the rows.
template <typename T, int Rows, int Columns>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    grouped90_in_place(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, T* out, const int32_t* ids,
                       int64_t id_m, const __grid_constant__ Gemm90Problem s, int32_t pieces, Fault* fault,
                       int32_t fault_op) {
  __shared__ MetExperts::Found found;
  start_in_turn();  // which experts are met is what the kernel before wrote
  run_gemm90<T, T, Rows, Columns, 0, 0, Gemm90Store::transposed_tma, false>(
      &a, &b, &b, &b, out, s, NoFinish{}, NoBlocks{}, MetExperts(found, ids, id_m, s, out, pieces, fault, fault_op));
}

/// FP8 operands with scales of the tensor or of rows; `scale_m` is in the order of experts.
template <typename T, typename Out, int Rows, int Columns, int Steps>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    grouped90_scaled(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, Out* out,
                     const ExpertTiles* list, const int32_t* order, const __grid_constant__ Gemm90Problem s,
                     int32_t pieces, const __grid_constant__ Gemm90Epilogue e, const Out* bias, const float* scale_m,
                     const float* scale_n, int64_t scale_batch) {
  run_gemm90<T, Out, Rows, Columns, 0, 0, Gemm90Store::tma, false>(
      &a, &b, &b, &b, out, s, ExpertFinish<Out, Steps>{{s, e, bias, scale_m, scale_n}, scale_batch}, NoBlocks{},
      ListedTiles<false>(list, order, pieces));
}

/// FP8 operands with scales of blocks; those of a are in the order of experts.
template <typename T, typename Out, int Rows, int Columns>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    grouped90_blocks(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, Out* out,
                     const ExpertTiles* list, const int32_t* order, const __grid_constant__ Gemm90Problem s,
                     int32_t pieces, const float* scale_a, const float* scale_b, int64_t scale_a_m, int64_t scale_b_n,
                     int64_t scale_b_batch) {
  run_gemm90<T, Out, Rows, Columns, 0, 0, Gemm90Store::tma, false>(
      &a, &b, &b, &b, out, s, NoFinish{}, ExpertBlockScales{{scale_a, scale_b, scale_a_m, scale_b_n}, scale_b_batch},
      ListedTiles<false>(list, order, pieces));
}

}  // namespace gpukit
