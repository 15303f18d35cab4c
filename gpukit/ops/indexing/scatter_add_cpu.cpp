#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/indexing/scatter_add.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

/// Integers wrap.
template <typename C>
C plus(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}

template <typename T>
constexpr bool kTaken =
    !std::is_same_v<T, bool> && !std::is_same_v<T, std::complex<float>> && !std::is_same_v<T, std::complex<double>>;

}  // namespace

void scatter_add(const ScatterRows& rows) {
  const int64_t num_rows = rows.sorted.shape(0), count = rows.sorted.shape(1), width = rows.out.shape(1);
  visit_arithmetic(rows.out.dtype(), [&]<typename T>() {
    if constexpr (kTaken<T>)
      runtime::run_host("scatter_add", rows.out.device(),
                        {write(rows.out), read(rows.sorted), read(rows.order), read(rows.values)},
                        [num_rows, count, width](void* const* p) {
                          constexpr int64_t kGrain = 8192;
                          T* out = static_cast<T*>(p[0]);
                          const auto* sorted = static_cast<const int64_t*>(p[1]);
                          const auto* order = static_cast<const int64_t*>(p[2]);
                          const T* values = static_cast<const T*>(p[3]);
                          parallel_for(num_rows * count, kGrain, [=](int64_t begin, int64_t stop) {
                            for (int64_t i = begin; i < stop; ++i) {
                              const int64_t place = sorted[i], row = i / count, end = (row + 1) * count;
                              if (place < 0 || (i != row * count && sorted[i - 1] == place)) continue;
                              compute_t<T> sum = cpu::load(out[row * width + place]);
                              for (int64_t at = i; at < end && sorted[at] == place; ++at)
                                sum = plus(sum, cpu::load(values[row * count + order[at]]));
                              out[row * width + place] = cpu::store<T>(sum);
                            }
                          });
                        });
  });
}

}  // namespace gpukit::cpu
