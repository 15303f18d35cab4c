#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/rope/rope_impl.h"

namespace gpukit {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

[[noreturn]] void refuse(const char* op, const std::string& what) {
  throw ArgumentError(std::string(op) + ": " + what);
}

/// The pair whose wavelength makes `rotations` turns within `length` positions.
double pair_of_rotations(double rotations, double dim, double base, double length) {
  return dim * std::log(length / (rotations * kTurn)) / (2 * std::log(base));
}

std::vector<double> frequencies(int64_t dim, double base, const RopeScaling& s) {
  using Kind = RopeScaling::Kind;
  const auto pairs = static_cast<size_t>(dim / 2);
  const double d = static_cast<double>(dim), length = static_cast<double>(s.original_length);
  if (s.kind == Kind::ntk && dim > 2) base *= std::pow(s.factor, d / (d - 2));
  std::vector<double> f(pairs);
  for (size_t i = 0; i < pairs; ++i) f[i] = std::pow(base, -2.0 * static_cast<double>(i) / d);
  double low = 0, high = 1;
  if (s.kind == Kind::yarn) {
    low = std::max(std::floor(pair_of_rotations(s.beta_fast, d, base, length)), 0.0);
    high = std::min(std::ceil(pair_of_rotations(s.beta_slow, d, base, length)), d - 1);
    if (high == low) high += 0.001;
  }
  for (size_t i = 0; i < pairs; ++i) {
    switch (s.kind) {
      case Kind::none:
      case Kind::ntk: break;
      case Kind::linear: f[i] /= s.factor; break;
      case Kind::yarn: {
        const double slow = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        f[i] = f[i] / s.factor * slow + f[i] * (1 - slow);
        break;
      }
      case Kind::llama3: {
        const double wavelength = kTurn / f[i];
        if (wavelength > length / s.low_freq_factor) {
          f[i] /= s.factor;
        } else if (s.high_freq_factor > s.low_freq_factor && wavelength >= length / s.high_freq_factor) {
          const double smooth = (length / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
          f[i] = (1 - smooth) * f[i] / s.factor + smooth * f[i];
        }
        break;
      }
    }
  }
  return f;
}

}  // namespace

std::pair<Array, Array> rope_tables(const char* op, int64_t positions, int64_t rotary_dim, double base,
                                    const RopeScaling& scaling, Device device) {
  using Kind = RopeScaling::Kind;
  if (positions < 0) refuse(op, "positions must not be negative, got " + std::to_string(positions));
  if (rotary_dim < 2 || rotary_dim % 2 != 0)
    refuse(op, "rotary_dim must be even and positive, got " + std::to_string(rotary_dim));
  if (!(base > 1) || !std::isfinite(base)) refuse(op, "base must be above 1, got " + std::to_string(base));
  if (!(scaling.factor > 0) || !std::isfinite(scaling.factor))
    refuse(op, "factor must be positive, got " + std::to_string(scaling.factor));
  if ((scaling.kind == Kind::yarn || scaling.kind == Kind::llama3) && scaling.original_length <= 0)
    refuse(op, "original_length must be positive for this scaling, got " + std::to_string(scaling.original_length));
  if (scaling.kind == Kind::yarn && !(scaling.beta_fast > 0 && scaling.beta_slow > 0))
    refuse(op, "beta_fast and beta_slow must be positive");
  if (scaling.kind == Kind::llama3 &&
      !(scaling.low_freq_factor > 0 && scaling.high_freq_factor >= scaling.low_freq_factor))
    refuse(op, "high_freq_factor must not be below low_freq_factor, and that must be above 0");
  const std::vector<double> f = frequencies(rotary_dim, base, scaling);
  double amplitude = 1;
  if (scaling.kind == Kind::yarn)
    amplitude = scaling.attention_factor > 0 ? scaling.attention_factor
                : scaling.factor > 1         ? 0.1 * std::log(scaling.factor) + 1
                                             : 1;
  const Dims shape{positions, rotary_dim / 2};
  std::vector<float> cos, sin;
  cos.reserve(static_cast<size_t>(shape.product()));
  sin.reserve(static_cast<size_t>(shape.product()));
  for (int64_t p = 0; p < positions; ++p) {
    for (double frequency : f) {
      const double angle = static_cast<double>(p) * frequency;
      cos.push_back(static_cast<float>(std::cos(angle) * amplitude));
      sin.push_back(static_cast<float>(std::sin(angle) * amplitude));
    }
  }
  return {from_host(cos.data(), shape, DType::float32, device), from_host(sin.data(), shape, DType::float32, device)};
}

std::pair<Array, Array> rope_tables(int64_t positions, int64_t rotary_dim, double base, const RopeScaling& scaling,
                                    Device device) {
  return rope_tables("rope_tables", positions, rotary_dim, base, scaling, device);
}

}  // namespace gpukit
