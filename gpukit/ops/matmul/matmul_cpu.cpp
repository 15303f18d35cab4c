#include <algorithm>
#include <cmath>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/ops/matmul/matmul_tile.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

/// One thread's scratch: packed strips of a and b, and the sums of one output tile between slices of k.
template <typename Sum>
struct Scratch {
  static constexpr int64_t kDepth =
      1024 / static_cast<int64_t>(sizeof(Sum));  // of one slice of k: 64 KB each for a and b
  alignas(64) Sum a[kTile * kDepth];
  alignas(64) Sum b[kTile * kDepth];
  alignas(64) Sum sums[kTile * kTile];
};

/// `width` lanes (rows of a or columns of b) by `depth` steps of k, in strips of `Lanes`; missing lanes are zero.
template <int Lanes, typename T, typename Sum>
void pack(Sum* to, const T* from, int64_t width, int64_t lane_stride, int64_t depth, int64_t k_stride) {
  for (int64_t strip = 0; strip < width; strip += Lanes) {
    const int64_t lanes = std::min<int64_t>(Lanes, width - strip);
    const T* base = from + strip * lane_stride;
    for (int64_t k = 0; k < depth; ++k, to += Lanes) {
      for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = Sums<T>::load(base[lane * lane_stride + k * k_stride]);
      for (int64_t lane = lanes; lane < Lanes; ++lane) to[lane] = Sum{};
    }
  }
}

template <typename T, typename Out>
void run_tile(Out* out, const T* a, const T* b, const MatmulSpace& s, int64_t rows, int64_t columns) {
  using Sum = typename Sums<T>::type;
  using Block = TileShape<Sum>;
  Scratch<Sum> scratch;
  std::fill(std::begin(scratch.sums), std::end(scratch.sums), Sum{});
  for (int64_t k = 0; k < s.k; k += Scratch<Sum>::kDepth) {
    const int64_t depth = std::min(Scratch<Sum>::kDepth, s.k - k);
    pack<Block::kRows>(scratch.a, a + k * s.a_k, rows, s.a_m, depth, s.a_k);
    pack<Block::kColumns>(scratch.b, b + k * s.b_k, columns, s.b_n, depth, s.b_k);
    for (int64_t row = 0; row < rows; row += Block::kRows)
      for (int64_t column = 0; column < columns; column += Block::kColumns)
        accumulate<T>(scratch.sums + row * kTile + column, scratch.a + row * depth, scratch.b + column * depth, depth);
  }
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      out[row * s.out_m + column * s.out_n] = Sums<T>::template store<Out>(scratch.sums[row * kTile + column]);
}

template <typename T, typename Out>
void submit(const Array& out, const Array& a, const Array& b, const MatmulSpace& space) {
  runtime::run_host("matmul", out.device(), {write(out), read(a), read(b)}, [s = space](void* const* p) {
    const int64_t row_tiles = (s.m + kTile - 1) / kTile, column_tiles = (s.n + kTile - 1) / kTile;
    const int64_t tiles = row_tiles * column_tiles;
    // Small products are not worth a second thread.
    const int64_t work = std::min(s.m, kTile) * std::min(s.n, kTile) * std::max<int64_t>(s.k, 1);
    const int64_t grain = std::max<int64_t>(1, (1 << 17) / work);
    parallel_for(s.batches * tiles, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const MatmulOffsets at = batch_offsets(s, i / tiles);
        const int64_t row = i % tiles / column_tiles * kTile, column = i % column_tiles * kTile;
        run_tile<T, Out>(static_cast<Out*>(p[0]) + at.out + row * s.out_m + column * s.out_n,
                         static_cast<const T*>(p[1]) + at.a + row * s.a_m,
                         static_cast<const T*>(p[2]) + at.b + column * s.b_n, s, std::min(kTile, s.m - row),
                         std::min(kTile, s.n - column));
      }
    });
  });
}

}  // namespace

void matmul(const Array& out, const Array& a, const Array& b, const MatmulSpace& space) {
  const bool wide = out.dtype() != a.dtype();
  visit_arithmetic(a.dtype(), [&]<typename T>() {
    if (!wide) {
      submit<T, T>(out, a, b, space);
    } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
      submit<T, float>(out, a, b, space);
    } else if constexpr (std::is_same_v<T, int8_t>) {
      submit<T, int32_t>(out, a, b, space);
    }
  });
}

}  // namespace gpukit::cpu
