// Elements of constant-Q transforms and of pitch classes.
#pragma once
#include "gpukit/ops/audio/gather.cuh"
#include "gpukit/ops/audio/lanes.cuh"

namespace gpukit {

struct CqtParams {
  int64_t n, frames, hop, bins, widest;  // widest: samples of the longest window
  double octaves, periods;               // octaves: from one bin to the next; periods: samples of the longest window
  double turns;                          // of f_min in one sample
};

GPUKIT_DEVICE double cqt_ratio(int64_t bin, const CqtParams& p) { return ::exp2(static_cast<double>(bin) * p.octaves); }
/// Where the window of a bin begins, from its middle, and how many samples it has.
GPUKIT_DEVICE int64_t cqt_begin(int64_t bin, const CqtParams& p) {
  return static_cast<int64_t>(::floor(-0.5 * p.periods / cqt_ratio(bin, p)));
}
GPUKIT_DEVICE int64_t cqt_width(int64_t bin, const CqtParams& p) {
  return static_cast<int64_t>(::floor(0.5 * p.periods / cqt_ratio(bin, p))) - cqt_begin(bin, p);
}

/// Sample [bin, i] of the windows times their waves, complex.
struct CqtWave {
  using Value = ComplexValue;
  using Params = CqtParams;
  static GPUKIT_DEVICE ComplexValue at(int64_t index, const float*, const float*, const float*, const Params& p) {
    const int64_t bin = index / p.widest, i = index % p.widest;
    const double length = p.periods / cqt_ratio(bin, p);
    const int64_t width = cqt_width(bin, p);
    if (i >= width) return {0.0f, 0.0f};
    const double count = static_cast<double>(width);
    // The values of a periodic Hann window add up to half of their number; one value is 0, two are 0 and 1.
    const double sum = width == 1 ? 1.0 : 0.5 * count;
    const double hann = width == 1 ? 1.0 : 0.5 - 0.5 * ::cos(6.283185307179586 * static_cast<double>(i) / count);
    const double weight = hann / sum * ::sqrt(length);
    double turns = p.turns * cqt_ratio(bin, p) * static_cast<double>(cqt_begin(bin, p) + i);
    turns -= ::floor(turns);
    const double angle = 6.283185307179586 * turns;
    return {static_cast<float>(weight * ::cos(angle)), static_cast<float>(-weight * ::sin(angle))};
  }
};

/// Row [signal, frame, bin]: samples `a` around the frame times the waves `b`.
struct ConstantQ {
  using Value = ComplexValue;
  using Params = CqtParams;
  using Sums = ComplexValue;
  struct Row {
    int64_t width, signal, first, wave;  // first: the sample of the signal at which the window begins
  };
  static GPUKIT_DEVICE Row row(int64_t index, const Params& p) {
    const int64_t bin = index % p.bins, frame = index / p.bins % p.frames, signal = index / p.bins / p.frames;
    const int64_t first = frame * p.hop + cqt_begin(bin, p), width = cqt_width(bin, p);
    // What lies outside of the signal is left out, but every sample keeps its lane.
    const int64_t skipped = first < 0 ? -first / kLanes * kLanes : 0;
    const int64_t stop = width < p.n - first ? width : p.n - first;
    return {stop > skipped ? stop - skipped : 0, signal * p.n, first + skipped, bin * p.widest + skipped};
  }
  static GPUKIT_DEVICE Sums none() { return {0.0f, 0.0f}; }
  static GPUKIT_DEVICE void add(Sums& sums, const Row& row, int64_t i, const float* a, const float* b, const float*,
                                const Params& p) {
    const int64_t sample = row.first + i;
    if (sample < 0 || sample >= p.n) return;
    const float x = a[row.signal + sample];
    const float* wave = b + 2 * (row.wave + i);
    sums.re += x * wave[0];
    sums.im += x * wave[1];
  }
  static GPUKIT_DEVICE Sums merge(Sums x, Sums y) { return {x.re + y.re, x.im + y.im}; }
  static GPUKIT_DEVICE ComplexValue finish(Sums sums, const Row&, const float*, const float*, const float*,
                                           const Params&) {
    return sums;
  }
};

struct ChromaParams {
  int64_t bins, classes;
  double bin_octaves, tuned;  // log2 of a bin's width over that of A0; classes that the tuning adds
};

struct ChromaBin {
  /// The pitch of a bin in classes from A0 up.
  static GPUKIT_DEVICE double pitch(int64_t bin, const ChromaParams& p) {
    const double classes = static_cast<double>(p.classes), lowest = static_cast<double>(bin == 0 ? 1 : bin);
    return classes * (::log2(lowest) + p.bin_octaves) - p.tuned - (bin == 0 ? 1.5 * classes : 0.0);
  }
  static GPUKIT_DEVICE double bump(double pitch, double width, int64_t which, const ChromaParams& p) {
    const double classes = static_cast<double>(p.classes), half = ::rint(classes / 2);
    const double raised = pitch - static_cast<double>(which) + half + 10 * classes;
    const double away = 2 * (raised - classes * ::floor(raised / classes) - half) / width;
    return ::exp(-0.5 * away * away);
  }
  /// The pitch of a bin and how far the next one is, a class at least.
  double here, width;
  GPUKIT_DEVICE ChromaBin(int64_t bin, const ChromaParams& p) : here(pitch(bin, p)) {
    const double step = pitch(bin + 1, p) - here;
    width = step > 1 ? step : 1.0;
  }
};

/// The root of the sum of squares of a bin's weights, float64.
struct ChromaNorm {
  using Value = double;
  using Params = ChromaParams;
  static GPUKIT_DEVICE double at(int64_t index, const float*, const float*, const float*, const Params& p) {
    const ChromaBin bin(index, p);
    double squares = 0;
    for (int64_t k = 0; k < p.classes; ++k) {
      const double weight = ChromaBin::bump(bin.here, bin.width, k, p);
      squares += weight * weight;
    }
    return squares > 0 ? ::sqrt(squares) : 1.0;
  }
};

/// Weight [class, bin], the norms of the bins in `a`.
struct ChromaWeights {
  using Value = float;
  using Params = ChromaParams;
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const ChromaBin bin(index % p.bins, p);
    // Row 0 is C, three of twelve classes above A.
    const int64_t which = (index / p.bins + 3 * (p.classes / 12)) % p.classes;
    const double octaves = (bin.here / static_cast<double>(p.classes) - 5.0) / 2.0;
    const double norm = reinterpret_cast<const double*>(a)[index % p.bins];
    return static_cast<float>(ChromaBin::bump(bin.here, bin.width, which, p) / norm * ::exp(-0.5 * octaves * octaves));
  }
};

struct FoldParams {
  int64_t bins, classes, octave, merged;  // merged: bins of one class
};

/// Element [frame, class]: the sum of the bins of the class.
struct FoldOctaves {
  using Value = float;
  using Params = FoldParams;
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const int64_t which = index % p.classes;
    const float* x = a + index / p.classes * p.bins;
    float sum = 0.0f;
    for (int64_t k = 0; k < p.bins; ++k)
      if ((k + p.merged / 2) % p.octave / p.merged == which) sum += x[k];
    return sum;
  }
};

/// Values over the largest magnitude of their row of `classes`.
struct OverLargest {
  using Value = float;
  struct Params {
    int64_t classes;
  };
  static GPUKIT_DEVICE float at(int64_t index, const float* a, const float*, const float*, const Params& p) {
    const float* x = a + index / p.classes * p.classes;
    float largest = 0.0f;
    for (int64_t k = 0; k < p.classes; ++k) {
      const float size = fabsf(x[k]);
      if (size > largest || size != size) largest = size;
    }
    return largest < 1.17549435e-38f ? a[index] : a[index] / largest;
  }
};

}  // namespace gpukit
