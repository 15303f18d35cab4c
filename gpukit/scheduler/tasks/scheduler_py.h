// What the bindings of both schedulers share.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/python/gil.h"

namespace gpukit::python {

inline constexpr int64_t kSignalSlice = 50'000'000;

/// Seconds as nanoseconds. Throws ArgumentError when negative or no number.
inline int64_t to_ns(const char* op, const char* argument, double seconds) {
  if (!(seconds >= 0))
    throw ArgumentError(op, argument, "be a number of seconds, not negative", std::to_string(seconds));
  return seconds > 9e9 ? Clock::kForever : std::llround(seconds * 1e9);
}

/// Calls `wait(until_ns)` without the GIL in slices until it gives true or `timeout` seconds have passed; signal
/// handlers run between the slices. Gives what the last call gave.
template <typename F>
bool wait_in_slices(const char* op, const Clock& clock, std::optional<double> timeout, F&& wait) {
  const int64_t start = clock.now_ns();
  const int64_t limit = timeout ? to_ns(op, "timeout", *timeout) : Clock::kForever;
  const int64_t end = limit >= Clock::kForever - start ? Clock::kForever : start + limit;
  for (;;) {
    bool done = false;
    {
      GilReleased released;
      done = wait(std::min(end, clock.now_ns() + kSignalSlice));
    }
    if (done) return true;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    if (clock.now_ns() >= end) return false;
  }
}

}  // namespace gpukit::python
