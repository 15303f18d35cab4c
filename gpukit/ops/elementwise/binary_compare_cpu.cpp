#include "gpukit/ops/elementwise/arithmetic.cuh"
#include "gpukit/ops/elementwise/binary_impl.h"

namespace gpukit::cpu {

namespace {

template <typename F, typename T>
struct Element {
  static bool of(T x, T y) { return F::apply(load(x), load(y)); }
};

template <typename F, typename T>
void run(const char* name, const Array& out, const ElementInput& a, const ElementInput& b) {
  map_rows(name, out, {a, b}, wide2_row<Element<F, T>, bool, T, T>);
}

template <typename T>
void run_compare(BinaryOp op, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (op == BinaryOp::equal) return run<Equal, T>("equal", out, a, b);
  if (op == BinaryOp::not_equal) return run<NotEqual, T>("not_equal", out, a, b);
  if constexpr (!NumberTraits<T>::kComplex) {
    if (op == BinaryOp::less) return run<Less, T>("less", out, a, b);
    run<LessEqual, T>("less_equal", out, a, b);
  }
}

}  // namespace

void binary_compare(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (dtype == DType::complex64) return run_compare<complex<float>>(op, out, a, b);
  if (dtype == DType::complex128) return run_compare<complex<double>>(op, out, a, b);
  visit_arithmetic(dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, std::complex<float>> && !std::is_same_v<T, std::complex<double>>)
      run_compare<T>(op, out, a, b);
  });
}

}  // namespace gpukit::cpu
