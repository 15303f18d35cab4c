#include "gpukit/engine/voice/conversation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"

namespace gpukit::voice {

namespace {

constexpr size_t kNotes = 1000;

const ConversationOptions& checked(const ConversationOptions& o) {
  constexpr const char* kOp = "VoicePipeline";
  if (o.max_history < 2) throw ArgumentError(kOp, "max_history", "be at least 2", std::to_string(o.max_history));
  if (o.sample_rate < 1) throw ArgumentError(kOp, "sample_rate", "be positive", std::to_string(o.sample_rate));
  if (!(o.chunk_seconds >= 0.001 && o.chunk_seconds <= 1))
    throw ArgumentError(kOp, "chunk_seconds", "be 0.001 to 1", number_text(o.chunk_seconds));
  return o;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? std::string() : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

Conversation::Conversation(const ConversationOptions& options, Clock& clock)
    : options_(checked(options)),
      clock_(clock),
      made_ns_(clock.now_ns()),
      vad_(options.vad),
      onset_(options.vad.energy_threshold, options.barge_in_seconds, options.vad.sample_rate) {}

void Conversation::note(int64_t turn, const char* stage, std::string text) {
  log_.push_back({turn, stage, std::move(text), now_s()});
  if (log_.size() > kNotes) log_.pop_front();
}

void Conversation::start_listening() {
  const std::lock_guard lock(mutex_);
  if (state_ == TalkState::idle) state_ = TalkState::listening;
}

bool Conversation::stop_listening() {
  const std::lock_guard lock(mutex_);
  const bool interrupted = interrupt_locked();
  vad_.reset();
  onset_.reset();
  state_ = TalkState::idle;
  return interrupted;
}

void Conversation::reset() {
  const std::lock_guard lock(mutex_);
  ++epoch_;
  if (current_) current_->answer->stop();
  current_ = nullptr;
  vad_.reset();
  onset_.reset();
  state_ = TalkState::idle;
  stats_ = {};
  history_.clear();
  window_ = 0;
  log_.clear();
  speech_->reset();
}

bool Conversation::interrupt_locked() {
  if (!current_ || current_->over || !current_->answer->stop()) return false;
  ++stats_.interruptions;
  if (state_ != TalkState::idle) state_ = TalkState::listening;
  note(current_->number, "interruption", {});
  return true;
}

bool Conversation::interrupt() {
  const std::lock_guard lock(mutex_);
  return interrupt_locked();
}

Conversation::Heard Conversation::hear(std::span<const float> samples) {
  const std::lock_guard lock(mutex_);
  Heard heard;
  if (state_ == TalkState::idle) return heard;
  if (onset_.process(samples)) heard.interrupted = interrupt_locked();
  for (VadEvent& event : vad_.process(samples)) {
    if (event.start) {
      heard.speech_started = true;
      heard.interrupted = interrupt_locked() || heard.interrupted;
    } else {
      heard.said.push_back(std::move(event.audio));
    }
  }
  return heard;
}

std::shared_ptr<Conversation::Turn> Conversation::begin_turn(double speech_seconds) {
  const std::lock_guard lock(mutex_);
  if (state_ == TalkState::idle) return nullptr;
  interrupt_locked();
  current_ = std::make_shared<Turn>();
  current_->number = ++turns_;
  current_->epoch = epoch_;
  current_->began_ns = clock_.now_ns();
  const AnswerOptions options{.sample_rate = options_.sample_rate,
                              .chunk_samples = std::max<int64_t>(
                                  1, std::llround(options_.chunk_seconds * static_cast<double>(options_.sample_rate)))};
  current_->answer = std::make_shared<Answer>(options, speech_, clock_);
  state_ = TalkState::transcribing;
  stats_.total_speech_seconds += speech_seconds;
  note(turns_, "vad", std::to_string(std::llround(1e3 * speech_seconds)) + " ms of speech");
  return current_;
}

bool Conversation::heard(Turn& turn, const std::string& given) {
  const std::lock_guard lock(mutex_);
  if (turn.epoch != epoch_) return false;
  stats_.transcription_time_ms += milliseconds_since(turn.began_ns);
  const std::string text = trimmed(given);
  note(turn.number, "whisper", text);
  if (!turn.answer->put_heard(text) || text.empty()) return false;
  turn.heard = true;
  ++stats_.total_turns;
  history_.push_back({true, text, turn.number, now_s()});
  forget_oldest();
  if (current_.get() == &turn && !turn.answer->stopped()) state_ = TalkState::generating;
  turn.answer_ns = clock_.now_ns();
  return true;
}

void Conversation::begin_answer(Turn& turn) {
  const std::lock_guard lock(mutex_);
  turn.answer_ns = clock_.now_ns();
}

void Conversation::forget_oldest() {
  while (history_.size() > static_cast<size_t>(options_.max_history)) {
    history_.pop_front();
    if (window_ > 0) --window_;
  }
  begin_window_with_user();
}

void Conversation::begin_window_with_user() {
  while (window_ + 1 < history_.size() && !history_[window_].user) ++window_;
}

bool Conversation::note_sound(Turn& turn, int64_t samples, const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  if (turn.epoch != epoch_) return !std::exchange(turn.sounded, true);
  if (!sentence.empty()) note(turn.number, "tts", sentence);
  stats_.audio_seconds += static_cast<double>(samples) / static_cast<double>(options_.sample_rate);
  if (std::exchange(turn.sounded, true)) return false;
  stats_.first_audio_latency_ms = milliseconds_since(turn.answer_ns);
  if (current_.get() == &turn && !turn.answer->stopped()) state_ = TalkState::speaking;
  return true;
}

std::string Conversation::finish(Turn& turn) {
  const std::lock_guard lock(mutex_);
  std::string text = trimmed(turn.answer->text());
  if (std::exchange(turn.over, true)) return text;
  turn.answer->stop();
  if (turn.epoch != epoch_) return text;
  if (turn.heard) {
    stats_.generation_time_ms += milliseconds_since(turn.answer_ns);
    note(turn.number, "llm", text);
    const auto asked = std::find_if(history_.begin(), history_.end(),
                                    [&](const SpokenTurn& t) { return t.number == turn.number && t.user; });
    if (asked != history_.end()) {
      if (static_cast<size_t>(asked - history_.begin()) < window_) ++window_;
      history_.insert(asked + 1, SpokenTurn{false, text, turn.number, now_s()});
      forget_oldest();
    }
  }
  if (current_.get() == &turn) {
    current_ = nullptr;
    if (state_ != TalkState::idle) state_ = TalkState::listening;
  }
  return text;
}

std::vector<SpokenTurn> Conversation::window() const {
  const std::lock_guard lock(mutex_);
  return {history_.begin() + static_cast<int64_t>(std::min(window_, history_.size())), history_.end()};
}

bool Conversation::shrink_window(int64_t tokens, int64_t room) {
  const std::lock_guard lock(mutex_);
  if (tokens <= room) return false;
  const size_t turns = history_.size() - std::min(window_, history_.size());
  if (turns <= 1)
    throw ArgumentError("VoicePipeline", "the last turn", "fit into " + std::to_string(room) + " tokens",
                        std::to_string(tokens));
  constexpr double kFill = 0.75;
  const double keep = kFill * static_cast<double>(room) / static_cast<double>(tokens);
  const auto kept = static_cast<size_t>(std::max(1.0, std::floor(static_cast<double>(turns) * keep)));
  window_ = history_.size() - std::min(kept, turns - 1);
  begin_window_with_user();
  return true;
}

TalkState Conversation::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

ConversationStats Conversation::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::vector<SpokenTurn> Conversation::history() const {
  const std::lock_guard lock(mutex_);
  return {history_.begin(), history_.end()};
}

std::vector<StageNote> Conversation::log() const {
  const std::lock_guard lock(mutex_);
  return {log_.begin(), log_.end()};
}

}  // namespace gpukit::voice
