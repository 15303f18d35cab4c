#include "gpukit/ops/fft/convolve.h"

#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using namespace python;
using Function = Array (*)(const Array&, const Array&, ConvolveMode);

template <Function kFunction>
void bind_one(nb::module_& m, const char* op, const char* mode, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& a, const ArrayObject& v, StringArg mode) {
        const Array &first = to_array(op, "a", a), &second = to_array(op, "v", v);
        const ConvolveMode part = convolve_mode(op, to_text(op, "mode", mode));
        return wrap(in_scope([&] { return kFunction(first, second, part); }));
      },
      "a"_a, "v"_a, "mode"_a = mode, doc);
}

}  // namespace

void bind_convolve(nb::module_& m) {
  bind_one<convolve>(
      m, "convolve", "full",
      "The convolution of two sequences: mode full (all n + m - 1 sums), same (the middle max(n, m)) or "
      "valid (where they overlap wholly). Integers are exact; long floats go by Fourier transforms: errors are "
      "relative to the largest elements, and one NaN or infinity reaches every sum.");
  bind_one<correlate>(m, "correlate", "valid",
                      "The cross-correlation sum of a[j + k] * conj(v[j]), by the modes of convolve.");
}

}  // namespace gpukit
