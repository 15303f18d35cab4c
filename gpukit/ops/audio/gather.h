// Runs the element functions of *.cuh files of this family on either backend.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpukit/base/thread_pool.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/audio/gather.cuh"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::audio {

/// out[i] = F::at(i, a, b, c, params) for contiguous arrays; a, b and c may be undefined. `kernel` is
/// gather_elements<F>. `cost`: about how many operations an element takes.
template <typename F>
void gather(const char* op, const jit::Kernel& kernel, const Array& out, const Array& a, const Array& b, const Array& c,
            const typename F::Params& params, int64_t cost = 16) {
  const int64_t size = out.size();
  if (size == 0) return;
  if (out.device().kind == DeviceKind::cuda) {
    constexpr int64_t kBlock = 256;
    const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(std::min<int64_t>(ceil_div(size, kBlock), 1 << 20)),
                                   .block_x = kBlock};
    jit::launch(kernel, out.device(), config, write(out), read_if(a), read_if(b), read_if(c),
                GatherParams<F>{size, params});
    return;
  }
  runtime::run_host(op, out.device(), {write(out), read_if(a), read_if(b), read_if(c)},
                    [size, params, cost](void* const* address) {
                      auto* to = static_cast<typename F::Value*>(address[0]);
                      const auto* from_a = static_cast<const float*>(address[1]);
                      const auto* from_b = static_cast<const float*>(address[2]);
                      const auto* from_c = static_cast<const float*>(address[3]);
                      parallel_for(size, std::max<int64_t>(1, 65536 / cost), [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) to[i] = F::at(i, from_a, from_b, from_c, params);
                      });
                    });
}

/// The names of gather_elements of some functions.
inline std::vector<std::string> gather_names(std::initializer_list<const char*> functions) {
  std::vector<std::string> names;
  for (const char* function : functions)
    names.push_back(std::string("gpukit::gather_elements<gpukit::") + function + ">");
  return names;
}

}  // namespace gpukit::audio
