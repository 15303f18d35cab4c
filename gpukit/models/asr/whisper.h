// Whisper as a whole: sound to text with times.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/models/asr/sound.h"
#include "gpukit/models/asr/whisper_search.h"
#include "gpukit/models/asr/words.h"
#include "gpukit/text/tokenizer.h"

namespace gpukit::asr {

/// A model in memory. Immutable; may be used by several threads at once.
struct Whisper {
  WhisperFiles files;
  std::shared_ptr<const WhisperWeights> encoder, decoder;  // the same, but where a caller joins two
  std::optional<text::Tokenizer> tokenizer;

  /// Throws ArgumentError for parts that do not fit each other.
  void check() const;

  /// A folder, or the name of a model in the Hugging Face cache of this disk. Throws FileError, FormatError,
  /// OutOfMemoryError.
  static std::shared_ptr<const Whisper> open(const std::string& name, const WhisperLoadOptions& options);
};

struct TranscribeOptions {
  std::string language;             // empty: detected
  std::string task = "transcribe";  // or translate, to English
  SearchOptions search;             // temperature is that of `temperatures`
  /// The next one is tried where a text repeats itself or is unlikely.
  std::vector<double> temperatures = {0};
  std::optional<double> compression_ratio_threshold = 2.4, logprob_threshold = -1.0, no_speech_threshold = 0.6;
  bool condition_on_previous_text = true;  // with batch_size 1
  std::string initial_prompt;
  bool word_timestamps = false;  // needs search.timestamps
  bool skip_silence = false;
  /// Seconds of sound that a window hears, and how many of them are before where it begins: what is said there, by the
  /// times of segments, is not given again.
  double chunk_length = 30, overlap = 0;
  /// Windows that are written down at once. Above 1 the recording is cut at quiet places first, and no window knows
  /// of the text before it.
  int64_t batch_size = 1;

  /// Throws ArgumentError.
  void check() const;
};

struct Segment {
  double start = 0, end = 0;  // seconds
  std::string text;
  std::vector<int32_t> tokens;  // with timestamps
  size_t first_token = 0;       // of them, in their window
  double temperature = 0, average_logprob = 0, compression_ratio = 1, no_speech = 0;
  std::vector<Word> words;
};

/// One recording being written down, window by window. For one thread at a time.
class Transcriber {
 public:
  /// samples: float32 [n] or [1, n] at 16 kHz, on any device; a NaN or an infinity counts as silence. Throws
  /// ArgumentError, ShapeError, DTypeError.
  Transcriber(std::shared_ptr<const Whisper> model, const Array& samples, TranscribeOptions options);
  Transcriber(const Transcriber&) = delete;
  Transcriber& operator=(const Transcriber&) = delete;

  /// Writes down up to batch_size windows. False when there is nothing left. Lets signals through.
  bool step();
  /// In the order of the recording; a step adds some at the end.
  const std::vector<Segment>& segments() const { return segments_; }
  /// `en`; empty until it is known.
  const std::string& language() const { return language_; }
  std::string text() const;
  double duration() const { return static_cast<double>(samples_.size()) / kSampleRate; }
  /// Seconds that are behind it.
  double done() const;

 private:
  /// A part of the recording whose windows follow each other.
  struct Track {
    SoundRange left;    // what is still to be heard
    int64_t begin = 0;  // of all of it
    std::vector<Segment> segments;
  };
  struct Heard {
    SearchResult result;
    double temperature = 0, compression = 1;
    std::string text;
    bool accepted = false;
  };

  WhisperSearch& search(int64_t group);
  /// What a window hears: from before the track's place to its end.
  SoundRange window_of(const Track& track) const;
  int64_t place_after(const SoundRange& window, int64_t track_end, int64_t place, bool whole) const;
  void listen(std::span<Track* const> tracks);
  void find_language(int64_t windows);
  std::vector<int32_t> prompt() const;
  std::vector<Heard> hear(std::span<Track* const> tracks);
  bool is_silence(const Heard& heard) const;
  /// Moves the segments of tracks that are over, and of the first that is not, to the result.
  void give_tracks();
  /// Adds the segments of a window and moves on behind them.
  void advance(Track& track, const Heard& heard, int32_t number);
  std::vector<Segment> split(const Heard& heard, const Track& track, int64_t& next) const;
  void add_words(std::vector<Segment>& segments, const Heard& heard, int32_t number, const SoundRange& window);
  std::string text_of(std::span<const int32_t> tokens) const;

  const std::shared_ptr<const Whisper> model_;
  const TranscribeOptions options_;
  std::vector<float> samples_;
  std::vector<Track> tracks_;
  size_t first_open_ = 0;  // tracks before it are over and their segments given
  std::string language_;
  std::vector<Segment> segments_;
  std::vector<int32_t> initial_;                                              // tokens of the initial prompt
  std::vector<int32_t> context_;                                              // with those of the text before
  Array encoded_;                                                             // of the windows of this step
  std::vector<std::pair<int64_t, std::unique_ptr<WhisperSearch>>> searches_;  // by group
};

/// One channel of sound as Whisper takes it, on the host: NaN and infinities are 0. Throws ShapeError, DTypeError.
std::vector<float> to_samples(const Array& sound);

/// (`en`, probability) of each language, likeliest first, by the first 30 s of a recording.
std::vector<std::pair<std::string, float>> detect_language(const Whisper& model, const Array& samples);

}  // namespace gpukit::asr
