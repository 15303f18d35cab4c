#include "gpukit/models/asr/stream.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpukit/array/host.h"

namespace gpukit::asr {
namespace {

constexpr size_t kLongSamples = 20 * kSampleRate;  // then what was given is forgotten
constexpr size_t kLeastSamples = kSampleRate;      // too little to be heard
constexpr size_t kPauseSamples = 5 * kSampleRate;  // quiet for so long, the text before is no context any more
constexpr size_t kKeptSamples = 2 * kSampleRate;   // of a pause: a word may have begun in them
constexpr double kQuiet = 1e-4;                    // beside the speech so far
constexpr size_t kContextBytes = 400;              // of the text before

/// Without spaces and punctuation of ASCII, in small letters.
std::string bare(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool small = c >= 'a' && c <= 'z', digit = c >= '0' && c <= '9', other = (c & 0x80) != 0;
    if (small || digit || other) out += c;
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// How many words of `heard` are those of `given`: the beginning that differs from them in the fewest words.
size_t find_new(std::span<const Word> given, std::span<const Word> heard) {
  std::vector<size_t> changes(heard.size() + 1);
  std::iota(changes.begin(), changes.end(), size_t{0});
  for (const Word& word : given) {
    size_t corner = changes[0]++;
    for (size_t i = 1; i <= heard.size(); ++i) {
      const size_t replaced = corner + (bare(word.text) == bare(heard[i - 1].text) ? 0 : 1);
      corner = changes[i];
      changes[i] = std::min({replaced, changes[i] + 1, changes[i - 1] + 1});
    }
  }
  return static_cast<size_t>(std::min_element(changes.begin(), changes.end()) - changes.begin());
}

/// The end of a text, from a space on.
std::string tail(const std::string& text) {
  if (text.size() <= kContextBytes) return text;
  const size_t space = text.find(' ', text.size() - kContextBytes);
  return space == std::string::npos ? std::string() : text.substr(space);
}

}  // namespace

WhisperStream::WhisperStream(std::shared_ptr<const Whisper> model, TranscribeOptions options)
    : model_(std::move(model)), options_(std::move(options)), text_before_(options_.initial_prompt) {
  options_.search.timestamps = options_.word_timestamps = true;
  options_.batch_size = 1;
  options_.skip_silence = false;
  const float nothing = 0;
  Transcriber(model_, from_host(&nothing, {0}, DType::float32, {}), options_);  // checks the options
}

void WhisperStream::push(std::span<const float> samples) {
  sound_.insert(sound_.end(), samples.begin(), samples.end());
}

std::vector<Word> WhisperStream::hear() {
  heard_ = sound_.size();
  TranscribeOptions options = options_;
  options.initial_prompt = text_before_;
  Transcriber work(model_, from_host(sound_.data(), {static_cast<int64_t>(sound_.size())}, DType::float32, {}),
                   std::move(options));
  while (work.step()) {
  }
  const double begin = static_cast<double>(begin_) / kSampleRate;
  std::vector<Word> words;
  for (const Segment& segment : work.segments())
    for (const Word& word : segment.words)
      words.push_back({word.text, begin + word.start, begin + word.end, word.probability});
  if (options_.language.empty() && !words.empty()) options_.language = work.language();
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(find_new(given_, words)));
  return words;
}

void WhisperStream::give(std::vector<Word>& from, size_t count, Update& to) {
  const auto end = from.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto word = from.begin(); word != end; ++word) {
    // Two hearings may differ in when a word was said; those that were given do not overlap.
    Word& given = to.words.emplace_back(*word);
    given.start = std::max(given.start, given_end_);
    given.end = given_end_ = std::max(given.end, given.start);
  }
  given_.insert(given_.end(), from.begin(), end);
  from.erase(from.begin(), end);
}

void WhisperStream::forget(int64_t sample) {
  const auto count = static_cast<size_t>(std::clamp<int64_t>(sample - begin_, 0, static_cast<int64_t>(sound_.size())));
  sound_.erase(sound_.begin(), sound_.begin() + static_cast<std::ptrdiff_t>(count));
  begin_ += static_cast<int64_t>(count);
  heard_ -= std::min(heard_, count);
}

bool WhisperStream::is_pause() const {
  return last_.empty() && is_quiet(std::span(sound_).subspan(heard_), kQuiet * loud_);
}

WhisperStream::Update WhisperStream::update() {
  Update result;
  if (sound_.size() >= kLeastSamples && sound_.size() > heard_) {
    const bool pause = is_pause();
    if (pause) {
      heard_ = sound_.size();
    } else {
      std::vector<Word> words = hear();
      size_t agreed = 0;
      while (agreed < std::min(words.size(), last_.size()) && bare(words[agreed].text) == bare(last_[agreed].text))
        ++agreed;
      // A window that is full without any agreement is taken as it is, but for its last word.
      const bool full = sound_.size() >= static_cast<size_t>(kWindowSamples);
      if (agreed == 0 && full && !words.empty()) agreed = words.size() - 1;
      give(words, agreed, result);
      last_ = std::move(words);
      if (agreed > 0) loud_ = std::max(loud_, loudness(sound_));
      if (full) {
        // No update hears more than a window and what came since: words that begin before the cut are given too.
        const int64_t cut = begin_ + static_cast<int64_t>(sound_.size() - kLongSamples / 2);
        size_t count = 0;
        while (count < last_.size() && last_[count].start * kSampleRate < static_cast<double>(cut)) ++count;
        give(last_, count, result);
      }
    }
    shorten(pause);
  }
  for (const Word& word : last_) result.pending += word.text;
  return result;
}

void WhisperStream::move_given(int64_t sample) {
  size_t count = 0;
  while (count < given_.size() && given_[count].end * kSampleRate <= static_cast<double>(sample)) ++count;
  for (size_t i = 0; i < count; ++i) text_before_ += given_[i].text;
  given_.erase(given_.begin(), given_.begin() + static_cast<std::ptrdiff_t>(count));
  text_before_ = tail(text_before_);
}

/// The last word that was given stays, so that the next ones are heard whole; in a pause nothing does.
void WhisperStream::shorten(bool pause) {
  const int64_t end = begin_ + static_cast<int64_t>(sound_.size());
  if (last_.empty()) {
    bool quiet_for_long = pause || sound_.size() >= kLongSamples;
    if (!given_.empty())
      quiet_for_long = static_cast<double>(end) - given_.back().end * kSampleRate >= static_cast<double>(kPauseSamples);
    if (quiet_for_long) {
      given_.clear();
      text_before_ = options_.initial_prompt;
      forget(end - static_cast<int64_t>(kKeptSamples));
      return;
    }
  }
  if (sound_.size() < kLongSamples) return;
  if (!given_.empty()) {
    const Word kept = given_.back();
    const auto start = static_cast<int64_t>(std::llround(kept.start * kSampleRate));
    given_.pop_back();
    for (const Word& word : given_) text_before_ += word.text;
    text_before_ = tail(text_before_);
    given_.assign(1, kept);
    forget(start);
  }
  if (sound_.size() < static_cast<size_t>(kWindowSamples)) return;
  const int64_t cut = end - static_cast<int64_t>(kLongSamples / 2);
  move_given(cut);
  forget(cut);
}

WhisperStream::Update WhisperStream::finish() {
  Update result;
  std::vector<Word> words = sound_.size() > heard_ ? hear() : std::move(last_);
  give(words, words.size(), result);
  last_.clear();
  given_.clear();
  text_before_ = options_.initial_prompt;
  forget(begin_ + static_cast<int64_t>(sound_.size()));
  return result;
}

}  // namespace gpukit::asr
