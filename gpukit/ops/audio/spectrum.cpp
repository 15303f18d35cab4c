#include "gpukit/ops/audio/spectrum.h"

#include <cmath>

#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/spectrum.cuh"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/fft/fft.h"

namespace gpukit::audio {

namespace {

const jit::KernelSet kernels("gpukit/ops/audio/spectrum.cuh",
                             gather_names({"HannWindow", "CenteredWindow", "WindowedFrames", "OverlapAdd",
                                           "SquaredMagnitude"}));
enum Kernel { kHann, kCentered, kFrames, kOverlap, kMagnitude };

void check_options(const char* op, const StftOptions& o) {
  if (o.n_fft < 1) throw ArgumentError(op, "n_fft", "be at least 1", std::to_string(o.n_fft));
  if (o.hop_length < 1) throw ArgumentError(op, "hop_length", "be at least 1", std::to_string(o.hop_length));
  if (o.win_length == 0 || o.win_length < -1 || o.win_length > o.n_fft)
    throw ArgumentError(op, "win_length", "be -1 or between 1 and n_fft", std::to_string(o.win_length));
  if (!o.window.defined()) return;
  check_dtype(op, "window", o.window, DType::float32);
  check_shape(op, "window", o.window, {o.win_length < 0 ? o.n_fft : o.win_length});
}

/// [n_fft], with zeros around a shorter one.
Array make_window(const char* op, const StftOptions& o, Device device, Temporaries& temporaries) {
  const int64_t width = o.win_length < 0 ? o.n_fft : o.win_length;
  const Array window = temporaries.empty({o.n_fft}, DType::float32, device);
  if (o.window.defined())
    gather<CenteredWindow>(op, kernels.get(kCentered), window, contiguous(o.window, temporaries), {}, {},
                           {o.n_fft, width});
  else
    gather<HannWindow>(op, kernels.get(kHann), window, {}, {}, {}, {o.n_fft, width}, 64);
  return window;
}

Array of_complex(const char* op, const Array& spectrum, const Array* out, bool root) {
  check_dtype(op, "spectrum", spectrum, DType::complex64);
  const Array target = result(op, out, spectrum.shape(), DType::float32, spectrum.device());
  Temporaries temporaries(op);
  const Array pairs = contiguous(spectrum, temporaries);
  const bool direct = target.is_contiguous() && !may_share_memory(target, pairs);
  const Array to = direct ? target : temporaries.empty_like(target);
  gather<SquaredMagnitude>(op, kernels.get(kMagnitude), to, pairs, {}, {}, {root ? 1 : 0});
  if (!direct) copy_into(target, to);
  return target;
}

}  // namespace

int64_t stft_frames(int64_t n, const StftOptions& o) {
  if (o.center) return 1 + n / o.hop_length;
  return n < o.n_fft ? 0 : 1 + (n - o.n_fft) / o.hop_length;
}

Array stft(const Array& x, const StftOptions& o, const Array* out) {
  constexpr const char* kOp = "stft";
  check_options(kOp, o);
  check_dtype(kOp, "x", x, DType::float32);
  if (x.ndim() != 1 && x.ndim() != 2) throw ShapeError(kOp, "x", "have shape [n] or [batch, n]", x.shape().str());
  const int64_t n = x.shape(-1), bins = o.n_fft / 2 + 1, frames = stft_frames(n, o);
  if (n == 0) throw ShapeError(kOp, "x", "have at least one sample", x.shape().str());
  if (o.window.defined()) check_same_device(kOp, x, o.window);
  const int64_t batch = x.ndim() == 2 ? x.shape(0) : 1;
  Dims shape{frames, bins};
  if (x.ndim() == 2) shape.insert(0, batch);
  const Array target = result(kOp, out, shape, DType::complex64, x.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const Array window = make_window(kOp, o, x.device(), temporaries);
  const Array signal = contiguous(x, temporaries);
  Dims framed = shape;
  framed[framed.rank() - 1] = o.n_fft;
  const Array values = temporaries.empty(framed, DType::float32, x.device());
  gather<WindowedFrames>(kOp, kernels.get(kFrames), values, signal, window, {},
                         {n, n, frames, o.n_fft, o.hop_length, o.center ? o.n_fft / 2 : 0});
  fft::rfft(values, {}, -1, fft::Norm::backward, &target);
  return target;
}

Array istft(const Array& spectrum, const StftOptions& o, int64_t length, const Array* out) {
  constexpr const char* kOp = "istft";
  check_options(kOp, o);
  check_dtype(kOp, "spectrum", spectrum, DType::complex64);
  if (spectrum.ndim() != 2 && spectrum.ndim() != 3)
    throw ShapeError(kOp, "spectrum", "have shape [frames, bins] or [batch, frames, bins]", spectrum.shape().str());
  if (spectrum.shape(-1) != o.n_fft / 2 + 1)
    throw ShapeError(kOp, "spectrum", "have n_fft / 2 + 1 = " + std::to_string(o.n_fft / 2 + 1) + " bins",
                     spectrum.shape().str());
  if (o.window.defined()) check_same_device(kOp, spectrum, o.window);
  const int64_t frames = spectrum.shape(-2);
  const int64_t before = o.center ? o.n_fft / 2 : 0;
  const int64_t reach = frames == 0 ? 0 : o.n_fft + (frames - 1) * o.hop_length;
  const int64_t natural = o.center ? std::max<int64_t>(0, reach - 2 * before) : reach;
  if (length < -1) throw ArgumentError(kOp, "length", "be -1 or a number of samples", std::to_string(length));
  const int64_t samples = length < 0 ? natural : length;
  Dims shape{samples};
  if (spectrum.ndim() == 3) shape.insert(0, spectrum.shape(0));
  const Array target = result(kOp, out, shape, DType::float32, spectrum.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const Array window = make_window(kOp, o, spectrum.device(), temporaries);
  Dims framed = spectrum.shape();
  framed[framed.rank() - 1] = o.n_fft;
  const Array values = temporaries.empty(framed, DType::float32, spectrum.device());
  if (values.size() > 0) fft::irfft(spectrum, o.n_fft, -1, fft::Norm::backward, &values);
  const bool direct = target.is_contiguous();
  const Array to = direct ? target : temporaries.empty_like(target);
  gather<OverlapAdd>(kOp, kernels.get(kOverlap), to, values, window, {},
                     {samples, frames, o.n_fft, o.hop_length, before});
  if (!direct) copy_into(target, to);
  return target;
}

Array power(const Array& spectrum, const Array* out) { return of_complex("power_spectrum", spectrum, out, false); }
Array magnitude(const Array& spectrum, const Array* out) {
  return of_complex("magnitude_spectrum", spectrum, out, true);
}

}  // namespace gpukit::audio
