#include "gpukit/ops/audio/separation.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/separation.cuh"
#include "gpukit/ops/audio/signal_rows.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/separation.cuh", gather_names({"RunningMedian", "SoftMask"}));
enum Kernel { kMedian, kMask };

void check(const char* op, const Array& x, const SeparationOptions& o) {
  check_spectrum(op, "stft_mag", x, 2, 0);
  constexpr int64_t kMaxSize = 1 << 16;
  if (o.kernel_size < 1 || o.kernel_size > kMaxSize)
    throw ArgumentError(op, "kernel_size", "be between 1 and 65536", std::to_string(o.kernel_size));
  if (!(o.power > 0)) throw ArgumentError(op, "power", "be positive", std::to_string(o.power));
  if (!(o.margin >= 1) || !std::isfinite(o.margin))
    throw ArgumentError(op, "margin", "be at least 1 and finite", std::to_string(o.margin));
}

/// As RunningMedian, with the elements around each side by side.
void medians_of_host(const char* op, const Array& out, const Array& x, const MedianParams& p) {
  runtime::run_host(op, out.device(), {write(out), read(x)}, [size = out.size(), p](void* const* address) {
    auto* to = static_cast<float*>(address[0]);
    const auto* from = static_cast<const float*>(address[1]);
    const int64_t n = p.in_time ? p.frames : p.bins, step = p.in_time ? p.bins : 1;
    parallel_for(size, std::max<int64_t>(1, 4096 / p.size), [&](int64_t begin, int64_t end) {
      std::vector<uint32_t> around(static_cast<size_t>(p.size));
      const auto middle = around.begin() + p.size / 2;
      for (int64_t index = begin; index < end && work_wanted(); ++index) {
        const int64_t here = p.in_time ? index / p.bins % p.frames : index % p.bins;
        const float* line = from + (index - here * step);
        float sum = 0;
        for (int64_t k = 0; k < p.size; ++k) {
          const float value = line[RunningMedian::mirrored(here - p.size / 2 + k, n) * step];
          sum += value - value;  // NaN for NaN and for infinity
          around[static_cast<size_t>(k)] = ordered_bits(value);
        }
        if (sum != 0) {
          to[index] = RunningMedian::at(index, from, nullptr, nullptr, p);
          continue;
        }
        std::nth_element(around.begin(), middle, around.end());
        to[index] = from_ordered_bits(*middle);
      }
    });
  });
}

Array medians(const char* op, const Array& x, const SeparationOptions& o, bool in_time, Temporaries& temporaries) {
  const Array result = temporaries.empty_like(x);
  const MedianParams p{x.shape(-2), x.shape(-1), o.kernel_size, in_time ? 1 : 0};
  if (x.device().kind == DeviceKind::cuda)
    gather<RunningMedian>(op, kernels.get(kMedian), result, x, {}, {}, p);
  else
    medians_of_host(op, result, x, p);
  return result;
}

void mask(const char* op, const Array& x, const Array& part, const Array& other, const SeparationOptions& o,
          const Array& to) {
  const bool hard = !std::isfinite(o.power);
  const SoftMask::Params p{hard ? 1.0f : static_cast<float>(o.power), static_cast<float>(o.margin), hard ? 1 : 0};
  gather<SoftMask>(op, kernels.get(kMask), to, x, part, other, p, 64);
}

Array one_part(const char* op, const Array& magnitudes, const SeparationOptions& o, bool in_time, const Array* out) {
  check(op, magnitudes, o);
  Temporaries temporaries(op);
  const Output output(op, out, magnitudes.shape(), DType::float32, magnitudes.device(), {&magnitudes}, temporaries);
  if (output.empty()) return output.finish();
  const Array x = contiguous(magnitudes, temporaries);
  const Array part = medians(op, x, o, in_time, temporaries), other = medians(op, x, o, !in_time, temporaries);
  mask(op, x, part, other, o, output.to());
  return output.finish();
}

}  // namespace

std::pair<Array, Array> hpss(const Array& magnitudes, const SeparationOptions& o) {
  constexpr const char* kOp = "hpss";
  check(kOp, magnitudes, o);
  const Device device = magnitudes.device();
  std::pair<Array, Array> parts{result(kOp, nullptr, magnitudes.shape(), DType::float32, device),
                                result(kOp, nullptr, magnitudes.shape(), DType::float32, device)};
  if (magnitudes.size() == 0) return parts;
  Temporaries temporaries(kOp);
  const Array x = contiguous(magnitudes, temporaries);
  const Array steady = medians(kOp, x, o, true, temporaries), sudden = medians(kOp, x, o, false, temporaries);
  mask(kOp, x, steady, sudden, o, parts.first);
  mask(kOp, x, sudden, steady, o, parts.second);
  return parts;
}

Array harmonic(const Array& magnitudes, const SeparationOptions& options, const Array* out) {
  return one_part("harmonic", magnitudes, options, true, out);
}
Array percussive(const Array& magnitudes, const SeparationOptions& options, const Array* out) {
  return one_part("percussive", magnitudes, options, false, out);
}

}  // namespace gpukit::audio
