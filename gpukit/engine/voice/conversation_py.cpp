#include "gpukit/engine/voice/conversation.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using voice::Answer;
using voice::Conversation;
using voice::ConversationStats;
using voice::SpeechStats;
using voice::SpeechStatsBook;
using voice::SpokenTurn;
using voice::StageNote;
using voice::TalkState;

std::vector<float> to_samples(const nb::bytes& data) {
  std::vector<float> samples(data.size() / sizeof(float));
  std::memcpy(samples.data(), data.c_str(), samples.size() * sizeof(float));
  return samples;
}

nb::bytes to_bytes(const std::vector<float>& samples) {
  return nb::bytes(samples.data(), samples.size() * sizeof(float));
}

const char* name_of(TalkState state) {
  switch (state) {
    case TalkState::idle: return "IDLE";
    case TalkState::listening: return "LISTENING";
    case TalkState::transcribing: return "TRANSCRIBING";
    case TalkState::generating: return "GENERATING";
    case TalkState::speaking: break;
  }
  return "SPEAKING";
}

const char* name_of(Answer::Event::Kind kind) {
  switch (kind) {
    case Answer::Event::Kind::heard: return "heard";
    case Answer::Event::Kind::token: return "token";
    case Answer::Event::Kind::written: return "written";
    case Answer::Event::Kind::sound: return "sound";
    case Answer::Event::Kind::spoken: return "spoken";
    case Answer::Event::Kind::end: break;
  }
  return "end";
}

void bind_answer(nb::module_& m) {
  using namespace python;
  nb::class_<SpeechStats>(m, "SpeechStats", "Sums over requests; times are milliseconds.")
      .def(nb::init<>())
      .def_ro("total_tokens", &SpeechStats::total_tokens, "Tokens of text.")
      .def_ro("total_sentences", &SpeechStats::total_sentences, "Sentences that were said.")
      .def_ro("total_audio_duration_ms", &SpeechStats::total_audio_duration_ms, "Sound.")
      .def_ro("total_synthesis_time_ms", &SpeechStats::total_synthesis_time_ms, "What it took to make it.")
      .def_ro("first_audio_latency_ms", &SpeechStats::first_audio_latency_ms,
              "From the last request to its first sound.")
      .def_prop_ro(
          "token_to_audio_latencies_ms",
          [](const SpeechStats& s) {
            return std::vector<double>(s.token_to_audio_latencies_ms.begin(), s.token_to_audio_latencies_ms.end());
          },
          "From the first text of a sentence to its first sound; of the last thousand.")
      .def_prop_ro("avg_synthesis_time_per_sentence_ms", &SpeechStats::avg_synthesis_time_per_sentence_ms,
                   "0 without sentences.")
      .def_prop_ro("realtime_factor", &SpeechStats::realtime_factor,
                   "Time to make the sound for each second of it; 0 without sound.");
  nb::class_<SpeechStatsBook>(m, "SpeechStatsBook", "What answers add to.")
      .def(nb::init<>())
      .def("read", &SpeechStatsBook::read, "The sums so far.")
      .def("reset", &SpeechStatsBook::reset, "Begins anew.");
  nb::class_<Answer::Event>(m, "AnswerEvent", "Something happened to an answer.")
      .def_prop_ro(
          "kind", [](const Answer::Event& e) { return name_of(e.kind); },
          "heard, token, written, sound, spoken or end.")
      .def_ro("text", &Answer::Event::text, "The text.")
      .def_prop_ro(
          "samples", [](const Answer::Event& e) { return to_bytes(e.samples); }, "float32.")
      .def_ro("begun", &Answer::Event::begun, "Seconds from the answer's beginning to when the sound was begun.")
      .def_ro("ended", &Answer::Event::ended, "The same for when it was there.")
      .def_ro("last", &Answer::Event::last, "No sound follows.");
  nb::class_<Answer>(m, "Answer", "One answer while it is written, spoken and heard, by three threads.")
      .def(
          "__init__",
          [](Answer* self, std::shared_ptr<SpeechStatsBook> book, int64_t sample_rate, bool stream_sentences) {
            new (self) Answer({.stream_sentences = stream_sentences, .sample_rate = sample_rate}, std::move(book));
          },
          "book"_a, "sample_rate"_a, "stream_sentences"_a = true)
      .def(
          "put_text",
          [](Answer& self, StringArg text, int64_t tokens) {
            const std::string piece = to_text("Answer.put_text", "text", text);
            return in_scope([&] { return self.put_text(piece, tokens); });
          },
          "text"_a, "tokens"_a = 1, "False: stopped.")
      .def(
          "end_text", [](Answer& self) { in_scope([&] { self.end_text(); }); }, "That was all.")
      .def(
          "next_sentence",
          [](Answer& self) -> std::optional<std::tuple<std::string, bool>> {
            const auto sentence = in_scope([&] { return self.next_sentence(); });
            if (!sentence) return std::nullopt;
            return std::tuple(sentence->text, sentence->last);
          },
          "Waits for (text, whether it is the last); None where nothing comes any more.")
      .def(
          "put_sound",
          [](Answer& self, const nb::bytes& samples, bool last) {
            std::vector<float> values = to_samples(samples);
            return in_scope([&] { return self.put_sound(std::move(values), last); });
          },
          "samples"_a, "last"_a = false, "float32 samples of the sentence taken last. False: stopped.")
      .def(
          "end_sound", [](Answer& self) { in_scope([&] { self.end_sound(); }); }, "That was all.")
      .def(
          "next_event", [](Answer& self) { return in_scope([&] { return self.next_event(); }); },
          "Waits for what happens next.")
      .def(
          "stop", [](Answer& self) { return in_scope([&] { return self.stop(); }); }, "True for the call that did it.")
      .def_prop_ro("stopped", &Answer::stopped, "stop() was called.")
      .def_prop_ro("text", &Answer::text, "All text so far.");
}

}  // namespace

void bind_conversation(nb::module_& parent) {
  using namespace python;
  nb::module_ m = parent.def_submodule("_voice", "The parts of pygpukit.pipeline; internal.");
  bind_answer(m);
  nb::class_<ConversationStats>(m, "ConversationStats", "Sums over a conversation; times are milliseconds.")
      .def(nb::init<>())
      .def_ro("total_turns", &ConversationStats::total_turns, "Turns with words.")
      .def_ro("interruptions", &ConversationStats::interruptions, "Turns that were stopped.")
      .def_ro("total_speech_seconds", &ConversationStats::total_speech_seconds, "Heard.")
      .def_ro("transcription_time_ms", &ConversationStats::transcription_time_ms, "Until it was written down.")
      .def_ro("generation_time_ms", &ConversationStats::generation_time_ms, "Of answers, to the end of their sound.")
      .def_ro("audio_seconds", &ConversationStats::audio_seconds, "Sound that was given.")
      .def_ro("first_audio_latency_ms", &ConversationStats::first_audio_latency_ms,
              "From the last prompt to the first sound.");
  nb::class_<SpokenTurn>(m, "SpokenTurn", "What one side said.")
      .def_prop_ro(
          "role", [](const SpokenTurn& t) { return t.user ? "user" : "assistant"; }, "user or assistant.")
      .def_ro("text", &SpokenTurn::text, "The words.")
      .def_ro("seconds", &SpokenTurn::seconds, "When, from the making of the conversation.");
  nb::class_<StageNote>(m, "StageNote", "What one stage made of a turn.")
      .def_ro("turn", &StageNote::turn, "Its number, from 1.")
      .def_ro("stage", &StageNote::stage, "vad, whisper, llm, tts or interruption.")
      .def_ro("text", &StageNote::text, "What it made.")
      .def_ro("seconds", &StageNote::seconds, "When, from the making of the conversation.");
  nb::class_<Conversation::Heard>(m, "Heard", "What samples of a microphone tell.")
      .def_ro("speech_started", &Conversation::Heard::speech_started, "Somebody began to speak.")
      .def_ro("interrupted", &Conversation::Heard::interrupted, "That stopped an answer.")
      .def_prop_ro(
          "said",
          [](const Conversation::Heard& h) {
            std::vector<nb::bytes> out;
            for (const std::vector<float>& samples : h.said) out.push_back(to_bytes(samples));
            return out;
          },
          "float32 samples of each stretch of speech that has ended.");
  nb::class_<Conversation::Turn>(m, "Turn", "Someone's speech and its answer.")
      .def_prop_ro(
          "answer", [](const Conversation::Turn& t) { return t.answer; }, "The answer.");
  nb::class_<Conversation>(m, "Conversation", "The logic of a spoken conversation.")
      .def(
          "__init__",
          [](Conversation* self, double energy_threshold, double silence_threshold, double min_speech_duration,
             double min_silence_duration, double max_speech_duration, double frame_duration_ms, int64_t sample_rate,
             int64_t answer_rate, double barge_in_seconds, int64_t max_history, double chunk_seconds) {
            new (self) Conversation({.vad = {energy_threshold, silence_threshold, min_speech_duration,
                                             min_silence_duration, max_speech_duration, frame_duration_ms, sample_rate},
                                     .barge_in_seconds = barge_in_seconds,
                                     .max_history = max_history,
                                     .sample_rate = answer_rate,
                                     .chunk_seconds = chunk_seconds});
          },
          "energy_threshold"_a, "silence_threshold"_a, "min_speech_duration"_a, "min_silence_duration"_a,
          "max_speech_duration"_a, "frame_duration_ms"_a, "sample_rate"_a, "answer_rate"_a, "barge_in_seconds"_a,
          "max_history"_a, "chunk_seconds"_a)
      .def("start_listening", &Conversation::start_listening, "From now on hear() hears.")
      .def("stop_listening", &Conversation::stop_listening, "True when a turn was interrupted.")
      .def("reset", &Conversation::reset, "Forgets everything.")
      .def("interrupt", &Conversation::interrupt, "True when there was a turn to stop.")
      .def(
          "hear",
          [](Conversation& self, const nb::bytes& samples) {
            const std::vector<float> values = to_samples(samples);
            return in_scope([&] { return self.hear(values); });
          },
          "samples"_a, "The next samples of the microphone.")
      .def("begin_turn", &Conversation::begin_turn, "speech_seconds"_a, "None where nobody listens.")
      .def(
          "heard",
          [](Conversation& self, Conversation::Turn& turn, StringArg text) {
            return self.heard(turn, to_text("VoicePipeline", "text", text));
          },
          "turn"_a, "text"_a, "What was said. False: nothing, or too late.")
      .def("begin_answer", &Conversation::begin_answer, "turn"_a, "The prompt is ready.")
      .def(
          "note_sound",
          [](Conversation& self, Conversation::Turn& turn, int64_t samples, StringArg sentence) {
            return self.note_sound(turn, samples, to_text("VoicePipeline", "sentence", sentence));
          },
          "turn"_a, "samples"_a, "sentence"_a, "Sound was given. True for the first.")
      .def("finish", &Conversation::finish, "turn"_a, "The turn is over; the text of the answer.")
      .def("window", &Conversation::window, "The turns that a prompt has room for.")
      .def("shrink_window", &Conversation::shrink_window, "tokens"_a, "room"_a,
           "Whether the window had to become shorter.")
      .def_prop_ro(
          "state", [](const Conversation& self) { return name_of(self.state()); }, "What goes on.")
      .def_prop_ro("stats", &Conversation::stats, "The sums.")
      .def_prop_ro("history", &Conversation::history, "The last turns.")
      .def_prop_ro("log", &Conversation::log, "What the stages made.")
      .def_prop_ro(
          "speech", [](const Conversation& self) { return self.speech(); }, "The sums of its answers.");
}

}  // namespace gpukit
