// Whisper while someone speaks: words that stay as they are, and what may still change.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpukit/models/asr/whisper.h"

namespace gpukit::asr {

/// What has been heard so far is written down again with each update. A word is given once two updates in a row agree
/// on it and on all before it; the sound before it is forgotten when there is too much, and so is a pause. An update
/// costs what the sound since the one before and one window cost, however long the stream is. For one thread at a time.
class WhisperStream {
 public:
  struct Update {
    std::vector<Word> words;  // new ones; they never change
    std::string pending;      // what follows them, as it is heard now
  };

  /// Of `options` batch_size and skip_silence do not count. Throws ArgumentError.
  WhisperStream(std::shared_ptr<const Whisper> model, TranscribeOptions options);

  /// Samples at 16 kHz. Computes nothing.
  void push(std::span<const float> samples);
  /// Nothing new without new sound.
  Update update();
  /// Gives all that is left. What is pushed later begins a new recording, whose times go on.
  Update finish();
  /// `en`; empty until a word is known.
  const std::string& language() const { return options_.language; }
  /// Seconds of sound so far.
  double duration() const { return static_cast<double>(begin_ + static_cast<int64_t>(sound_.size())) / kSampleRate; }
  /// Seconds of it that are kept, to be heard again.
  double held() const { return static_cast<double>(sound_.size()) / kSampleRate; }

 private:
  /// Words after those that were given, with times of the recording.
  std::vector<Word> hear();
  void give(std::vector<Word>& from, size_t count, Update& to);
  /// Whether all since the last update is quiet beside the speech so far.
  bool is_pause() const;
  void shorten(bool pause);
  /// Words that were given and end before a sample are part of the text before.
  void move_given(int64_t sample);
  /// Forgets the sound before a sample of the recording.
  void forget(int64_t sample);

  const std::shared_ptr<const Whisper> model_;
  TranscribeOptions options_;
  std::vector<float> sound_;  // what is heard again
  int64_t begin_ = 0;         // its first sample in the recording
  size_t heard_ = 0;          // samples of it that the last update knew
  std::vector<Word> last_;    // what the last update heard and did not give
  std::vector<Word> given_;   // words that were given and are still in the sound
  double given_end_ = 0;
  double loud_ = 0;          // power of the speech so far
  std::string text_before_;  // of what is not in it any more
};

}  // namespace gpukit::asr
