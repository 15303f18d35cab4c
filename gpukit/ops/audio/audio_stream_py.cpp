#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/array/host.h"
#include "gpukit/ops/audio/ring_buffer.h"
#include "gpukit/ops/audio/signal_py.h"
#include "gpukit/ops/audio/voice_activity.h"

namespace gpukit {
namespace {

using namespace python;
using audio::RingBuffer;
using audio::SampleStream;
using audio::SpeechSegment;
using audio::Vad;

using SamplesArg = Shown<"pygpukit.typing.AudioLike | pygpukit.typing.HostBuffer">;  // to_samples

/// Also float32 of the host, one number behind the other, which are copied to `device`.
Array to_samples(const char* op, nb::handle value, Device device) {
  if (try_array(value) != nullptr || nb::hasattr(value, "channels")) return to_signal(op, "samples", value).samples;
  Py_buffer view;
  if (PyObject_GetBuffer(value.ptr(), &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
    PyErr_Clear();
    return to_array(op, "samples", value);  // throws
  }
  const bool fits = view.format != nullptr && std::string_view(view.format) == "f" && view.itemsize == sizeof(float);
  const std::string format = view.format == nullptr ? "bytes" : view.format;
  if (!fits || view.ndim != 1) {
    const int axes = view.ndim;
    PyBuffer_Release(&view);
    if (!fits) throw DTypeError(op, "samples", "be float32", "a buffer of '" + format + "'");
    throw ShapeError(op, "samples", "have 1 dimension", std::to_string(axes));
  }
  const auto length = static_cast<int64_t>(view.len) / static_cast<int64_t>(sizeof(float));
  try {
    Array samples = in_scope([&] { return from_host(view.buf, {length}, DType::float32, device); });
    PyBuffer_Release(&view);
    return samples;
  } catch (...) {
    PyBuffer_Release(&view);
    throw;
  }
}

std::string shown_segment(const SpeechSegment& s) {
  const auto number = [](double value) { return std::string(nb::repr(nb::float_(value)).c_str()); };
  return "SpeechSegment(start_sample=" + std::to_string(s.start_sample) +
         ", end_sample=" + std::to_string(s.end_sample) + ", start_time=" + number(s.start_time) +
         ", end_time=" + number(s.end_time) + ")";
}

void bind_ring(nb::module_& m) {
  nb::class_<RingBuffer>(m, "AudioRingBuffer", "The last samples of a stream; the oldest are written over.")
      .def(
          "__init__",
          [](RingBuffer* self, int64_t capacity, int64_t sample_rate, DeviceArg device) {
            const Device where = to_device(device);
            CallScope scope;
            new (self) RingBuffer(capacity, sample_rate, where);
          },
          "capacity"_a, "sample_rate"_a = 16000, nb::kw_only(), "device"_a = nb::none())
      .def_prop_ro("capacity", &RingBuffer::capacity, "Samples that it can hold.")
      .def_prop_ro("sample_rate", &RingBuffer::sample_rate, "Samples of a second.")
      .def_prop_ro("samples_available", &RingBuffer::available, "Samples that it holds.")
      .def_prop_ro(
          "duration_available",
          [](const RingBuffer& self) {
            return static_cast<double>(self.available()) / static_cast<double>(self.sample_rate());
          },
          "Seconds that it holds.")
      .def(
          "write",
          [](RingBuffer& self, SamplesArg samples) {
            const Array values = to_samples("AudioRingBuffer.write", samples, self.device());
            return in_scope([&] { return self.write(values); });
          },
          "samples"_a, "Puts samples at the end and says how many.")
      .def(
          "read",
          [](const RingBuffer& self, int64_t num_samples, int64_t offset) {
            return wrap(in_scope([&] { return self.read(num_samples, offset); }));
          },
          "num_samples"_a, "offset"_a = 0, "A copy of samples, counted from the oldest. They stay.")
      .def("clear", &RingBuffer::clear, "Forgets what is there.")
      .def("__len__", &RingBuffer::available, "Samples that it holds.");
  nb::class_<SampleStream>(m, "AudioStream", "Chunks of a stream of samples, which may overlap.")
      .def(
          "__init__",
          [](SampleStream* self, int64_t chunk_size, IntArg hop_size, int64_t sample_rate, double buffer_duration,
             DeviceArg device) {
            const std::optional<int64_t> hop = to_optional_int("AudioStream", "hop_size", hop_size);
            const Device where = to_device(device);
            CallScope scope;
            new (self) SampleStream(chunk_size, hop ? *hop : std::max<int64_t>(1, chunk_size / 2), sample_rate,
                                    buffer_duration, where);
          },
          "chunk_size"_a = 480, "hop_size"_a = nb::none(), "sample_rate"_a = 16000, "buffer_duration"_a = 30.0,
          nb::kw_only(), "device"_a = nb::none())
      .def_prop_ro("chunk_size", &SampleStream::chunk_size, "Samples of a chunk.")
      .def_prop_ro("hop_size", &SampleStream::hop_size, "Samples from one chunk to the next.")
      .def_prop_ro("sample_rate", &SampleStream::sample_rate, "Samples of a second.")
      .def_prop_ro("capacity", &SampleStream::capacity, "Samples that it can hold; the oldest are written over.")
      .def(
          "push",
          [](SampleStream& self, SamplesArg samples) {
            const Array values = to_samples("AudioStream.push", samples, self.device());
            return in_scope([&] { return self.push(values); });
          },
          "samples"_a, "Puts samples at the end and says how many.")
      .def(
          "has_chunk", [](const SampleStream& self) { return self.chunks_available() > 0; }, "A whole chunk is there.")
      .def_prop_ro("chunks_available", &SampleStream::chunks_available, "Whole chunks that are there.")
      .def(
          "pop_chunk",
          [](SampleStream& self, bool apply_window) {
            return wrap(in_scope([&] { return self.pop_chunk(apply_window); }));
          },
          "apply_window"_a = true, "The next chunk, times a symmetric Hann window. RuntimeError when there is none.")
      .def("reset", &SampleStream::reset, "Forgets what is there.");
}

void bind_vad(nb::module_& m) {
  nb::class_<SpeechSegment>(m, "SpeechSegment", "Samples [start_sample, end_sample) and their times in seconds.")
      .def(
          "__init__",
          [](SpeechSegment* self, int64_t start_sample, int64_t end_sample, double start_time, double end_time) {
            new (self) SpeechSegment{start_sample, end_sample, start_time, end_time};
          },
          "start_sample"_a, "end_sample"_a, "start_time"_a, "end_time"_a)
      .def_rw("start_sample", &SpeechSegment::start_sample, "The first sample.")
      .def_rw("end_sample", &SpeechSegment::end_sample, "The one behind the last.")
      .def_rw("start_time", &SpeechSegment::start_time, "Seconds.")
      .def_rw("end_time", &SpeechSegment::end_time, "Seconds.")
      .def("__eq__",
           [](const SpeechSegment& a, nb::handle b) {
             return nb::isinstance<SpeechSegment>(b) && a == nb::cast<const SpeechSegment&>(b);
           })
      .def("__repr__", &shown_segment);
  nb::class_<Vad>(m, "VAD", "Where somebody speaks: frames that are loud enough and not a hum.")
      .def(
          "__init__",
          [](Vad* self, int64_t sample_rate, double frame_ms, double hop_ms, std::optional<double> energy_threshold,
             double hangover_ms, double zcr_low, double zcr_high) {
            new (self) Vad({sample_rate, frame_ms, hop_ms, energy_threshold, hangover_ms, zcr_low, zcr_high});
          },
          "sample_rate"_a = 16000, "frame_ms"_a = 20.0, "hop_ms"_a = 10.0, "energy_threshold"_a = nb::none(),
          "hangover_ms"_a = 100.0, "zcr_low"_a = 0.02, "zcr_high"_a = 0.25)
      .def_prop_ro(
          "sample_rate", [](const Vad& self) { return self.options().sample_rate; }, "Samples of a second.")
      .def_prop_ro("frame_size", &Vad::frame_size, "Samples of a frame.")
      .def_prop_ro("hop_size", &Vad::hop_size, "Samples from one frame to the next.")
      .def_prop_ro(
          "energy_threshold", [](const Vad& self) { return self.options().energy_threshold; },
          "Root mean square above which a frame is speech; None: three times the quietest, 0.01 at least.")
      .def_prop_ro(
          "hangover_ms", [](const Vad& self) { return self.options().hangover_ms; },
          "For so long speech goes on after its last frame.")
      .def_prop_ro(
          "zcr_low", [](const Vad& self) { return self.options().zcr_low; },
          "Changes of sign that speech has at least.")
      .def_prop_ro(
          "zcr_high", [](const Vad& self) { return self.options().zcr_high; }, "Not used.")
      .def(
          "detect",
          [](const Vad& self, SignalArg audio) {
            const Signal signal = to_signal("VAD.detect", "audio", audio);
            return in_scope([&] { return self.detect(signal.samples); });
          },
          "audio"_a, "The segments with speech, in order of time. Waits for the device.")
      .def(
          "get_frame_features",
          [](const Vad& self, SignalArg audio) -> nb::typed<nb::tuple, Array, Array> {
            const Signal signal = to_signal("VAD.get_frame_features", "audio", audio);
            audio::FrameLevels levels = in_scope([&] { return self.features(signal.samples); });
            return nb::make_tuple(wrap(std::move(levels.rms)), wrap(std::move(levels.crossings)));
          },
          "audio"_a, "(root mean square, changes of sign over size - 1) of each frame.");
}

}  // namespace

void bind_audio_stream(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_audio", "The functions of pygpukit.ops.audio; internal.");
  bind_ring(m);
  bind_vad(m);
}

}  // namespace gpukit
