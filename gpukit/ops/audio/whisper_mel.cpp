#include <cmath>

#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/audio/mel.h"
#include "gpukit/ops/audio/spectrum.cuh"
#include "gpukit/ops/audio/spectrum.h"
#include "gpukit/ops/audio/whisper_mel.cuh"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/fft/fft.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit::audio {

namespace {

constexpr const char* kOp = "log_mel_whisper";

const jit::KernelSet element_kernels("gpukit/ops/audio/whisper_mel.cuh", gather_names({"WhisperMel", "WhisperClamp"}));
const jit::KernelSet frame_kernels("gpukit/ops/audio/spectrum.cuh",
                                   gather_names({"HannWindow", "WindowedFrames", "SquaredMagnitude"}));
const jit::KernelSet fused("gpukit/ops/audio/whisper_mel_fused.cuh", {"gpukit::whisper_mel"});

/// Slaney's triangles by the bins that lie under each of their sides.
WhisperBands make_bands(int64_t n_mels) {
  const MelOptions options{.n_mels = n_mels, .n_fft = kWhisperFft, .scale = MelScale::slaney, .norm = MelNorm::slaney};
  const std::vector<double> hz = mel_corners(kOp, options);
  WhisperBands bands{};
  size_t corner = 0;
  for (int k = 0; k < kWhisperBins; ++k) {
    const double f = 8000.0 * k / (kWhisperBins - 1);
    while (corner + 1 < hz.size() && f >= hz[corner + 1]) bands.begin[++corner] = static_cast<uint8_t>(k);
    if (corner + 1 >= hz.size()) continue;  // at the last corner every triangle is 0
    const double width = hz[corner + 1] - hz[corner];
    if (corner + 2 < hz.size())
      bands.up[k] = static_cast<float>((f - hz[corner]) / width * 2.0 / (hz[corner + 2] - hz[corner]));
    if (corner > 0)
      bands.down[k] = static_cast<float>((hz[corner + 1] - f) / width * 2.0 / (hz[corner + 1] - hz[corner - 1]));
  }
  while (corner + 1 < hz.size()) bands.begin[++corner] = kWhisperBins;
  return bands;
}

/// By operations that stand alone: what the fused kernel is compared with.
void by_parts(const Array& logs, const Array& tops, const Array& audio, const WhisperParams& p,
              Temporaries& temporaries) {
  const Device device = audio.device();
  const Array window = temporaries.empty({kWhisperFft}, DType::float32, device);
  gather<HannWindow>(kOp, frame_kernels.get(0), window, {}, {}, {}, {kWhisperFft, kWhisperFft}, 64);
  const Array frames = temporaries.empty({p.batch, p.frames, kWhisperFft}, DType::float32, device);
  gather<WindowedFrames>(kOp, frame_kernels.get(1), frames, audio, window, {},
                         {p.n, p.given, p.frames, kWhisperFft, kWhisperHop, kWhisperFft / 2});
  const Array spectrum = temporaries.empty({p.batch, p.frames, kWhisperBins}, DType::complex64, device);
  fft::rfft(frames, {}, -1, fft::Norm::backward, &spectrum);
  const Array squares = temporaries.empty(spectrum.shape(), DType::float32, device);
  gather<SquaredMagnitude>(kOp, frame_kernels.get(2), squares, spectrum, {}, {}, {0});
  gather<WhisperMel>(kOp, element_kernels.get(0), logs, squares, {}, {}, p, 64);
  max(logs, Dims{1, 2}, false, &tops);
}

void by_fused(const Array& logs, const Array& tops, const Array& audio, const WhisperParams& p,
              Temporaries& temporaries) {
  constexpr int64_t kTileFrames = 16;
  // WhisperShared of the kernel, rounded up.
  constexpr unsigned kSharedBytes = 3200 + 1600 + 1744 + 11200 + 2 * 25600 + 128 + 64;
  constexpr int64_t kMaxGrid = 528;
  const int64_t tiles = ceil_div(p.frames, kTileFrames);
  const Array tile_tops = temporaries.empty({p.batch, tiles}, DType::float32, audio.device());
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(std::min(kMaxGrid, p.batch * tiles)),
                                 .block_x = 320,
                                 .shared_bytes = kSharedBytes};
  jit::launch(fused.get(0), audio.device(), config, write(logs), write(tile_tops), read(audio), p);
  max(tile_tops, Dims{1}, false, &tops);
}

}  // namespace

Array log_mel_whisper(const Array& audio, int64_t n_mels, int64_t frames, const Array* out) {
  check_dtype(kOp, "audio", audio, DType::float32);
  if (audio.ndim() != 1 && audio.ndim() != 2)
    throw ShapeError(kOp, "audio", "have shape [n] or [batch, n]", audio.shape().str());
  if (n_mels < 1 || n_mels > kWhisperMaxBands)
    throw ArgumentError(kOp, "n_mels", "be between 1 and 128", std::to_string(n_mels));
  if (frames < 2) throw ArgumentError(kOp, "frames", "be at least 2", std::to_string(frames));
  checked_product(kOp, frames, kWhisperHop);
  WhisperParams p{};
  p.batch = audio.ndim() == 2 ? audio.shape(0) : 1;
  p.n = frames * kWhisperHop;
  p.given = std::min(audio.shape(-1), p.n);
  p.frames = frames;
  p.bands = static_cast<int32_t>(n_mels);
  const Array target = result(kOp, out, {p.batch, n_mels, frames}, DType::float32, audio.device());
  if (target.size() == 0) return target;
  p.triangles = make_bands(n_mels);
  Temporaries temporaries(kOp);
  const Array signal = contiguous(audio.narrow(audio.ndim() - 1, 0, p.given), temporaries);
  const Array logs = temporaries.empty_like(target);
  const Array tops = temporaries.empty({p.batch}, DType::float32, audio.device());
  switch (audio.device().kind) {
    case DeviceKind::cpu: by_parts(logs, tops, signal, p, temporaries); break;
    case DeviceKind::cuda: by_fused(logs, tops, signal, p, temporaries); break;
  }
  const bool direct = target.is_contiguous();
  const Array to = direct ? target : logs;
  gather<WhisperClamp>(kOp, element_kernels.get(1), to, logs, tops, {}, {n_mels * frames});
  if (!direct) copy_into(target, to);
  return target;
}

}  // namespace gpukit::audio
