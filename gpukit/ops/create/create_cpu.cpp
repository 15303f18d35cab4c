#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

constexpr int64_t kGrain = 32768;

template <typename T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, half>)
    return to_half(round_to_odd(value));
  else if constexpr (std::is_same_v<T, bfloat16>)
    return to_bfloat16(round_to_odd(value));
  else
    return static_cast<T>(value);
}

/// Calls f<T>() for integers and floats, the only dtypes of a sequence.
template <typename F>
void visit_real(DType dtype, F&& f) {
  visit_arithmetic(dtype, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, std::complex<float>> &&
                  !std::is_same_v<T, std::complex<double>>)
      f.template operator()<T>();
  });
}

}  // namespace

void sequence(const Array& out, int64_t start, int64_t step) {
  visit_real(out.dtype(), [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      runtime::run_host(
          "arange", out.device(), {write(out)},
          [size = out.size(), first = static_cast<uint64_t>(start), by = static_cast<uint64_t>(step)](void* const* p) {
            T* to = static_cast<T*>(p[0]);
            parallel_for(size, kGrain, [=](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(first + static_cast<uint64_t>(i) * by);
            });
          });
    }
  });
}

void sequence(const Array& out, double start, double step, const double* last) {
  const bool exact_last = last != nullptr;
  visit_real(out.dtype(), [&]<typename T>() {
    runtime::run_host(
        "linspace", out.device(), {write(out)},
        [size = out.size(), start, step, exact_last, end_value = exact_last ? *last : 0.0](void* const* p) {
          T* to = static_cast<T*>(p[0]);
          parallel_for(size, kGrain, [=](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) to[i] = from_double<T>(start + static_cast<double>(i) * step);
          });
          if (exact_last) to[size - 1] = from_double<T>(end_value);
        });
  });
}

}  // namespace gpukit::cpu
