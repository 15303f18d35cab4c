#include "gpukit/engine/voice/answer.h"

#include <algorithm>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::voice {

namespace {

constexpr size_t kLatencies = 1000;

}  // namespace

double SpeechStats::avg_synthesis_time_per_sentence_ms() const {
  return total_sentences == 0 ? 0 : total_synthesis_time_ms / static_cast<double>(total_sentences);
}

double SpeechStats::realtime_factor() const {
  return total_audio_duration_ms > 0 ? total_synthesis_time_ms / total_audio_duration_ms : 0;
}

SpeechStats SpeechStatsBook::read() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void SpeechStatsBook::reset() {
  const std::lock_guard lock(mutex_);
  stats_ = {};
}

Answer::Answer(const AnswerOptions& options, std::shared_ptr<SpeechStatsBook> book, Clock& clock)
    : options_(options), book_(std::move(book)), clock_(clock), began_ns_(clock.now_ns()) {
  if (options.sample_rate < 1)
    throw ArgumentError("Answer", "sample_rate", "be positive", std::to_string(options.sample_rate));
}

double Answer::now_s() const { return static_cast<double>(clock_.now_ns() - began_ns_) * 1e-9; }

template <typename Condition>
void Answer::wait(std::unique_lock<std::mutex>& lock, const Condition& condition) {
  constexpr int64_t kLetSignalsIn = 50'000'000;
  while (!condition()) {
    clock_.wait(changed_, lock, clock_.now_ns() + kLetSignalsIn);
    if (condition()) return;
    lock.unlock();
    runtime::check_interrupt();
    lock.lock();
  }
}

bool Answer::put_heard(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (stopped_) return false;
  events_.push_back({.kind = Event::Kind::heard, .text = std::string(text), .samples = {}});
  changed_.notify_all();
  return true;
}

bool Answer::put_text(std::string_view piece, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  if (stopped_ || text_over_) return false;
  {
    const std::lock_guard book(book_->mutex_);
    book_->stats_.total_tokens += tokens;
  }
  if (piece.empty()) return true;
  const double now = now_s();
  if (first_text_ < 0) first_text_ = now;
  text_ += piece;
  buffer_.append(piece);
  if (options_.stream_sentences)
    for (std::string& sentence : buffer_.extract_sentences()) {
      sentences_.push_back({{std::move(sentence), false}, first_text_});
      first_text_ = now;
    }
  events_.push_back({.kind = Event::Kind::token, .text = std::string(piece), .samples = {}});
  changed_.notify_all();
  return true;
}

void Answer::end_text() {
  const std::lock_guard lock(mutex_);
  if (text_over_) return;
  text_over_ = true;
  if (std::string rest = buffer_.flush(); !rest.empty()) sentences_.push_back({{std::move(rest), true}, first_text_});
  if (!stopped_) events_.push_back({.kind = Event::Kind::written, .text = text_, .samples = {}});
  changed_.notify_all();
}

std::optional<Answer::Sentence> Answer::next_sentence() {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return stopped_ || text_over_ || !sentences_.empty(); });
  if (stopped_ || sentences_.empty()) return std::nullopt;
  speaking_ = std::move(sentences_.front());
  sentences_.pop_front();
  sentence_heard_ = false;
  busy_since_ = now_s();
  return speaking_.sentence;
}

bool Answer::put_sound(std::vector<float> samples, bool last) {
  std::unique_lock lock(mutex_);
  if (stopped_ || sound_over_) return false;
  const double now = now_s();
  const auto count = static_cast<int64_t>(samples.size());
  {
    const std::lock_guard book(book_->mutex_);
    SpeechStats& stats = book_->stats_;
    stats.total_synthesis_time_ms += 1e3 * (now - busy_since_);
    stats.total_audio_duration_ms += 1e3 * static_cast<double>(count) / static_cast<double>(options_.sample_rate);
    if (count > 0 && !sentence_heard_) {
      ++stats.total_sentences;
      stats.token_to_audio_latencies_ms.push_back(1e3 * (now - speaking_.first_text));
      if (stats.token_to_audio_latencies_ms.size() > kLatencies) stats.token_to_audio_latencies_ms.pop_front();
    }
    if (count > 0 && !any_sound_) stats.first_audio_latency_ms = 1e3 * now;
  }
  if (count > 0) {
    any_sound_ = true;
    events_.push_back({Event::Kind::sound, sentence_heard_ ? std::string() : speaking_.sentence.text,
                       std::move(samples), busy_since_, now, last});
    sentence_heard_ = true;
    waiting_samples_ += count;
    changed_.notify_all();
  }
  const double room = options_.seconds_ahead * static_cast<double>(options_.sample_rate);
  wait(lock, [&] { return stopped_ || static_cast<double>(waiting_samples_) <= room; });
  busy_since_ = now_s();
  return !stopped_;
}

void Answer::end_sound() {
  const std::lock_guard lock(mutex_);
  if (sound_over_) return;
  sound_over_ = true;
  if (!stopped_ && any_sound_) events_.push_back({.kind = Event::Kind::spoken, .text = {}, .samples = {}});
  changed_.notify_all();
}

Answer::Event Answer::next_event() {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return stopped_ || !events_.empty() || (text_over_ && sound_over_); });
  if (stopped_ || events_.empty()) return {};
  Event& front = events_.front();
  const auto most = static_cast<size_t>(options_.chunk_samples);
  const size_t left = front.samples.size() - front_taken_;
  if (front.kind == Event::Kind::sound && most > 0 && left > 0) {
    const size_t count = std::min(most, left);
    const float* from = front.samples.data() + front_taken_;
    Event part{front.kind,  std::exchange(front.text, {}), {from, from + count}, front.begun,
               front.ended, front.last && count == left};
    front_taken_ += count;
    if (count == left) drop_front();
    waiting_samples_ -= static_cast<int64_t>(count);
    changed_.notify_all();
    return part;
  }
  Event event = std::move(front);
  drop_front();
  waiting_samples_ -= static_cast<int64_t>(event.samples.size());
  changed_.notify_all();
  return event;
}

void Answer::drop_front() {
  events_.pop_front();
  front_taken_ = 0;
}

bool Answer::stop() {
  const std::lock_guard lock(mutex_);
  const bool ended = text_over_ && sound_over_ && events_.empty();
  if (stopped_ || ended) return false;
  stopped_ = true;
  sentences_.clear();
  events_.clear();
  waiting_samples_ = 0;
  changed_.notify_all();
  return true;
}

bool Answer::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

std::string Answer::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

}  // namespace gpukit::voice
