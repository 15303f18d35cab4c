#include "gpukit/models/asr/whisper.h"

#include <algorithm>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"
#include "gpukit/io/model_path.h"
#include "gpukit/io/safetensors.h"
#include "gpukit/models/asr/text_ratio.h"
#include "gpukit/models/asr/whisper_encoder.h"
#include "gpukit/ops/audio/spectrum.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::asr {
namespace {

constexpr int64_t kPositionSamples = 2 * 160;  // of one position of the encoder, one step of timestamps
constexpr double kPositionSeconds = static_cast<double>(kPositionSamples) / kSampleRate;
constexpr int64_t kNearPause = kSampleRate, kInPause = kSampleRate / 10;
constexpr double kFreshTemperature = 0.5;  // a text drawn above it is no context for the next

/// Encoder output of windows that begin at `begins` and end before `ends`.
Array encode_windows(const Whisper& model, std::span<const float> samples, std::span<const SoundRange> windows) {
  const auto count = static_cast<int64_t>(windows.size());
  int64_t longest = 1;
  for (const SoundRange& w : windows) longest = std::max(longest, w.end - w.begin);
  std::vector<float> rows(static_cast<size_t>(count * longest), 0.0f);
  for (size_t i = 0; i < windows.size(); ++i)
    std::copy(samples.begin() + windows[i].begin, samples.begin() + windows[i].end,
              rows.begin() + static_cast<std::ptrdiff_t>(i) * longest);
  const Array sound = from_host(rows.data(), {count, longest}, DType::float32, model.encoder->device);
  const WhisperConfig& c = model.files.config;
  return encode(*model.encoder, audio::log_mel_whisper(sound, c.num_mel_bins, 2 * c.max_source_positions));
}

}  // namespace

std::vector<float> to_samples(const Array& given) {
  const Array flat = given.ndim() == 2 && given.shape(0) == 1 ? given.select(0, 0) : given;
  if (flat.ndim() != 1)
    throw ShapeError("transcribe", "audio", "have shape [samples] of one channel", given.shape().str());
  check_dtype("transcribe", "audio", flat, DType::float32);
  std::vector<float> samples(static_cast<size_t>(flat.size()));
  to_host(samples.data(), contiguous(flat), "transcribe");
  for (float& s : samples)
    if (!std::isfinite(s)) s = 0;
  return samples;
}

std::shared_ptr<const Whisper> Whisper::open(const std::string& name, const WhisperLoadOptions& options) {
  const std::string folder = io::model_folder(io::find_model(name));
  WhisperFiles files = WhisperFiles::read(folder);
  text::Tokenizer tokenizer = text::Tokenizer::from_file(folder);
  const auto weights =
      std::make_shared<const WhisperWeights>(WhisperWeights::load(io::TensorFile::open(folder), files.config, options));
  return std::make_shared<Whisper>(Whisper{std::move(files), weights, weights, std::move(tokenizer)});
}

void Whisper::check() const {
  const auto fits = [&](const char* name, const WhisperWeights& w) {
    const WhisperConfig& a = files.config;
    const WhisperConfig& b = w.config;
    if (a.d_model != b.d_model || a.vocab_size != b.vocab_size || a.num_mel_bins != b.num_mel_bins ||
        a.max_source_positions != b.max_source_positions || a.max_target_positions != b.max_target_positions)
      throw ArgumentError("WhisperModel", name, "have the sizes of the configuration", b.to_json().dump());
  };
  fits("encoder", *encoder);
  fits("decoder", *decoder);
  if (encoder->device != decoder->device || encoder->dtype != decoder->dtype)
    throw ArgumentError("WhisperModel", "decoder", "have the device and dtype of the encoder",
                        str(decoder->device) + " and " + name(decoder->dtype));
}

void TranscribeOptions::check() const {
  search.check();
  if (temperatures.empty()) throw ArgumentError("transcribe", "temperature", "be one number or several", "none");
  for (const double t : temperatures)
    if (!(t >= 0 && std::isfinite(t)))
      throw ArgumentError("transcribe", "temperature", "be finite and not negative", number_text(t));
  if (batch_size < 1 || batch_size > 256)
    throw ArgumentError("transcribe", "batch_size", "be 1 to 256", std::to_string(batch_size));
  if (word_timestamps && !search.timestamps)
    throw ArgumentError("transcribe", "word_timestamps", "come with timestamps", "timestamps=False");
  if (!(chunk_length >= 1 && chunk_length <= 30))
    throw ArgumentError("transcribe", "chunk_length", "be 1 to 30 seconds", number_text(chunk_length));
  if (!(overlap >= 0 && overlap <= chunk_length / 2))
    throw ArgumentError("transcribe", "overlap", "be 0 to half of chunk_length", number_text(overlap));
  if (overlap > 0 && !search.timestamps)
    throw ArgumentError("transcribe", "overlap", "come with timestamps", "timestamps=False");
}

Transcriber::Transcriber(std::shared_ptr<const Whisper> model, const Array& samples, TranscribeOptions options)
    : model_(std::move(model)), options_(std::move(options)), samples_(to_samples(samples)) {
  options_.check();
  if (!model_->tokenizer) throw ArgumentError("transcribe", "tokenizer", "be given to WhisperModel", "None");
  const WhisperTokens& tokens = model_->files.tokens;
  if (!options_.language.empty()) {
    const int64_t id = tokens.language(options_.language);
    for (const auto& [code, known] : tokens.languages)
      if (known == id) language_ = code;
  } else if (!tokens.multilingual) {
    language_ = "en";
  }
  if (!language_.empty()) tokens.prompt(language_, options_.task, true);  // checks the task

  const SoundRange all{0, static_cast<int64_t>(samples_.size())};
  std::vector<SoundRange> parts = options_.skip_silence ? find_speech(samples_) : std::vector<SoundRange>{all};
  for (const SoundRange& part : parts) {
    const auto pieces = options_.batch_size > 1 ? cut_at_quiet(samples_, part) : std::vector<SoundRange>{part};
    for (const SoundRange& piece : pieces)
      if (piece.end > piece.begin) tracks_.push_back({piece, piece.begin, {}});
  }
  if (!options_.initial_prompt.empty()) initial_ = model_->tokenizer->encode(" " + options_.initial_prompt, false);
  context_ = initial_;
}

WhisperSearch& Transcriber::search(int64_t group) {
  for (auto& [size, search] : searches_)
    if (size == group) return *search;
  auto made = std::make_unique<WhisperSearch>(*model_->decoder, model_->files, options_.batch_size, group);
  return *searches_.emplace_back(group, std::move(made)).second;
}

SoundRange Transcriber::window_of(const Track& track) const {
  const auto samples = [](double seconds) { return static_cast<int64_t>(seconds * kSampleRate); };
  const int64_t begin = std::max(track.begin, track.left.begin - samples(options_.overlap));
  return {begin, std::min(track.left.end, begin + samples(options_.chunk_length))};
}

bool Transcriber::step() {
  std::vector<Track*> tracks;
  for (size_t i = first_open_; i < tracks_.size() && tracks.size() < static_cast<size_t>(options_.batch_size); ++i) {
    SoundRange& left = tracks_[i].left;
    left.begin = skip_quiet(samples_, left);
    if (left.end > left.begin) tracks.push_back(&tracks_[i]);
  }
  runtime::check_interrupt();
  if (tracks.empty()) return give_tracks(), false;
  listen(tracks);
  const std::vector<Heard> heard = hear(tracks);
  for (size_t i = 0; i < tracks.size(); ++i) advance(*tracks[i], heard[i], static_cast<int32_t>(i));
  give_tracks();
  return true;
}

void Transcriber::give_tracks() {
  for (; first_open_ < tracks_.size(); ++first_open_) {
    Track& track = tracks_[first_open_];
    segments_.insert(segments_.end(), std::make_move_iterator(track.segments.begin()),
                     std::make_move_iterator(track.segments.end()));
    track.segments.clear();
    if (track.left.end > track.left.begin) break;
  }
}

void Transcriber::listen(std::span<Track* const> tracks) {
  std::vector<SoundRange> windows;
  for (const Track* track : tracks) windows.push_back(window_of(*track));
  encoded_ = encode_windows(*model_, samples_, windows);
  if (language_.empty()) find_language(static_cast<int64_t>(windows.size()));
}

void Transcriber::find_language(int64_t windows) {
  WhisperDecoder& first = search(1).decoder();
  for (int64_t i = 0; i < windows; ++i) first.listen(i, encoded_.select(0, i));
  const std::vector<float> probabilities = detect_languages(first, model_->files, windows).front();
  const auto best = std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin();
  language_ = model_->files.tokens.languages[static_cast<size_t>(best)].first;
}

std::vector<int32_t> Transcriber::prompt() const {
  const WhisperTokens& tokens = model_->files.tokens;
  std::vector<int32_t> ids;
  const int64_t length = std::min(options_.search.max_length, model_->files.config.max_target_positions);
  const auto most = static_cast<size_t>(std::max<int64_t>(length / 2 - 1, 0));
  const size_t count = std::min(context_.size(), most);
  if (count > 0) {
    ids.push_back(static_cast<int32_t>(tokens.start_of_previous));
    ids.insert(ids.end(), context_.end() - static_cast<std::ptrdiff_t>(count), context_.end());
  }
  for (const int64_t id : tokens.prompt(language_, options_.task, options_.search.timestamps))
    ids.push_back(static_cast<int32_t>(id));
  return ids;
}

bool Transcriber::is_silence(const Heard& heard) const {
  return options_.no_speech_threshold && heard.result.no_speech > *options_.no_speech_threshold &&
         !(options_.logprob_threshold && heard.result.average_logprob > *options_.logprob_threshold);
}

std::vector<Transcriber::Heard> Transcriber::hear(std::span<Track* const> tracks) {
  const std::vector<int32_t> before = prompt();
  std::vector<Heard> all(tracks.size());
  for (const double temperature : options_.temperatures) {
    std::vector<SearchJob> jobs;
    for (size_t i = 0; i < all.size(); ++i)
      if (!all[i].accepted)
        jobs.push_back({static_cast<int64_t>(i), before, static_cast<uint64_t>(tracks[i]->left.begin)});
    if (jobs.empty()) break;
    SearchOptions search_options = options_.search;
    search_options.temperature = temperature;
    WhisperSearch& texts = search(search_options.group());
    for (const SearchJob& job : jobs) texts.decoder().listen(job.window, encoded_.select(0, job.window));
    const std::vector<SearchResult> results = texts.run(jobs, search_options);
    for (size_t i = 0; i < jobs.size(); ++i) {
      Heard& heard = all[static_cast<size_t>(jobs[i].window)];
      heard.result = results[i];
      heard.temperature = temperature;
      heard.text = text_of(heard.result.tokens);
      heard.compression = compression_ratio(heard.text);
      const bool repeats =
          options_.compression_ratio_threshold && heard.compression > *options_.compression_ratio_threshold;
      const bool unlikely = options_.logprob_threshold && heard.result.average_logprob < *options_.logprob_threshold;
      heard.accepted = is_silence(heard) || !(repeats || unlikely);
    }
  }
  return all;
}

void Transcriber::advance(Track& track, const Heard& heard, int32_t number) {
  const SoundRange window = window_of(track);
  int64_t next = window.end;
  if (!is_silence(heard)) {
    std::vector<Segment> found = split(heard, track, next);
    if (options_.word_timestamps) add_words(found, heard, number, window);
    for (Segment& segment : found) {
      context_.insert(context_.end(), segment.tokens.begin(), segment.tokens.end());
      track.segments.push_back(std::move(segment));
    }
    const bool alone = options_.batch_size > 1 || !options_.condition_on_previous_text;
    if (alone || heard.temperature > kFreshTemperature) context_ = initial_;
    const auto most = static_cast<size_t>(model_->files.config.max_target_positions);
    if (context_.size() > most) context_.erase(context_.begin(), context_.end() - static_cast<std::ptrdiff_t>(most));
  }
  track.left.begin = std::max(next, track.left.begin + 1);
}

/// Times of the model may be off by some tenths of a second. Where a pause is near `place`, the next window begins in
/// it. With `whole`, all of the window was written down up to `place`: what begins to be said behind a pause at its end
/// is heard from its beginning.
int64_t Transcriber::place_after(const SoundRange& window, int64_t track_end, int64_t place, bool whole) const {
  if (window.end >= track_end && whole) return window.end;
  const std::vector<SoundRange> pauses = find_pauses(samples_, window);
  int64_t best = whole ? window.end : place, least = kNearPause + 1;
  for (const SoundRange& pause : pauses) {
    if (whole) {
      if (pause.end >= place && pause.end < window.end) best = pause.end - kInPause;
      continue;
    }
    const int64_t near = std::clamp(place, pause.begin + kInPause, pause.end - kInPause);
    if (near > window.begin && std::abs(near - place) < least) {
      least = std::abs(near - place);
      best = near;
    }
  }
  return best;
}

std::vector<Segment> Transcriber::split(const Heard& heard, const Track& track, int64_t& next) const {
  const WhisperTokens& special = model_->files.tokens;
  const std::vector<int32_t>& tokens = heard.result.tokens;
  const SoundRange window = window_of(track);
  const auto to_seconds = [](int64_t samples) { return static_cast<double>(samples) / kSampleRate; };
  const double begin = to_seconds(window.begin), length = to_seconds(window.end - window.begin);
  const auto seconds = [&](int32_t id) { return static_cast<double>(id - special.timestamp_begin) * kPositionSeconds; };
  const auto is_time = [&](size_t i) { return special.is_timestamp(tokens[i]); };
  std::vector<Segment> segments;
  const double known = to_seconds(track.left.begin);  // up to here it was written down before
  const auto add = [&](size_t first, size_t last, double start, double end) {
    const std::span<const int32_t> part(tokens.data() + first, last - first);
    Segment s{begin + start,
              begin + std::clamp(end, start, std::max(start, length)),
              text_of(part),
              {part.begin(), part.end()},
              first,
              heard.temperature,
              heard.result.average_logprob,
              heard.compression,
              heard.result.no_speech,
              {}};
    if (s.text.find_first_not_of(' ') == std::string::npos || !(s.end > s.start)) return;
    if (window.begin < track.left.begin && (s.start + s.end) / 2 <= known) return;
    s.start = std::max(s.start, known);
    segments.push_back(std::move(s));
  };

  size_t done = 0;
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (!is_time(i) || !is_time(i - 1)) continue;
    add(done, i, is_time(done) ? seconds(tokens[done]) : 0, seconds(tokens[i - 1]));
    done = i;
  }
  const bool ends_with_one = tokens.size() >= 2 && is_time(tokens.size() - 1) && !is_time(tokens.size() - 2);
  if (done > 0 && !ends_with_one) {
    // The text ended before the sound did: go on behind the last segment that is whole.
    const int64_t place = window.begin + (tokens[done - 1] - special.timestamp_begin) * kPositionSamples;
    next =
        place > track.left.begin && place < window.end ? place_after(window, track.left.end, place, false) : window.end;
  } else if (!tokens.empty()) {
    const bool timed = is_time(tokens.size() - 1) && seconds(tokens.back()) > 0;
    const double end = timed ? seconds(tokens.back()) : length;
    add(done, tokens.size(), is_time(done) ? seconds(tokens[done]) : 0, end);
    if (timed) next = place_after(window, track.left.end, window.begin + std::llround(end * kSampleRate), true);
  }
  next = std::clamp(next, track.left.begin + 1, window.end);
  // What comes next does not begin before the end of what is known.
  for (Segment& s : segments) {
    s.end = std::min(s.end, to_seconds(next));
    s.start = std::min(s.start, std::max(s.end - kPositionSeconds, known));
  }
  return segments;
}

void Transcriber::add_words(std::vector<Segment>& segments, const Heard& heard, int32_t number,
                            const SoundRange& window) {
  const WhisperTokens& special = model_->files.tokens;
  const std::vector<int32_t>& tokens = heard.result.tokens;
  const std::vector<int64_t> before = special.prompt(language_, options_.task, true);
  const auto length = static_cast<int64_t>(tokens.size() + before.size());
  if (tokens.empty() || length > model_->files.config.max_target_positions) return;
  WhisperDecoder& reader = search(1).decoder();
  reader.listen(number, encoded_.select(0, number));
  const int64_t frames = std::clamp<int64_t>((window.end - window.begin + kPositionSamples - 1) / kPositionSamples, 1,
                                             model_->files.config.max_source_positions);
  const std::vector<double> times = token_times(reader, model_->files, number, before, tokens, frames);
  const std::vector<double> likely = token_probabilities(reader, model_->files, number, before, tokens);
  const double begin = static_cast<double>(window.begin) / kSampleRate;
  for (Segment& segment : segments) {
    std::vector<int32_t> text;
    std::vector<size_t> places;  // in the window
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      if (segment.tokens[i] >= special.end_of_text) continue;
      text.push_back(segment.tokens[i]);
      places.push_back(segment.first_token + i);
    }
    double last = segment.start;
    for (WordTokens& word : split_words(*model_->tokenizer, text, writes_spaces(language_))) {
      double sum = 0;
      for (size_t i = word.begin; i < word.end; ++i) sum += likely[places[i]];
      // Words ascend, and lie in their segment.
      const double start = std::clamp(begin + times[places[word.begin]], last, segment.end);
      last = std::clamp(begin + times[places[word.end - 1] + 1], start, segment.end);
      segment.words.push_back({std::move(word.text), start, last, sum / static_cast<double>(word.end - word.begin)});
    }
  }
}

std::string Transcriber::text_of(std::span<const int32_t> tokens) const {
  std::vector<int32_t> text;
  for (const int32_t id : tokens)
    if (id < model_->files.tokens.end_of_text) text.push_back(id);
  return model_->tokenizer->decode(text);
}

std::string Transcriber::text() const {
  std::string all;
  for (const Segment& segment : segments_) all += segment.text;
  return all;
}

double Transcriber::done() const {
  if (first_open_ >= tracks_.size()) return duration();
  return static_cast<double>(tracks_[first_open_].left.begin) / kSampleRate;
}

std::vector<std::pair<std::string, float>> detect_language(const Whisper& model, const Array& samples) {
  const std::vector<float> sound = to_samples(samples);
  const SoundRange first{0, std::min<int64_t>(static_cast<int64_t>(sound.size()), kWindowSamples)};
  WhisperDecoder decoder(*model.decoder, 1, 1);
  decoder.listen(0, encode_windows(model, sound, {&first, 1}).select(0, 0));
  const std::vector<float> probabilities = detect_languages(decoder, model.files, 1).front();
  std::vector<std::pair<std::string, float>> languages;
  for (size_t i = 0; i < probabilities.size(); ++i)
    languages.emplace_back(model.files.tokens.languages[i].first, probabilities[i]);
  std::stable_sort(languages.begin(), languages.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return languages;
}

}  // namespace gpukit::asr
