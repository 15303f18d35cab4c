#include <algorithm>

#include "gpukit/jit/clusters.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/recurrent/lstm_impl.h"
#include "gpukit/runtime/device.h"

namespace gpukit::cuda {

namespace {

using enum DType;
const jit::KernelSet kernels("gpukit/ops/recurrent/lstm.cuh", {"gpukit::lstm<{T}>"},
                             {float16, bfloat16, float32, float64});

std::vector<std::string> form_names() {
  std::vector<std::string> names;
  for (const LstmForm& form : kLstmForms)
    names.push_back("gpukit::lstm_sm90<{T}, " + std::to_string(form.blocks) + ", " + std::to_string(form.threads) +
                    ", " + std::to_string(form.held) + ">");
  return names;
}
const jit::KernelSet cluster_kernels("gpukit/ops/recurrent/lstm_sm90.cuh", form_names(), {float16, bfloat16, float32},
                                     std::vector<std::string>{"90a"});

constexpr int kUnitsOfWarp = 4;
constexpr int64_t kSharedBytes = 226 * 1024;  // of a block, beside its barriers
constexpr int64_t kMostItems = 16;            // of a cluster: more leave no room for weights

int64_t round_up(int64_t n, int64_t step) { return ceil_div(n, step) * step; }

/// A session's part of the device may lie apart, but for groups of 8 multiprocessors, which hold a cluster together.
int clusters_at_once(const jit::Kernel& kernel, const LstmForm& form, Device device) {
  constexpr int kGroupedMultiprocessors = 8;
  const int sm_count = runtime::current_sm_count(device);
  const int all = jit::clusters_at_once(kernel, device, static_cast<unsigned>(form.blocks),
                                        static_cast<unsigned>(form.threads), static_cast<unsigned>(kSharedBytes));
  if (sm_count >= runtime::properties(device).sm_count) return all;
  if (form.blocks == 1) return std::min(all, sm_count);
  return form.blocks > kGroupedMultiprocessors ? 0 : std::min(all, sm_count / kGroupedMultiprocessors);
}

}  // namespace

std::optional<LstmPlan> plan_lstm(const LstmParams& p, int64_t weight_bytes, const std::function<int(int)>& clusters) {
  if (p.steps == 0) return std::nullopt;
  for (int number = 0; number < static_cast<int>(std::size(kLstmForms)); ++number) {
    const LstmForm& form = kLstmForms[number];
    const int64_t units = round_up(ceil_div(p.hidden, form.blocks), kUnitsOfWarp);
    if (units * 32 / kUnitsOfWarp > form.threads) continue;
    const int at_once = clusters(number);
    if (at_once < 1) continue;
    const int64_t threads = units * 32 / kUnitsOfWarp, groups = ceil_div(p.hidden, kLstmGroup);
    const int64_t for_direction = std::max<int64_t>(1, at_once / p.directions);
    const int64_t items = std::min(kMostItems, ceil_div(p.batch, for_direction));
    const int64_t states = 4 * (2 * items * groups * kLstmGroup + items * units + 4 * units);
    const int64_t of_group = 8 * threads * 4 * weight_bytes;
    const int64_t staged =
        std::clamp<int64_t>((kSharedBytes - states) / of_group, 0, std::max<int64_t>(0, groups - form.held));
    return LstmPlan{number,
                    {static_cast<int32_t>(units), static_cast<int32_t>(items), static_cast<int32_t>(groups),
                     static_cast<int32_t>(staged)},
                    ceil_div(p.batch, items),
                    static_cast<unsigned>(threads),
                    static_cast<unsigned>(states + staged * of_group)};
  }
  return std::nullopt;
}

namespace {

std::optional<LstmPlan> choose(const LstmCall& call) {
  const Device device = call.out.device();
  const DType dtype = call.out.dtype();
  if (runtime::properties(device).sm_major != 9 || !cluster_kernels.has(dtype)) return std::nullopt;
  return plan_lstm(call.params, itemsize(dtype), [&](int form) {
    return clusters_at_once(cluster_kernels.get(form, dtype), kLstmForms[form], device);
  });
}

}  // namespace

void lstm(const LstmCall& call) {
  const LstmParams& p = call.params;
  const LstmWeights &f = call.weights[0], &b = call.weights[1];
  const auto launch = [&](const jit::Kernel& kernel, const jit::LaunchConfig& config, const auto&... more) {
    jit::launch(kernel, call.out.device(), config, write(call.out), write(call.h_n), write(call.c_n), read(call.gates),
                read(f.w_hh), read(b.w_hh), read_if(f.b_ih), read_if(b.b_ih), read_if(f.b_hh), read_if(b.b_hh),
                read_if(call.h0), read_if(call.c0), p, more...);
  };
  const unsigned directions = static_cast<unsigned>(p.directions);
  if (const std::optional<LstmPlan> plan = choose(call)) {
    const auto blocks = static_cast<unsigned>(plan->clusters * kLstmForms[plan->form].blocks);
    launch(cluster_kernels.get(plan->form, call.out.dtype()),
           {.grid_x = blocks, .grid_y = directions, .block_x = plan->threads, .shared_bytes = plan->shared_bytes},
           plan->share);
    return;
  }
  const int64_t shared = (2 * round_up(p.hidden, kLstmGroup) + p.hidden) * itemsize(call.gates.dtype());
  // What every supported chip has.
  if (constexpr int64_t kMost = 99 * 1024; shared > kMost)
    throw UnsupportedError(std::string(call.op) + ": states of " + std::to_string(shared) +
                           " bytes an item do not fit the shared memory of a block (" + std::to_string(kMost) + ")");
  const auto threads = static_cast<unsigned>(std::min<int64_t>(512, round_up(p.hidden * kLstmSlices, 32)));
  launch(kernels.get(0, call.out.dtype()), {.grid_x = static_cast<unsigned>(p.batch),
                                            .grid_y = directions,
                                            .block_x = threads,
                                            .shared_bytes = static_cast<unsigned>(shared)});
}

}  // namespace gpukit::cuda
