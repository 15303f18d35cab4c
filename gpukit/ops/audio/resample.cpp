#include "gpukit/ops/audio/resample.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/resample.cuh"
#include "gpukit/ops/common/tables.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::audio {
namespace {

constexpr const char* kOp = "resample";
constexpr int64_t kMaxRate = 10'000'000;
/// Ratios whose filters take more than this are read from the curve.
constexpr int64_t kMaxTableValues = int64_t{1} << 20;

const jit::KernelSet kernels("gpukit/ops/audio/resample.cuh",
                             gather_names({"SincTable", "ResampleByTable", "ResampleByCurve"}));
enum Kernel { kTable, kByTable, kByCurve };

ResampleParams make_params(int64_t n, int64_t length, int64_t from, int64_t to) {
  ResampleParams p{};
  const int64_t common = std::gcd(from, to);
  p.n = n;
  p.length = length;
  p.up = to / common;
  p.down = from / common;
  const double lower = std::min(1.0, static_cast<double>(p.up) / static_cast<double>(p.down));
  p.reach = static_cast<int64_t>(std::ceil(kSincCrossings / lower));
  p.taps = 2 * p.reach;
  p.lower = static_cast<float>(lower);
  return p;
}

bool has_table(const ResampleParams& p) { return p.taps <= kMaxTableValues && p.up <= kMaxTableValues / p.taps; }

/// Without phases: the curve.
SincTable::Params table_params(const ResampleParams& p, bool by_table, bool phase_first) {
  if (!by_table) return {};
  return {p.up, p.taps, p.reach, phase_first ? 1 : 0,
          std::min(1.0, static_cast<double>(p.up) / static_cast<double>(p.down))};
}

using Values = std::shared_ptr<const std::vector<float>>;

/// [up, taps] or the curve, for the CPU: those of the last ratios stay.
Values host_table(const ResampleParams& p, bool by_table) {
  struct Cache {
    std::mutex mutex;
    std::map<std::pair<int64_t, int64_t>, Values> tables;
  };
  static Cache& cache = *new Cache;  // threads may compute while the process ends
  const std::pair<int64_t, int64_t> key = by_table ? std::pair(p.up, p.down) : std::pair<int64_t, int64_t>();
  {
    std::lock_guard lock(cache.mutex);
    if (const auto found = cache.tables.find(key); found != cache.tables.end()) return found->second;
  }
  const SincTable::Params params = table_params(p, by_table, true);
  auto made = std::make_shared<std::vector<float>>(static_cast<size_t>(by_table ? p.up * p.taps : kCurvePoints));
  parallel_for(static_cast<int64_t>(made->size()), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      (*made)[static_cast<size_t>(i)] = SincTable::at(i, nullptr, nullptr, nullptr, params);
  });
  constexpr size_t kMostTables = 16;
  std::lock_guard lock(cache.mutex);
  if (cache.tables.size() >= kMostTables) cache.tables.clear();
  return cache.tables.emplace(key, std::move(made)).first->second;
}

/// Eight sums, so that the compiler can use vectors.
float dot(const float* x, const float* filter, int64_t count) {
  float sums[8] = {};
  int64_t k = 0;
  for (; k + 8 <= count; k += 8)
    for (int j = 0; j < 8; ++j) sums[j] += x[k + j] * filter[k + j];
  float rest = 0.0f;
  for (; k < count; ++k) rest += x[k] * filter[k];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])) + rest;
}

void on_host(const Array& to, const Array& signal, const ResampleParams& p, bool by_table) {
  runtime::run_host(
      kOp, to.device(), {write(to), read(signal)},
      [p, by_table, table = host_table(p, by_table), size = to.size()](void* const* address) {
        auto* out = static_cast<float*>(address[0]);
        const auto* x = static_cast<const float*>(address[1]);
        parallel_for(size, std::max<int64_t>(1, 65536 / p.taps), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const ResampleSpan span = resample_span(i, p);
            const float* from = x + span.row + span.first;
            if (by_table) {
              const float* filter = table->data() + span.phase * p.taps;
              out[i] =
                  span.begin < span.end ? dot(from + span.begin, filter + span.begin, span.end - span.begin) : 0.0f;
              continue;
            }
            const float part = static_cast<float>(static_cast<double>(span.phase) / static_cast<double>(p.up));
            double sum = 0;
            for (int64_t k = span.begin; k < span.end; ++k)
              sum += static_cast<double>(
                  from[k] * curve_at(table->data(), static_cast<float>(k - (p.reach - 1)) - part, p.lower));
            out[i] = static_cast<float>(sum) * p.lower;
          }
        });
      });
}

template <typename F>
void launch(Kernel kernel, const Array& to, const Array& signal, const Array& table, const ResampleParams& p) {
  constexpr int64_t kBlock = 256;
  const jit::LaunchConfig config{
      .grid_x = static_cast<unsigned>(std::min<int64_t>(ceil_div(to.size(), kBlock), 1 << 20)), .block_x = kBlock};
  jit::launch(kernels.get(kernel), to.device(), config, write(to), read(signal), read(table), memory::Use{},
              GatherParams<F>{to.size(), p});
}

void on_gpu(const Array& to, const Array& signal, const ResampleParams& p, bool by_table, Temporaries& temporaries) {
  const Dims shape = by_table ? Dims{p.taps, p.up} : Dims{kCurvePoints};
  const SincTable::Params params = table_params(p, by_table, false);
  const TableKey key{0x73696e63, by_table ? p.up : 0, by_table ? p.down : 0, 0};  // "sinc"
  const Array table = kept_table(key, shape, DType::float32, to.device(), temporaries, [&](const Array& values) {
    gather<SincTable>(kOp, kernels.get(kTable), values, {}, {}, {}, params);
  });
  if (by_table)
    launch<ResampleByTable>(kByTable, to, signal, table, p);
  else
    launch<ResampleByCurve>(kByCurve, to, signal, table, p);
}

}  // namespace

Array resample(const Array& signal, int64_t from, int64_t to, const Array* out) {
  check_dtype(kOp, "signal", signal, DType::float32);
  if (signal.ndim() != 1 && signal.ndim() != 2)
    throw ShapeError(kOp, "signal", "have shape [n] or [batch, n]", signal.shape().str());
  for (const int64_t rate : {from, to})
    if (rate < 1 || rate > kMaxRate)
      throw ArgumentError(kOp, "rate", "be 1 to " + std::to_string(kMaxRate), std::to_string(rate));
  const int64_t n = signal.shape(-1), length = checked_product(kOp, n, to) / from;
  Dims shape = signal.shape();
  shape[shape.rank() - 1] = length;
  const Array target = result(kOp, out, shape, DType::float32, signal.device());
  if (target.size() == 0) return target;
  if (from == to) {
    copy_into(target, signal);
    return target;
  }
  const ResampleParams p = make_params(n, length, from, to);
  const bool by_table = has_table(p);
  Temporaries temporaries(kOp);
  const Array rows = contiguous(signal, temporaries);
  const bool direct = target.is_contiguous() && !may_share_memory(target, rows);
  const Array results = direct ? target : temporaries.empty_like(target);
  switch (target.device().kind) {
    case DeviceKind::cpu: on_host(results, rows, p, by_table); break;
    case DeviceKind::cuda: on_gpu(results, rows, p, by_table, temporaries); break;
  }
  if (!direct) copy_into(target, results);
  return target;
}

Array resample_channels(const Array& samples, int64_t channels, int64_t from, int64_t to) {
  check_ndim(kOp, "samples", samples, 1);
  if (channels < 1 || samples.shape(0) % channels != 0)
    throw ShapeError(kOp, "samples", "hold " + std::to_string(channels) + " samples at a time", samples.shape().str());
  if (channels == 1) return resample(samples, from, to);
  const Array rows = contiguous(samples).reshape_view({samples.shape(0) / channels, channels}).transpose();
  const Array results = contiguous(resample(rows, from, to).transpose());
  return results.reshape_view({results.size()});
}

}  // namespace gpukit::audio
