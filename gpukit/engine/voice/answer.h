// One answer while it is written, spoken and heard, by three threads at once.
//
// A writer puts text in, a speaker takes whole sentences and puts sound in, a listener takes what happened, in order.
// Stopping wakes all of them. Every call may come from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/engine/voice/sentence_buffer.h"

namespace gpukit::voice {

/// Sums over answers; times are milliseconds.
struct SpeechStats {
  int64_t total_tokens = 0, total_sentences = 0;
  double total_audio_duration_ms = 0, total_synthesis_time_ms = 0;
  double first_audio_latency_ms = 0;               // of the last answer
  std::deque<double> token_to_audio_latencies_ms;  // a sentence's first text to its first sound; the last ones

  double avg_synthesis_time_per_sentence_ms() const;  // 0 without sentences
  double realtime_factor() const;                     // time to make the sound for each second of it
};

/// The sums of a pipeline, which its answers add to.
class SpeechStatsBook {
 public:
  SpeechStats read() const;
  void reset();

 private:
  friend class Answer;
  mutable std::mutex mutex_;
  SpeechStats stats_;
};

struct AnswerOptions {
  bool stream_sentences = true;  // else all text is one
  int64_t sample_rate = 24000;   // of the sound
  int64_t chunk_samples = 0;     // sound events are this long at most; 0: as they were put in
  double seconds_ahead = 30;     // sound that may wait for the listener
};

class Answer {
 public:
  Answer(const AnswerOptions& options, std::shared_ptr<SpeechStatsBook> book, Clock& clock = real_clock());

  // The writer. False: stopped, write no more.
  /// What is answered.
  bool put_heard(std::string_view text);
  /// The text of some tokens; may be empty.
  bool put_text(std::string_view piece, int64_t tokens = 1);
  void end_text();

  // The speaker.
  struct Sentence {
    std::string text;
    bool last = false;  // nothing comes after it
  };
  /// Waits for the next one; none where the text is over or the answer was stopped.
  std::optional<Sentence> next_sentence();
  /// Sound of the sentence taken last. Waits while the listener is far behind. False: stopped, speak no more.
  bool put_sound(std::vector<float> samples, bool last);
  void end_sound();

  // The listener.
  struct Event {
    enum class Kind { heard, token, written, sound, spoken, end };
    Kind kind = Kind::end;
    std::string text;  // heard, written: all of it; token: a piece; sound: the sentence's, with its first samples
    std::vector<float> samples;   // of sound
    double begun = 0, ended = 0;  // of sound: seconds since the answer began
    bool last = false;            // of sound: nothing comes after it
  };
  /// Waits for the next one. `end` after all of them, and at once when stopped.
  Event next_event();

  /// True for the call that did it.
  bool stop();
  bool stopped() const;
  /// All text so far.
  std::string text() const;

 private:
  double now_s() const;
  void drop_front();
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, const Condition& condition);

  const AnswerOptions options_;
  const std::shared_ptr<SpeechStatsBook> book_;
  Clock& clock_;
  const int64_t began_ns_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false, text_over_ = false, sound_over_ = false;
  std::string text_;
  SentenceBuffer buffer_;
  struct Waiting {
    Sentence sentence;
    double first_text = 0;
  };
  std::deque<Waiting> sentences_;
  double first_text_ = -1;  // when the buffer's text began; negative: it has none
  Waiting speaking_;        // the sentence taken last
  bool sentence_heard_ = false, any_sound_ = false;
  double busy_since_ = 0;  // of the speaker
  std::deque<Event> events_;
  size_t front_taken_ = 0;  // samples of the first event that were given
  int64_t waiting_samples_ = 0;
};

}  // namespace gpukit::voice
