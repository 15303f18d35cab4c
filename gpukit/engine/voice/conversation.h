// The logic of a spoken conversation: when somebody speaks, whose turn it is, what stops, what is remembered.
//
// Models are the caller's. Every call may come from any thread. History and log are bounded, so memory and the work of
// a turn do not grow with the conversation.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/engine/voice/answer.h"
#include "gpukit/engine/voice/speech_onset.h"
#include "gpukit/engine/voice/vad.h"

namespace gpukit::voice {

enum class TalkState { idle, listening, transcribing, generating, speaking };

struct ConversationOptions {
  VadConfig vad;
  double barge_in_seconds = 0.04;  // of speech, that silence an answer
  int64_t max_history = 64;        // turns of either side that are remembered
  int64_t sample_rate = 24000;     // of answers
  double chunk_seconds = 0.02;     // of an answer's sound
};

/// Sums over a conversation; times are milliseconds.
struct ConversationStats {
  int64_t total_turns = 0, interruptions = 0;
  double total_speech_seconds = 0, transcription_time_ms = 0, generation_time_ms = 0, audio_seconds = 0;
  double first_audio_latency_ms = 0;  // of the last answer, from the end of its prompt
};

struct SpokenTurn {
  bool user = false;
  std::string text;
  int64_t number = 0;  // of the turn
  double seconds = 0;  // from the making of the conversation
};

/// What one stage made of a turn.
struct StageNote {
  int64_t turn = 0;
  std::string stage;  // vad, whisper, llm, tts, interruption
  std::string text;
  double seconds = 0;  // from the making of the conversation
};

class Conversation {
 public:
  /// Throws ArgumentError for options that make no sense.
  explicit Conversation(const ConversationOptions& options, Clock& clock = real_clock());

  /// Someone's speech and its answer.
  struct Turn {
    std::shared_ptr<Answer> answer;

   private:
    friend class Conversation;
    int64_t number = 0, epoch = 0, began_ns = 0, answer_ns = 0;
    bool heard = false, sounded = false, over = false;
  };

  void start_listening();
  /// Stops what goes on; what comes is not heard until start_listening. True when an answer was interrupted.
  bool stop_listening();
  /// Forgets the conversation and the stream.
  void reset();
  /// Stops the turn that is transcribed, written or spoken. True when there was one.
  bool interrupt();

  struct Heard {
    bool speech_started = false, interrupted = false;
    std::vector<std::vector<float>> said;  // each stretch of speech that has ended
  };
  /// The next samples of the microphone.
  Heard hear(std::span<const float> samples);

  /// The turn of some speech, which is transcribed now; a turn that goes on is interrupted. Null where nobody listens.
  std::shared_ptr<Turn> begin_turn(double speech_seconds);
  /// What was said. False where that is nothing, or the turn was interrupted: it is over then.
  bool heard(Turn& turn, const std::string& text);
  /// The prompt is ready: the answer begins.
  void begin_answer(Turn& turn);
  /// A chunk of the answer was given to the listener. True for the first.
  bool note_sound(Turn& turn, int64_t samples, const std::string& sentence);
  /// The turn is over, however it ended; the answer's text is remembered and returned. Further calls change nothing.
  std::string finish(Turn& turn);

  /// The last turns, those that a prompt has room for. Begins with the user's.
  std::vector<SpokenTurn> window() const;
  /// Told how many tokens the window makes: false where they fit into `room`. Else the oldest turns leave the window,
  /// and some more, so that the next turns fit at once. Throws ArgumentError where a single turn does not fit.
  bool shrink_window(int64_t tokens, int64_t room);

  TalkState state() const;
  ConversationStats stats() const;
  std::vector<SpokenTurn> history() const;
  /// What the stages made, the last thousand notes.
  std::vector<StageNote> log() const;
  const std::shared_ptr<SpeechStatsBook>& speech() const { return speech_; }

 private:
  bool interrupt_locked();
  void forget_oldest();
  void begin_window_with_user();
  void note(int64_t turn, const char* stage, std::string text);
  double now_s() const { return static_cast<double>(clock_.now_ns() - made_ns_) * 1e-9; }
  double milliseconds_since(int64_t ns) const { return static_cast<double>(clock_.now_ns() - ns) * 1e-6; }

  const ConversationOptions options_;
  Clock& clock_;
  const int64_t made_ns_;
  const std::shared_ptr<SpeechStatsBook> speech_ = std::make_shared<SpeechStatsBook>();
  mutable std::mutex mutex_;
  VoiceActivityDetector vad_;
  SpeechOnset onset_;
  TalkState state_ = TalkState::idle;
  std::shared_ptr<Turn> current_;
  int64_t turns_ = 0;
  int64_t epoch_ = 0;  // turns of before the last reset change nothing
  ConversationStats stats_;
  std::deque<SpokenTurn> history_;
  size_t window_ = 0;  // the first turn of the window
  std::deque<StageNote> log_;
};

}  // namespace gpukit::voice
