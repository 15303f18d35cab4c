// The steps of a blocked LU and Cholesky factorisation: panels, exchanges of rows, triangular blocks. What lies between
// them are matrix products. Each element takes one fused multiply-add for each step of k in ascending order, as it does
// in a product, so that no width of a panel changes a bit.
#pragma once
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/linalg/blocked_params.cuh"
#include "gpukit/ops/linalg/factor.cuh"
#include "gpukit/ops/linalg/factor_block.cuh"

namespace gpukit::linalg {

/// A candidate for a pivot. NaN comes before every number, the first row before its equals.
template <typename R>
struct Best {
  R size;
  int32_t row;
};
template <typename R>
GPUKIT_DEVICE Best<R> better(const Best<R>& a, const Best<R>& b) {
  const bool a_nan = a.size != a.size, b_nan = b.size != b.size;
  bool first = a.row < b.row;
  if (a_nan != b_nan)
    first = a_nan;
  else if (!a_nan && a.size != b.size)
    first = a.size > b.size;
  return first ? a : b;
}
template <typename R>
GPUKIT_DEVICE Best<R> no_candidate() {
  return {R(-1), 0x7fffffff};
}
/// Of all threads of the block, whole warps; a barrier must lie between two calls.
template <typename R>
GPUKIT_DEVICE Best<R> block_best(Best<R> mine, Best<R> (&warps)[kPanelThreads / 32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int mask = 16; mask > 0; mask /= 2) mine = better(mine, shuffle_xor(mine, mask));
  if (lane == 0) warps[warp] = mine;
  __syncthreads();
  mine = lane < static_cast<int>(blockDim.x) / 32 ? warps[lane] : no_candidate<R>();
  for (int mask = 16; mask > 0; mask /= 2) mine = better(mine, shuffle_xor(mine, mask));
  return mine;
}

/// A panel [rows, columns] of less than 2^32 elements, by all threads of the block.
template <typename W>
GPUKIT_DEVICE void copy_panel(W* to, int64_t to_pitch, const W* from, int64_t from_pitch, const StepParams& p) {
  const uint32_t columns = static_cast<uint32_t>(p.columns), size = static_cast<uint32_t>(p.rows) * columns;
  for (uint32_t e = threadIdx.x; e < size; e += blockDim.x) {
    const uint32_t row = e / columns, column = e - row * columns;
    to[row * to_pitch + column] = from[row * from_pitch + column];
  }
}

/// One block reduces one panel by row exchanges to L below its diagonal and U. pivots: the row of the matrix each of
/// its rows was exchanged with; the panel begins at row and column p.flag. singular becomes 1 where a pivot is exactly
/// 0.
template <typename T>
__global__ void __launch_bounds__(kPanelThreads, 1)
    lu_panel(T* panel, int32_t* pivots, int32_t* singular, StepParams p) {
  using W = typename Computed<T>::type;
  using R = Real<W>;
  __shared__ Best<R> warps[kPanelThreads / 32];
  const int64_t thread = threadIdx.x, threads = blockDim.x;
  W* const from = piece(panel, blockIdx.x * p.a.batch);
  W* a = from;
  int64_t pitch = p.a.row;
  if (p.in_shared) {
    a = reinterpret_cast<W*>(factor_shared);
    pitch = p.columns | 1;  // rows side by side lie in different banks
    copy_panel(a, pitch, from, p.a.row, p);
    __syncthreads();
  }
  Best<R> mine = no_candidate<R>();
  for (int64_t i = thread; i < p.rows; i += threads)
    mine = better(mine, Best<R>{modulus(a[i * pitch]), static_cast<int32_t>(i)});
  for (int64_t c = 0; c < p.columns; ++c) {
    const Best<R> best = block_best(mine, warps);
    W* const above = a + c * pitch;
    if (thread == 0) pivots[blockIdx.x * p.vector + c] = p.flag + best.row;
    if (best.row != c)
      for (int64_t j = thread; j < p.columns; j += threads) {
        const W kept = above[j];
        above[j] = a[best.row * pitch + j];
        a[best.row * pitch + j] = kept;
      }
    __syncthreads();
    const bool zero = best.size == R(0);
    if (zero && thread == 0) singular[blockIdx.x] = 1;
    const W pivot = above[c];
    mine = no_candidate<R>();
    for (int64_t i = c + 1 + thread; i < p.rows; i += threads) {
      W* const line = a + i * pitch;
      if (!zero) {
        const W factor = line[c] / pivot;
        line[c] = factor;
        for (int64_t j = c + 1; j < p.columns; ++j) line[j] = minus_product(line[j], factor, above[j]);
      }
      if (c + 1 < p.columns) mine = better(mine, Best<R>{modulus(line[c + 1]), static_cast<int32_t>(i)});
    }
  }
  if (!p.in_shared) return;
  __syncthreads();
  copy_panel(from, p.a.row, a, pitch, p);
}

/// Tiles of 32 columns by 8 groups of rows.
inline constexpr int kTileColumns = 32, kTileGroups = 8;

struct TilePlace {
  int64_t batch, column;  // the tile's first one
};
GPUKIT_DEVICE TilePlace tile_place(int64_t columns) {
  const int64_t tiles = (columns + kTileColumns - 1) / kTileColumns;
  return {blockIdx.x / tiles, blockIdx.x % tiles * kTileColumns};
}

/// Makes a panel's exchanges in the columns beside it. a: the panel's first row of the whole matrix; p.rows exchanges
/// at most kMostPanelColumns; p.columns beside the panel, which begins at column p.flag.
template <typename T>
__global__ void __launch_bounds__(kTileColumns* kTileGroups) exchange_rows(T* a, const int32_t* pivots, StepParams p) {
  using W = typename Computed<T>::type;
  __shared__ int32_t rows[kMostPanelColumns];
  __shared__ int32_t first[kMostPanelColumns];
  W* const top = reinterpret_cast<W*>(factor_shared);
  W* const below = top + p.rows * kTileColumns;
  const TilePlace place = tile_place(p.columns);
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  for (int k = group * kTileColumns + lane; k < p.rows; k += kTileColumns * kTileGroups)
    rows[k] = pivots[place.batch * p.vector + k] - p.flag;
  __syncthreads();
  // Exchanges with one row below share the place of the first of them.
  for (int k = group * kTileColumns + lane; k < p.rows; k += kTileColumns * kTileGroups) {
    int at = 0;
    while (rows[at] != rows[k]) ++at;
    first[k] = at;
  }
  const int64_t beside = place.column + lane;
  const bool inside = beside < p.columns;
  W* const column = piece(a, place.batch * p.a.batch) + (beside < p.flag ? beside : beside + p.rows);
  for (int k = group; k < p.rows && inside; k += kTileGroups) {
    top[k * kTileColumns + lane] = column[k * p.a.row];
    if (rows[k] >= p.rows) below[k * kTileColumns + lane] = column[rows[k] * p.a.row];
  }
  __syncthreads();
  for (int k = 0; k < p.rows && inside && group == 0; ++k) {
    W& other = rows[k] < p.rows ? top[rows[k] * kTileColumns + lane] : below[first[k] * kTileColumns + lane];
    const W kept = top[k * kTileColumns + lane];
    top[k * kTileColumns + lane] = other;
    other = kept;
  }
  __syncthreads();
  for (int k = group; k < p.rows && inside; k += kTileGroups) {
    column[k * p.a.row] = top[k * kTileColumns + lane];
    if (rows[k] >= p.rows && first[k] == k) column[rows[k] * p.a.row] = below[k * kTileColumns + lane];
  }
}

/// x of lower x = b in the place of b [rows, columns], whose columns lie side by side; rows are at most a diagonal
/// block. p.flag: the diagonal is 1.
/// A warp has every eighth row of 32 columns; a row that is solved goes to all through shared memory.
template <typename T>
__global__ void __launch_bounds__(kTileColumns* kTileGroups) solve_block(T* b, const T* lower, StepParams p) {
  using W = typename Computed<T>::type;
  constexpr int kWidth = diagonal_block(sizeof(W)), kPitch = kWidth + 1, kRows = kWidth / kTileGroups;
  W* const l = reinterpret_cast<W*>(factor_shared);
  W* const solved = l + kWidth * kPitch;
  const TilePlace place = tile_place(p.columns);
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  const int rows = static_cast<int>(p.rows);
  const W* const from = piece(lower, place.batch * p.b.batch);
  for (int e = group * kTileColumns + lane; e < rows * rows; e += kTileColumns * kTileGroups)
    if (e % rows <= e / rows) l[e / rows * kPitch + e % rows] = from[e / rows * p.b.row + e % rows * p.b.column];
  const bool inside = place.column + lane < p.columns;
  W* const column = piece(b, place.batch * p.a.batch) + (inside ? place.column + lane : 0);
  W mine[kRows];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    const int row = s * kTileGroups + group;
    mine[s] = inside && row < rows ? column[row * p.a.row] : of_real<W>(0);
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kRows; ++s)
#pragma unroll 1
    for (int turn = 0; turn < kTileGroups; ++turn) {
      const int row = s * kTileGroups + turn;
      if (row >= rows) break;
      if (group == turn) {
        if (!p.flag) mine[s] = mine[s] / l[row * kPitch + row];
        solved[row * kTileColumns + lane] = mine[s];
      }
      __syncthreads();
      const W x = solved[row * kTileColumns + lane];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const int other = r * kTileGroups + group;
        if (r >= s && other > row && other < rows) mine[r] = minus_product(mine[r], l[other * kPitch + row], x);
      }
    }
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    const int row = s * kTileGroups + group;
    if (inside && row < rows) column[row * p.a.row] = mine[s];
  }
}

/// The upper triangle U of a block U^H U, whose upper triangle is read; U^H is written below. NaN in all of it where a
/// pivot is not positive and finite. One block a matrix.
template <typename T>
__global__ void __launch_bounds__(kTileColumns* kTileGroups) cholesky_block(T* a, StepParams p) {
  using W = typename Computed<T>::type;
  using R = Real<W>;
  constexpr int kPitch = diagonal_block(sizeof(W)) + 1;
  W* const u = reinterpret_cast<W*>(factor_shared);
  W* const matrix = piece(a, blockIdx.x * p.a.batch);
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  const int rows = static_cast<int>(p.rows), thread = group * kTileColumns + lane;
  for (int i = group; i < rows; i += kTileGroups)
    for (int j = i + lane; j < rows; j += kTileColumns) u[i * kPitch + j] = matrix[i * p.a.row + j];
  __syncthreads();
  bool fails = false;
  for (int k = 0; k < rows; ++k) {
    const R pivot = real_part(u[k * kPitch + k]);
    fails = !(pivot > R(0)) || pivot - pivot != R(0);
    if (fails) break;
    const R diagonal = root(pivot);
    __syncthreads();
    for (int j = k + thread; j < rows; j += kTileColumns * kTileGroups)
      u[k * kPitch + j] = j == k ? of_real<W>(diagonal) : scaled(u[k * kPitch + j], R(1) / diagonal);
    __syncthreads();
    for (int i = k + 1 + group; i < rows; i += kTileGroups) {
      const W left = conjugate(u[k * kPitch + i]);
      for (int j = i + lane; j < rows; j += kTileColumns)
        u[i * kPitch + j] = minus_product(u[i * kPitch + j], left, u[k * kPitch + j]);
    }
    __syncthreads();
  }
  for (int i = group; i < rows; i += kTileGroups)
    for (int j = lane; j < rows; j += kTileColumns) {
      W value = j >= i ? u[i * kPitch + j] : conjugate(u[j * kPitch + i]);
      if (fails) value = not_a_number<W>();
      matrix[i * p.a.row + j] = value;
    }
}

/// to [rows, columns] = from^H, in tiles of 32 x 32.
template <typename T>
__global__ void __launch_bounds__(kTileColumns* kTileGroups) mirror(T* to, const T* from, StepParams p) {
  using W = typename Computed<T>::type;
  __shared__ W tile[kTileColumns][kTileColumns + 1];
  const int64_t tiles = (p.rows + kTileColumns - 1) / kTileColumns;
  const int64_t across = (p.columns + kTileColumns - 1) / kTileColumns;
  const int64_t batch = blockIdx.x / (tiles * across), at = blockIdx.x % (tiles * across);
  const int64_t row = at / across * kTileColumns, column = at % across * kTileColumns;
  const int lane = static_cast<int>(threadIdx.x), group = static_cast<int>(threadIdx.y);
  const W* const x = piece(from, batch * p.b.batch);
  for (int i = group; i < kTileColumns; i += kTileGroups)
    if (column + i < p.columns && row + lane < p.rows)
      tile[i][lane] = x[(column + i) * p.b.row + (row + lane) * p.b.column];
  __syncthreads();
  W* const y = piece(to, batch * p.a.batch);
  for (int i = group; i < kTileColumns; i += kTileGroups)
    if (row + i < p.rows && column + lane < p.columns)
      y[(row + i) * p.a.row + (column + lane) * p.a.column] = conjugate(tile[lane][i]);
}

/// This thread's elements of all matrices: f(batch, row, column).
template <typename F>
GPUKIT_DEVICE void each_element(const StepParams& p, F&& f) {
  const int64_t size = p.batch * p.rows * p.columns, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < size; e += step) {
    const int64_t line = e / p.columns;
    f(line / p.rows, line % p.rows, e - line * p.columns);
  }
}

/// The other triangle of a square becomes 0, and all of it NaN where the last pivot is. p.flag: the upper one is kept.
template <typename T>
__global__ void __launch_bounds__(256) finish_cholesky(T* a, StepParams p) {
  using W = typename Computed<T>::type;
  each_element(p, [&](int64_t batch, int64_t i, int64_t j) {
    W* const matrix = piece(a, batch * p.a.batch);
    if (i == p.rows - 1 && j == p.columns - 1) return;
    const Real<W> last = real_part(matrix[(p.rows - 1) * p.a.row + p.columns - 1]);
    if (last != last)
      matrix[i * p.a.row + j] = not_a_number<W>();
    else if (p.flag ? j < i : j > i)
      matrix[i * p.a.row + j] = of_real<W>(0);
  });
}

/// out = x, or NaN where the matrix is singular.
template <typename T>
__global__ void __launch_bounds__(256) finish_solve(T* out, const T* x, const int32_t* singular, StepParams p) {
  using W = typename Computed<T>::type;
  each_element(p, [&](int64_t batch, int64_t i, int64_t j) {
    piece(out, batch * p.a.batch)[i * p.a.row + j] =
        singular[batch] ? not_a_number<W>() : piece(x, batch * p.b.batch)[i * p.b.row + j];
  });
}

/// Of factored matrices; det, sign or logarithm may be null. One warp a matrix brings the diagonal, whose elements are
/// taken in ascending order.
template <typename T>
__global__ void __launch_bounds__(32) blocked_determinants(T* det, T* sign, Real<typename Computed<T>::type>* logarithm,
                                                           const T* a, const int32_t* pivots, StepParams p) {
  using W = typename Computed<T>::type;
  __shared__ W values[32];
  __shared__ bool exchanged[32];
  const int64_t batch = blockIdx.x;
  const W* const matrix = piece(a, batch * p.a.batch);
  Determinant<W> made;
  for (int64_t first = 0; first < p.rows; first += 32) {
    const int64_t mine = first + threadIdx.x;
    if (mine < p.rows) {
      values[threadIdx.x] = matrix[mine * (p.a.row + 1)];
      exchanged[threadIdx.x] = pivots[batch * p.vector + mine] != mine;
    }
    __syncthreads();
    for (int k = 0; k < 32 && first + k < p.rows; ++k) {
      if (exchanged[k]) made.turn();
      made.take(values[k]);
    }
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  made.store(piece(det, batch), piece(sign, batch), logarithm == nullptr ? logarithm : logarithm + batch);
}

}  // namespace gpukit::linalg
