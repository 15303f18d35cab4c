#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/tables.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/fft/fft_impl.h"
#include "gpukit/ops/fft/fft_params.cuh"
#include "gpukit/ops/fft/fft_plan.h"
#include "gpukit/runtime/device.h"

namespace gpukit::cuda {

namespace {

using fft::Elements;
using fft::Transform;

const jit::KernelSet kernels("gpukit/ops/fft/fft.cuh",
                             {"gpukit::fft_rows<{T}>", "gpukit::fft_roots<{T}>", "gpukit::fft_chirp<{T}>",
                              "gpukit::fft_modulate<{T}>", "gpukit::fft_convolve<{T}>", "gpukit::fft_demodulate<{T}>",
                              "gpukit::fft_unfold<{T}>"},
                             {DType::float32, DType::float64});
enum Kernel { kRows, kRoots, kChirp, kModulate, kConvolve, kDemodulate, kUnfold };

constexpr int kBlock = 256;
constexpr int64_t kMaxRows = 64;  // kMaxBlockRows of the kernel

struct Work {
  const char* op;
  DType real;
  Device device;
  Temporaries& temporaries;
  DType complex() const { return real == DType::float64 ? DType::complex128 : DType::complex64; }
  int64_t point_bytes() const { return real == DType::float64 ? 16 : 8; }
  int64_t shared_bytes() const { return runtime::properties(device).shared_per_block_optin; }
  int64_t limit() const { return fft::longest_row(shared_bytes(), point_bytes()); }
};

/// What the ends of a transform need beside their data.
struct Ends {
  double scale = 1.0;
  Array half = {};      // roots of 2 n, for points that are pairs of reals; undefined: they are not
  bool unfold = false;  // the results are of such pairs
};

jit::LaunchConfig over(int64_t size) {
  return {.grid_x = static_cast<unsigned>(std::min<int64_t>(ceil_div(size, kBlock), 1 << 20)), .block_x = kBlock};
}

enum Table : int64_t { kRootTable = 0x66667400, kChirpTable, kFilterTable };

TableKey key_of(const Work& w, Table table, int64_t n, int64_t count, int64_t stride) {
  return {table * 2 + (w.real == DType::float64 ? 1 : 0), n, count, stride};
}

Array roots(Work& w, int64_t n, int64_t count, int64_t stride) {
  return kept_table(key_of(w, kRootTable, n, count, stride), {count}, w.complex(), w.device, w.temporaries,
                    [&](const Array& table) {
                      jit::launch(kernels.get(kRoots, w.real), w.device, over(count), write(table), count, stride, n);
                    });
}

FftSide side_of(const Array& a, int axis, Elements elements, bool conjugate, int64_t n) {
  FftSide side{};
  side.columns = 1;
  side.index_step = 1;
  side.step = a.strides()[axis];
  side.length = a.shape()[axis];
  side.mirror = elements == Elements::hermitian ? n : 0;
  side.real = elements == Elements::real ? 1 : 0;
  side.conjugate = conjugate ? 1 : 0;
  for (int i = 0; i < a.ndim(); ++i) {
    if (i == axis) continue;
    side.shape[side.rank] = a.shape()[i];
    side.strides[side.rank++] = a.strides()[i];
  }
  const bool near = side.rank > 0 && side.strides[side.rank - 1] == 1 && side.shape[side.rank - 1] > 1;
  side.row_fastest = near && side.step != 1 ? 1 : 0;
  return side;
}

/// Rows of `length` points, one behind the other.
FftSide plain_side(int64_t rows, int64_t length) {
  FftSide side{};
  side.columns = side.index_step = side.step = 1;
  side.length = length;
  side.rank = 1;
  side.shape[0] = rows;
  side.strides[0] = length;
  return side;
}

/// `count` rows of each line lie side by side.
FftSide in_columns(FftSide side, int64_t count) {
  side.columns = side.index_step = count;
  side.row_fastest = 1;
  return side;
}

void one_pass(Work& w, const Array& out, const FftSide& to, const Array& x, const FftSide& from, int64_t rows,
              int64_t n, const Ends& ends, int64_t whole) {
  FftParams p{};
  p.rows = rows;
  p.n = static_cast<int32_t>(n);
  std::vector<int> factors = fft::radices(n);
  if (factors.empty()) factors.push_back(1);
  p.num_radices = static_cast<int32_t>(factors.size());
  std::copy(factors.begin(), factors.end(), p.radices);
  p.scale = ends.scale;
  p.unfold = ends.unfold ? 1 : 0;
  p.in = from;
  p.out = to;
  p.twiddle = whole != 0 ? 1 : 0;
  const int64_t row_bytes = fft::row_bytes(n, w.point_bytes());
  const bool columns = from.row_fastest || to.row_fastest;
  p.rows_per_block = static_cast<int32_t>(
      std::min({fft::rows_of_block(n, w.point_bytes(), columns, w.shared_bytes()), kMaxRows, rows}));
  const int64_t work = p.rows_per_block * n / factors.back();
  const auto block = static_cast<unsigned>(std::clamp<int64_t>(ceil_div(work, 64) * 32, 64, 512));
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(ceil_div(rows, p.rows_per_block)),
                                 .block_x = block,
                                 .shared_bytes = static_cast<unsigned>(p.rows_per_block * row_bytes)};
  const Array table = roots(w, n, n, 1);
  if (whole == 0) {
    jit::launch(kernels.get(kRows, w.real), w.device, config, write(out), read(x), read(table), read(table),
                read(table), read_if(ends.half), p);
    return;
  }
  const Array fine = roots(w, whole, std::min(whole, kFineRoots), 1);
  const Array coarse = roots(w, whole, ceil_div(whole, kFineRoots), kFineRoots);
  jit::launch(kernels.get(kRows, w.real), w.device, config, write(out), read(x), read(table), read(fine), read(coarse),
              read_if(ends.half), p);
}

void smooth(Work& w, const Array& out, const FftSide& to, const Array& x, const FftSide& from, int64_t rows, int64_t n,
            const Ends& ends) {
  if (n <= w.limit()) {
    one_pass(w, out, to, x, from, rows, n, ends, 0);
    return;
  }
  // n = first * second: columns of `first` points, then rows of `second`, read and written where they lie.
  int64_t first = fft::balanced_divisor(n, w.limit());
  const bool last = first != 0;
  if (!last) first = fft::largest_divisor(n, w.limit());
  const int64_t second = n / first;
  const Array middle = w.temporaries.empty({rows, n}, w.complex(), w.device);
  one_pass(w, middle, in_columns(plain_side(rows, n), second), x, in_columns(from, second), rows * second, first,
           {.half = ends.half}, n);
  if (last) {
    one_pass(w, out, in_columns(to, first), middle, plain_side(rows * first, second), rows * first, second,
             {.scale = ends.scale}, 0);
    return;
  }
  const Array done = w.temporaries.empty({rows, n}, w.complex(), w.device);
  smooth(w, done, plain_side(rows * first, second), middle, plain_side(rows * first, second), rows * first, second, {});
  // Transforms of one point put the results where they belong: frequency k2 first + k1 lies at [k1, k2].
  FftSide turned = plain_side(rows, n);
  turned.length = 1;
  turned.rank = 3;
  turned.shape[1] = second;
  turned.shape[2] = first;
  turned.strides[1] = 1;
  turned.strides[2] = second;
  FftSide placed = to;
  placed.columns = n;
  one_pass(w, out, placed, done, turned, rows * n, 1, {.scale = ends.scale}, 0);
}

/// The chirp of n and the transform of its filter of m points.
std::pair<Array, Array> chirp_tables(Work& w, int64_t n, int64_t m) {
  const auto both = [&](const Array& chirp, const Array& taps) {
    jit::launch(kernels.get(kChirp, w.real), w.device, over(m), write(chirp), write(taps), n, m);
  };
  const Array chirp =
      kept_table(key_of(w, kChirpTable, n, n, 1), {n}, w.complex(), w.device, w.temporaries, [&](const Array& table) {
        Temporaries inner(w.op);
        both(table, inner.empty({m}, w.complex(), w.device));
      });
  const Array filter =
      kept_table(key_of(w, kFilterTable, n, m, 1), {m}, w.complex(), w.device, w.temporaries, [&](const Array& table) {
        Temporaries inner(w.op);
        Work part{w.op, w.real, w.device, inner};
        const Array taps = inner.empty({m}, w.complex(), w.device);
        both(inner.empty({n}, w.complex(), w.device), taps);
        smooth(part, table, plain_side(1, m), taps, plain_side(1, m), 1, m, {});
      });
  return {chirp, filter};
}

void bluestein(Work& w, const Array& out, const FftSide& to, const Array& x, const FftSide& from, int64_t rows,
               int64_t n, const Ends& ends) {
  const int64_t m = fft::convolution_length(n);
  const auto [chirp, filter] = chirp_tables(w, n, m);
  // Some rows at a time, so that the workspace stays small.
  constexpr int64_t kChunkPoints = int64_t{1} << 24;
  const int64_t chunk = std::clamp<int64_t>(kChunkPoints / m, 1, rows);
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    Temporaries inner(w.op);
    Work part{w.op, w.real, w.device, inner};
    const Array a = inner.empty({count, m}, w.complex(), w.device);
    const Array b = inner.empty({count, m}, w.complex(), w.device);
    jit::launch(kernels.get(kModulate, w.real), w.device, over(count * m), write(a), read(x), read(chirp),
                read_if(ends.half), begin, count, n, m, from);
    smooth(part, b, plain_side(count, m), a, plain_side(count, m), count, m, {});
    jit::launch(kernels.get(kConvolve, w.real), w.device, over(count * m), write(b), read(filter), count * m, m);
    smooth(part, a, plain_side(count, m), b, plain_side(count, m), count, m, {.scale = 1.0 / static_cast<double>(m)});
    jit::launch(kernels.get(kDemodulate, w.real), w.device, over(count * n), write(out), read(a), read(chirp), begin,
                count, n, m, ends.scale, to);
  }
}

void any_length(Work& w, const Array& out, const FftSide& to, const Array& x, const FftSide& from, int64_t rows,
                int64_t n, const Ends& ends) {
  if (fft::is_smooth(n))
    smooth(w, out, to, x, from, rows, n, ends);
  else
    bluestein(w, out, to, x, from, rows, n, ends);
}

/// An even number of reals, there or here, as half as many points that are pairs of them.
void by_pairs(Work& w, const Array& out, FftSide to, const Array& x, FftSide from, int64_t rows, const Transform& t) {
  const int64_t n = t.n / 2;
  Ends ends{.scale = t.scale, .half = roots(w, t.n, n, 1)};
  if (t.input != Elements::real) {
    from.mirror = 0;
    from.folded = n;
    to.pairs = 1;
    any_length(w, out, to, x, from, rows, n, ends);
    return;
  }
  from.pairs = 1;
  if (n <= w.limit() && fft::is_smooth(n)) {
    ends.unfold = true;
    one_pass(w, out, to, x, from, rows, n, ends, 0);
    return;
  }
  const Array points = w.temporaries.empty({rows, n}, w.complex(), w.device);
  any_length(w, points, plain_side(rows, n), x, from, rows, n, {});
  jit::launch(kernels.get(kUnfold, w.real), w.device, over(rows * (n / 2 + 1)), write(out), read(points),
              read(ends.half), int64_t{0}, rows, n, t.scale, to);
}

}  // namespace

void fourier(const char* op, const Array& out, const Array& x, int axis, const Transform& t) {
  Temporaries temporaries(op);
  Work w{op, real_of(out.dtype()), out.device(), temporaries};
  const int64_t rows = out.size() / out.shape()[axis];
  const FftSide from = side_of(x, axis, t.input, t.conjugate_input, t.n);
  const FftSide to = side_of(out, axis, t.output, t.conjugate_output, t.n);
  // Of more passes than one the pairs save nothing: they are taken apart in one more.
  const bool paired = t.n % 2 == 0 && t.input != Elements::complex &&
                      (!fft::is_smooth(t.n) || t.n / 2 <= w.limit() || t.input == Elements::hermitian);
  if (paired)
    by_pairs(w, out, to, x, from, rows, t);
  else
    any_length(w, out, to, x, from, rows, t.n, {.scale = t.scale});
}

}  // namespace gpukit::cuda
