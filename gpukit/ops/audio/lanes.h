// Runs the row functions of *.cuh files of this family on either backend.
#pragma once

#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/lanes.cuh"

namespace gpukit::audio {

template <typename F>
typename F::Value lane_value(int64_t index, const float* a, const float* b, const float* c,
                             const typename F::Params& params) {
  typename F::Sums lanes[kLanes];
  for (auto& sums : lanes) sums = F::none();
  const typename F::Row row = F::row(index, params);
  for (int64_t begin = 0; begin < row.width; begin += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, row.width - begin);
    for (int64_t lane = 0; lane < count; ++lane) F::add(lanes[lane], row, begin + lane, a, b, c, params);
  }
  for (int mask = 1; mask < kLanes; mask <<= 1)
    for (int lane = 0; lane < kLanes; lane += 2 * mask) lanes[lane] = F::merge(lanes[lane], lanes[lane + mask]);
  return F::finish(lanes[0], row, a, b, c, params);
}

/// out[row] = F of row for contiguous arrays; a, b and c may be undefined. `kernel` is lane_values<F>. `cost`: about
/// how many operations a row takes.
template <typename F>
void lane_values(const char* op, const jit::Kernel& kernel, const Array& out, const Array& a, const Array& b,
                 const Array& c, const typename F::Params& params, int64_t cost) {
  const int64_t rows = out.nbytes() / static_cast<int64_t>(sizeof(typename F::Value));
  if (rows == 0) return;
  if (out.device().kind == DeviceKind::cuda) {
    constexpr int64_t kWarps = 4;
    const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(std::min<int64_t>(ceil_div(rows, kWarps), 1 << 20)),
                                   .block_x = kWarps * kLanes};
    jit::launch(kernel, out.device(), config, write(out), read_if(a), read_if(b), read_if(c),
                LaneParams<F>{rows, params});
    return;
  }
  runtime::run_host(
      op, out.device(), {write(out), read_if(a), read_if(b), read_if(c)}, [rows, params, cost](void* const* address) {
        auto* to = static_cast<typename F::Value*>(address[0]);
        const auto* from_a = static_cast<const float*>(address[1]);
        const auto* from_b = static_cast<const float*>(address[2]);
        const auto* from_c = static_cast<const float*>(address[3]);
        parallel_for(rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, cost)), [&](int64_t begin, int64_t end) {
          for (int64_t row = begin; row < end && work_wanted(); ++row)
            to[row] = lane_value<F>(row, from_a, from_b, from_c, params);
        });
      });
}

/// The names of lane_values of some functions.
inline std::vector<std::string> lane_names(std::initializer_list<const char*> functions) {
  std::vector<std::string> names;
  for (const char* function : functions) names.push_back(std::string("gpukit::lane_values<gpukit::") + function + ">");
  return names;
}

}  // namespace gpukit::audio
