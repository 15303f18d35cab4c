// Levels of frames, and the elements of gates.
#pragma once
#include "gpukit/ops/audio/gather.cuh"

namespace gpukit {

/// 0 for what is nearer to 0 than the threshold.
struct NoiseGate {
  using Value = float;
  struct Params {
    float threshold;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float*, const float*, const Params& p) {
    const float x = a[i];
    return x < p.threshold && -x < p.threshold ? 0.0f : x;
  }
};

/// The factor of frame i, from the mean squares `a` of the frames of its row up to `back` before it.
struct GateFactor {
  using Value = float;
  struct Params {
    int64_t frames, back;
    float threshold, fall;  // of a frame
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float*, const float*, const Params& p) {
    const int64_t frame = i % p.frames;
    float best = 0.0f;
    for (int64_t k = 0; k <= p.back && k <= frame; ++k) {
      const float energy = a[i - k];
      const float part = energy / p.threshold;
      const float factor = (energy >= p.threshold ? 1.0f : part * part) - static_cast<float>(k) * p.fall;
      if (factor > best) best = factor;
    }
    return best;
  }
};

/// Signal `a` by the factors `b` of its frames, which change linearly.
struct GateSample {
  using Value = float;
  struct Params {
    int64_t n, frames, size;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float* b, const float*, const Params& p) {
    const int64_t t = i % p.n, frame = t / p.size;
    const float* factors = b + i / p.n * p.frames;
    const float to = factors[frame], from = frame > 0 ? factors[frame - 1] : to;
    const float part = static_cast<float>(t % p.size + 1) / static_cast<float>(p.size);
    return a[i] * (from + (to - from) * part);
  }
};

/// `a` so that what `b`, one value, is of it becomes the target: its magnitude, or with `squared` its mean square.
struct ScaleTo {
  using Value = float;
  struct Params {
    float target;
    int32_t squared;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float* b, const float*, const Params& p) {
    const float level = p.squared ? sqrtf(b[0]) : b[0];
    return level > 0.0f ? a[i] / level * p.target : a[i];
  }
};

/// Element i of what a ring `a` holds from `start` on, times the window `b`, which may be null.
struct RingSample {
  using Value = float;
  struct Params {
    int64_t capacity, start;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float* b, const float*, const Params& p) {
    const float x = a[(p.start + i) % p.capacity];
    return b == nullptr ? x : x * b[i];
  }
};

/// A Hann window that begins and ends with 0.
struct SymmetricHann {
  using Value = float;
  struct Params {
    int64_t size;
  };
  static GPUKIT_DEVICE float at(int64_t i, const float*, const float*, const float*, const Params& p) {
    if (p.size == 1) return 1.0f;
    return static_cast<float>(
        0.5 - 0.5 * ::cos(6.283185307179586 * static_cast<double>(i) / static_cast<double>(p.size - 1)));
  }
};

struct FrameLevelParams {
  int64_t rows, n, frames, size, hop;
  int32_t root;  // of the mean square
};

#ifdef __CUDACC_RTC__

/// One warp a frame, whose end may be missing. Either result may be null.
__global__ void __launch_bounds__(256)
    level_of_frames(float* levels, float* crossings, const float* x, const __grid_constant__ FrameLevelParams p) {
  const int lane = threadIdx.x & 31;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / 32);
  for (int64_t at = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32; at < p.rows * p.frames;
       at += warps) {
    const int64_t begin = at % p.frames * p.hop;
    const int64_t count = p.n - begin < p.size ? p.n - begin : p.size;
    const float* frame = x + at / p.frames * p.n + begin;
    float sum = 0.0f;
    int changes = 0;
    for (int64_t i = lane; i < count; i += 32) {
      const float v = frame[i];
      sum = fmaf(v, v, sum);
      if (crossings != nullptr && i > 0) changes += (v >= 0.0f) != (frame[i - 1] >= 0.0f);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      sum += __shfl_xor_sync(0xffffffffu, sum, step);
      changes += __shfl_xor_sync(0xffffffffu, changes, step);
    }
    if (lane != 0) continue;
    const float mean = sum / static_cast<float>(count);
    if (levels != nullptr) levels[at] = p.root ? sqrtf(mean) : mean;
    if (crossings != nullptr)
      crossings[at] = count > 1 ? static_cast<float>(changes) / static_cast<float>(count - 1) : 0.0f;
  }
}

#endif

}  // namespace gpukit
