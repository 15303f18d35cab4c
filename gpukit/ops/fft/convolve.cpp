#include "gpukit/ops/fft/convolve.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/fft/fft.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/matmul/matmul.h"

namespace gpukit {
namespace {

// Below this a product of windows is quicker than three transforms.
constexpr int64_t kDirectLength = 64;
constexpr int64_t kWindowElements = int64_t{1} << 22;

bool is_direct(DType dtype, int64_t length) {
  return (!is_floating(dtype) && !is_complex(dtype)) || length <= kDirectLength;
}

/// A length of factors 2, 3 and 5, whose transforms are direct.
int64_t good_length(int64_t least) {
  int64_t best = 1;
  while (best < least) best *= 2;
  for (int64_t fives = 1; fives < best; fives *= 5)
    for (int64_t threes = fives; threes < best; threes *= 3) {
      int64_t length = threes;
      while (length < least) length *= 2;
      best = std::min(best, length);
    }
  return best;
}

/// result[k] = sum over j of padded[k + j] weights[j]: windows of `padded` times a vector, some rows at a time.
void slide(const Array& padded, const Array& weights, const Array& result) {
  const int64_t length = weights.size(), rows = result.size();
  const int64_t step = std::max<int64_t>(1, kWindowElements / length);
  const Array column = weights.expand_dims(1), into = result.expand_dims(1);
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    const Array windows(padded.storage(), padded.dtype(), {count, length}, {1, 1},
                        padded.offset_bytes() + begin * itemsize(padded.dtype()));
    const Array part = into.narrow(0, begin, count);
    matmul(copy(windows), column, &part, {.out_dtype = padded.dtype()});
  }
}

/// All sums of `a`, the longer one, and `v`.
Array by_windows(const Array& a, const Array& v) {
  const int64_t beside = v.size() - 1;
  const std::array<std::pair<int64_t, int64_t>, 1> widths{{{beside, beside}}};
  const Array all = Array::empty({a.size() + beside}, a.dtype(), a.device());
  slide(pad(a, widths), contiguous(flip(v)), all);
  return all;
}

Array by_transforms(const Array& a, const Array& v) {
  const int64_t count = a.size() + v.size() - 1, length = good_length(count);
  const DType dtype = a.dtype();
  Array all;
  if (is_complex(dtype))
    all = fft::ifft(multiply(fft::fft(a, length), fft::fft(v, length)), length);
  else
    all = fft::irfft(multiply(fft::rfft(a, length), fft::rfft(v, length)), length);
  return astype(all.narrow(0, 0, count), dtype);
}

struct Sequences {
  Array a, v;
  Sequences(const char* op, const Array& first, const Array& second) {
    check_same_device(op, first, second);
    check_arithmetic(op, "a", first);
    check_arithmetic(op, "v", second);
    for (const Array* x : {&first, &second})
      if (x->ndim() != 1 || x->size() == 0)
        throw ShapeError(op, x == &first ? "a" : "v", "be 1-D with at least one element", x->shape().str());
    const DType common = promote(op, first.dtype(), second.dtype());
    a = contiguous(astype(first, common));
    v = contiguous(astype(second, common));
  }
};

/// Every sum of the convolution; the longer sequence slides over the shorter one.
Array all_sums(const Array& a, const Array& v) {
  const Array &longer = a.size() < v.size() ? v : a, &shorter = a.size() < v.size() ? a : v;
  return is_direct(a.dtype(), shorter.size()) ? by_windows(longer, shorter) : by_transforms(longer, shorter);
}

/// The sums of a mode: `late` counts the odd one of `same` from the end.
Array part_of(const Array& all, int64_t n, int64_t m, ConvolveMode mode, bool late) {
  const int64_t shorter = std::min(n, m), longer = std::max(n, m);
  if (mode == ConvolveMode::full) return all;
  if (mode == ConvolveMode::valid) return all.narrow(0, shorter - 1, longer - shorter + 1);
  return all.narrow(0, late ? shorter / 2 : (shorter - 1) / 2, longer);
}

}  // namespace

ConvolveMode convolve_mode(const char* op, std::string_view name) {
  if (name == "full") return ConvolveMode::full;
  if (name == "same") return ConvolveMode::same;
  if (name == "valid") return ConvolveMode::valid;
  throw ArgumentError(op, "mode", "be full, same or valid", std::string(name));
}

Array convolve(const Array& a, const Array& v, ConvolveMode mode) {
  const Sequences s("convolve", a, v);
  return copy(part_of(all_sums(s.a, s.v), a.size(), v.size(), mode, false));
}

Array correlate(const Array& a, const Array& v, ConvolveMode mode) {
  const Sequences s("correlate", a, v);
  const Array turned = contiguous(flip(is_complex(s.v.dtype()) ? conj(s.v) : s.v));
  return copy(part_of(all_sums(s.a, turned), a.size(), v.size(), mode, a.size() < v.size()));
}

}  // namespace gpukit
