#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "gpukit/engine/voice/sentence_buffer.h"
#include "gpukit/engine/voice/vad.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using voice::SentenceBuffer;
using voice::VadConfig;
using voice::VadEvent;
using voice::VadState;
using voice::VoiceActivityDetector;

std::vector<float> to_samples(const nb::bytes& data) {
  std::vector<float> samples(data.size() / sizeof(float));
  std::memcpy(samples.data(), data.c_str(), samples.size() * sizeof(float));
  return samples;
}

const char* name_of(VadState state) {
  switch (state) {
    case VadState::silence: return "SILENCE";
    case VadState::speech: return "SPEECH";
    case VadState::trailing: break;
  }
  return "TRAILING";
}

}  // namespace

void bind_voice_loop(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_voice", "The parts of pygpukit.pipeline; internal.");
  nb::class_<VadEvent>(m, "Event", "Speech began or ended.")
      .def_ro("start", &VadEvent::start, "It began.")
      .def_ro("timestamp", &VadEvent::timestamp, "Seconds from the beginning of the stream.")
      .def_ro("duration", &VadEvent::duration, "Seconds of audio.")
      .def_prop_ro(
          "audio", [](const VadEvent& e) { return nb::bytes(e.audio.data(), e.audio.size() * sizeof(float)); },
          "float32 samples of what was said, for an end.");
  nb::class_<VoiceActivityDetector>(m, "Detector", "Where somebody speaks, by the energy of short frames.")
      .def(
          "__init__",
          [](VoiceActivityDetector* self, double energy_threshold, double silence_threshold, double min_speech_duration,
             double min_silence_duration, double max_speech_duration, double frame_duration_ms, int64_t sample_rate) {
            new (self) VoiceActivityDetector(VadConfig{energy_threshold, silence_threshold, min_speech_duration,
                                                       min_silence_duration, max_speech_duration, frame_duration_ms,
                                                       sample_rate});
          },
          "energy_threshold"_a, "silence_threshold"_a, "min_speech_duration"_a, "min_silence_duration"_a,
          "max_speech_duration"_a, "frame_duration_ms"_a, "sample_rate"_a)
      .def(
          "process",
          [](VoiceActivityDetector& self, const nb::bytes& samples) { return self.process(to_samples(samples)); },
          "samples"_a, "The events of float32 samples.")
      .def("reset", &VoiceActivityDetector::reset, "Back to the beginning of a stream.")
      .def_prop_ro(
          "state", [](const VoiceActivityDetector& self) { return name_of(self.state()); },
          "SILENCE, SPEECH or TRAILING.")
      .def_prop_ro("is_speaking", &VoiceActivityDetector::is_speaking, "Between a start and its end.");
  nb::class_<SentenceBuffer>(m, "SentenceBuffer", "Text that grows piece by piece, given on by whole sentences.")
      .def(nb::init<>())
      .def(
          "append",
          [](SentenceBuffer& self, StringArg text) { self.append(to_text("SentenceBuffer.append", "text", text)); },
          "text"_a, "Puts text behind what is there.")
      .def("extract_sentences", &SentenceBuffer::extract_sentences,
           "The sentences after which another has begun; they leave the buffer.")
      .def("flush", &SentenceBuffer::flush, "All that is left.")
      .def("clear", &SentenceBuffer::clear, "Forgets what is there.");
}

}  // namespace gpukit
