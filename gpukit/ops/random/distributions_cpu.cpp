#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/random/distributions_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

template <typename T>
void fill_with(const Array& out, random::State state, const random::Distribution& distribution) {
  runtime::run_host(
      "random distribution", out.device(), {write(out)}, [size = out.size(), state, distribution](void* const* p) {
        constexpr int64_t kGrain = 1024;
        T* to = static_cast<T*>(p[0]);
        parallel_for(size, kGrain, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            to[i] = static_cast<T>(random::draw(distribution, {state.seed, state.offset, static_cast<uint64_t>(i)}));
        });
      });
}

}  // namespace

void random_distribution(const Array& out, random::State state, const random::Distribution& distribution) {
  switch (out.dtype()) {
    case DType::float32: return fill_with<float>(out, state, distribution);
    case DType::float64: return fill_with<double>(out, state, distribution);
    default: return fill_with<int64_t>(out, state, distribution);
  }
}

}  // namespace gpukit::cpu
