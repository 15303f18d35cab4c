// The fused front end: one block computes tiles of 16 frames.
//
// A real transform of 400 points is a complex one of 200 (radices 5, 5, 8) over pairs of samples. Roots and the window
// are computed once a block in float64; a block walks over several tiles.
#pragma once
#include "gpukit/ops/audio/whisper_mel.cuh"

namespace gpukit {

inline constexpr int kTileFrames = 16, kWhisperPairs = 200;
inline constexpr int kTileSamples = (kTileFrames - 1) * kWhisperHop + kWhisperFft;

struct Pair {
  float re, im;
};
GPUKIT_DEVICE Pair times(Pair a, Pair b) { return {fmaf(a.re, b.re, -(a.im * b.im)), fmaf(a.re, b.im, a.im * b.re)}; }
GPUKIT_DEVICE Pair plus(Pair a, Pair b) { return {a.re + b.re, a.im + b.im}; }
GPUKIT_DEVICE Pair minus(Pair a, Pair b) { return {a.re - b.re, a.im - b.im}; }

GPUKIT_DEVICE void transform5(Pair* v) {
  constexpr float c1 = 0.30901699437f, c2 = -0.80901699437f, s1 = 0.95105651630f, s2 = 0.58778525229f;
  const Pair a = plus(v[1], v[4]), b = plus(v[2], v[3]), c = minus(v[1], v[4]), d = minus(v[2], v[3]);
  const Pair e = {fmaf(b.re, c2, fmaf(a.re, c1, v[0].re)), fmaf(b.im, c2, fmaf(a.im, c1, v[0].im))};
  const Pair f = {fmaf(b.re, c1, fmaf(a.re, c2, v[0].re)), fmaf(b.im, c1, fmaf(a.im, c2, v[0].im))};
  const Pair g = {fmaf(d.re, s2, c.re * s1), fmaf(d.im, s2, c.im * s1)};
  const Pair h = {fmaf(d.re, -s1, c.re * s2), fmaf(d.im, -s1, c.im * s2)};
  v[0] = plus(v[0], plus(a, b));
  v[1] = {e.re + g.im, e.im - g.re};
  v[4] = {e.re - g.im, e.im + g.re};
  v[2] = {f.re + h.im, f.im - h.re};
  v[3] = {f.re - h.im, f.im + h.re};
}
GPUKIT_DEVICE void transform4(Pair& v0, Pair& v1, Pair& v2, Pair& v3) {
  const Pair a = plus(v0, v2), b = minus(v0, v2), c = plus(v1, v3), d = minus(v1, v3);
  v0 = plus(a, c);
  v1 = {b.re + d.im, b.im - d.re};
  v2 = minus(a, c);
  v3 = {b.re - d.im, b.im + d.re};
}
GPUKIT_DEVICE void transform8(Pair* v) {
  constexpr float r = 0.70710678119f;
  transform4(v[0], v[2], v[4], v[6]);
  transform4(v[1], v[3], v[5], v[7]);
  const Pair o1 = {(v[3].re + v[3].im) * r, (v[3].im - v[3].re) * r}, o2 = {v[5].im, -v[5].re};
  const Pair o3 = {(v[7].im - v[7].re) * r, -(v[7].re + v[7].im) * r}, o0 = v[1];
  const Pair e0 = v[0], e1 = v[2], e2 = v[4], e3 = v[6];
  v[0] = plus(e0, o0);
  v[1] = plus(e1, o1);
  v[2] = plus(e2, o2);
  v[3] = plus(e3, o3);
  v[4] = minus(e0, o0);
  v[5] = minus(e1, o1);
  v[6] = minus(e2, o2);
  v[7] = minus(e3, o3);
}

struct WhisperShared {
  Pair roots[kWhisperFft];  // e^(-2 pi i k / 400)
  float window[kWhisperFft];
  WhisperBands bands;
  float samples[kTileSamples];
  Pair a[kTileFrames * kWhisperPairs];
  union {
    Pair b[kTileFrames * kWhisperPairs];
    float power[kTileFrames * kWhisperBins];
  };
  float top[32];
};

/// Logarithms of the bands to out[batch, band, frame], and the maximum of each tile to tops[batch, tile].
__global__ void __launch_bounds__(320) whisper_mel(float* out, float* tops, const float* audio, const WhisperParams p) {
  extern __shared__ __align__(16) unsigned char shared[];
  WhisperShared& s = *reinterpret_cast<WhisperShared*>(shared);
  const int thread = threadIdx.x;
  for (int i = thread; i < kWhisperFft; i += blockDim.x) {
    double sine, cosine;
    sincospi(-2.0 * i / kWhisperFft, &sine, &cosine);
    s.roots[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
    s.window[i] = static_cast<float>(0.5 - 0.5 * cosine);
  }
  for (int i = thread; i < kWhisperBins; i += blockDim.x) {
    s.bands.up[i] = p.triangles.up[i];
    s.bands.down[i] = p.triangles.down[i];
  }
  for (int i = thread; i < kWhisperMaxBands + 4; i += blockDim.x) s.bands.begin[i] = p.triangles.begin[i];
  const int64_t tiles = (p.frames + kTileFrames - 1) / kTileFrames;
  for (int64_t task = blockIdx.x; task < tiles * p.batch; task += gridDim.x) {
    const int64_t batch = task / tiles, tile = task % tiles;
    const int64_t frame0 = tile * kTileFrames;
    const int frames = static_cast<int>(p.frames - frame0 < kTileFrames ? p.frames - frame0 : kTileFrames);
    const float* x = audio + batch * p.given;
    const int64_t first = frame0 * kWhisperHop - kWhisperFft / 2;
    for (int i = thread; i < (frames - 1) * kWhisperHop + kWhisperFft; i += blockDim.x) {
      int64_t at = first + i;
      if (at < 0) at = -at;
      if (at >= p.n) at = 2 * (p.n - 1) - at;
      s.samples[i] = at >= 0 && at < p.given ? x[at] : 0.0f;
    }
    __syncthreads();
    for (int w = thread; w < frames * 40; w += blockDim.x) {
      const int f = w / 40, at = w % 40;
      const float* z = s.samples + f * kWhisperHop;
      Pair v[5];
#pragma unroll
      for (int j = 0; j < 5; ++j) {
        const int i = 2 * (at + 40 * j);
        v[j] = {z[i] * s.window[i], z[i + 1] * s.window[i + 1]};
      }
      transform5(v);
      Pair* to = s.a + f * kWhisperPairs + 5 * at;
      to[0] = v[0];
#pragma unroll
      for (int j = 1; j < 5; ++j) to[j] = times(v[j], s.roots[2 * at * j]);
    }
    __syncthreads();
    for (int w = thread; w < frames * 40; w += blockDim.x) {
      const int f = w / 40, at = w % 40, base = at / 5 * 5;
      const Pair* from = s.a + f * kWhisperPairs + at;
      Pair v[5];
#pragma unroll
      for (int j = 0; j < 5; ++j) v[j] = from[40 * j];
      transform5(v);
      Pair* to = s.b + f * kWhisperPairs + at + 4 * base;
      to[0] = v[0];
#pragma unroll
      for (int j = 1; j < 5; ++j) to[5 * j] = times(v[j], s.roots[2 * base * j]);
    }
    __syncthreads();
    for (int w = thread; w < frames * 25; w += blockDim.x) {
      const int f = w / 25, at = w % 25;
      const Pair* from = s.b + f * kWhisperPairs + at;
      Pair v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] = from[25 * j];
      transform8(v);
      Pair* to = s.a + f * kWhisperPairs + at;
#pragma unroll
      for (int j = 0; j < 8; ++j) to[25 * j] = v[j];
    }
    __syncthreads();
    // X[k] = (Z[k] + Z'[200 - k]) / 2 - i / 2 e^(-2 pi i k / 400) (Z[k] - Z'[200 - k]), ' the conjugate.
    for (int w = thread; w < frames * 101; w += blockDim.x) {
      const int f = w / 101, k = w % 101;
      const Pair z = s.a[f * kWhisperPairs + k];
      const Pair m = s.a[f * kWhisperPairs + (k == 0 ? 0 : kWhisperPairs - k)];
      const Pair sum = {0.5f * (z.re + m.re), 0.5f * (z.im - m.im)};
      const Pair difference = {0.5f * (z.im + m.im), 0.5f * (m.re - z.re)};  // times -i
      const Pair t = times(difference, s.roots[k]);
      const Pair low = plus(sum, t), high = minus(sum, t);
      float* power = s.power + f * kWhisperBins;
      power[k] = low.re * low.re + low.im * low.im;
      power[kWhisperPairs - k] = high.re * high.re + high.im * high.im;
    }
    __syncthreads();
    float top = -3.4e38f;
    for (int w = thread; w < p.bands * kTileFrames; w += blockDim.x) {
      const int m = w / kTileFrames, f = w % kTileFrames;
      if (f >= frames) continue;
      const float v = whisper_band(s.power + f * kWhisperBins, s.bands.up, s.bands.down, s.bands.begin, m);
      top = v > top || v != v ? v : top;
      out[(batch * p.bands + m) * p.frames + frame0 + f] = v;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, top, offset);
      top = other > top || other != other ? other : top;
    }
    if (thread % 32 == 0) s.top[thread / 32] = top;
    __syncthreads();
    if (thread == 0) {
      for (int i = 1; i < static_cast<int>(blockDim.x) / 32; ++i)
        top = s.top[i] > top || s.top[i] != s.top[i] ? s.top[i] : top;
      tops[task] = top;
    }
    __syncthreads();
  }
}

}  // namespace gpukit
