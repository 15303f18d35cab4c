// Random numbers by counter-based Philox4x32-10. Element i depends on (seed, offset, i) and the dtype alone, so the
// same state gives the same bits on every device, for any number of threads, and any part of a result can be made by
// itself.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "gpukit/array/array.h"
#include "gpukit/base/scalar.h"

namespace gpukit::random {

/// What one call draws from. Calls with other offsets never share a word.
struct State {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

/// Hands out states: each take() is the next offset of one seed. Thread-safe.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : state_{seed, 0} {}
  /// Starts over at offset 0.
  void seed(uint64_t seed);
  State state() const;
  void set_state(const State& state);
  /// Throws Error inside a graph capture, naming `op`: a replay repeats its numbers, so a capture must not advance the
  /// state. Pass an explicit State there.
  /// `count` offsets are used up.
  State take(const char* op, uint64_t count = 1);

 private:
  mutable std::mutex mutex_;
  State state_;
};

/// The generator of calls that are given no state. Its seed is 0 until seed() is called: the same program, the same
/// numbers.
Generator& default_generator();

// Each fills `out`, or a new array of `shape`, `dtype` and `device` (the default device when not given).
struct Request {
  Dims shape;
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
  std::optional<State> state = {};
  Generator* generator = nullptr;  // asked when there is no state; null: the default one
};

/// Reals in [low, high): every multiple of 2^-24 (float32; 2^-53 float64, 2^-11 float16, 2^-8 bfloat16) of the range is
/// equally likely. Float dtypes, float32 when not given. Throws ArgumentError unless low <= high and both and their
/// difference are finite in the dtype's arithmetic.
Array uniform(const Request& request, double low = 0.0, double high = 1.0, const Array* out = nullptr);

/// Normal reals by the inverse of the distribution function (normal.cuh states its error), at most 6.3 standard
/// deviations out (float64: 9.2). Float dtypes, float32 when not given. Throws ArgumentError for a negative `std` or
/// values not finite.
Array normal(const Request& request, double mean = 0.0, double std = 1.0, const Array* out = nullptr);

/// Integers in [low, high): the upper half of word * (high - low), so no value is favoured by more than 2^-64 * (high -
/// low). Integer dtypes, int64 when not given. Throws ArgumentError unless low < high and the dtype holds low and high
/// - 1.
Array randint(const Request& request, const Scalar& low, const Scalar& high, const Array* out = nullptr);

}  // namespace gpukit::random
