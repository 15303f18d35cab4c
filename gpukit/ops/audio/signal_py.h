// Arguments that are sound: a GPUArray, or an AudioBuffer.
#pragma once

#include <optional>

#include "gpukit/python/bind.h"

namespace gpukit::python {

using SignalArg = Shown<"pygpukit.typing.AudioLike">;  // to_signal
using SignalObject = ShownObject<"pygpukit.typing.AudioLike">;

struct Signal {
  Array samples;                       // of a buffer with several channels: a view [channels, n]
  std::optional<int64_t> sample_rate;  // of a buffer
};

/// Throws TypeError naming op and argument for anything else.
inline Signal to_signal(const char* op, const char* argument, nb::handle value) {
  if (const Array* array = try_array(value)) return {*array, {}};
  if (!nb::hasattr(value, "data") || !nb::hasattr(value, "sample_rate") || !nb::hasattr(value, "channels"))
    return {to_array(op, argument, value), {}};
  const nb::object data = value.attr("data");
  const Array& samples = to_array(op, argument, data);
  const int64_t channels = to_int(op, "channels", value.attr("channels"));
  const int64_t rate = to_int(op, "sample_rate", value.attr("sample_rate"));
  if (channels == 1) return {samples, rate};
  if (channels < 1 || samples.ndim() != 1 || samples.shape(0) % channels != 0)
    throw ShapeError(op, argument, "hold " + std::to_string(channels) + " samples at a time", samples.shape().str());
  return {samples.reshape_view({samples.shape(0) / channels, channels}).transpose(), rate};
}

/// f(samples, target) into `out`, or where there is none into the samples themselves, and then gives `audio` back.
template <typename F>
SignalObject in_place(const char* op, nb::handle audio, nb::handle out, F&& f) {
  const Signal signal = to_signal(op, "audio", audio);
  if (!out.is_none()) return nb::borrow(with_out(op, out, [&](const Array* target) { return f(signal, target); }));
  CallScope scope(&signal.samples);
  f(signal, &signal.samples);
  return nb::borrow(audio);
}

}  // namespace gpukit::python
