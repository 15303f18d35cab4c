// Voices: a style for every length of text, 510 rows of 256 values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpukit::tts {

inline constexpr int64_t kVoiceRows = 510, kStyleWidth = 256;

class Voice {
 public:
  Voice() = default;
  /// Little-endian float32 [510, 1, 256]. Throws FileError; FormatError for another size and for numbers that are not
  /// finite.
  static Voice open(const std::string& path);
  /// The mean of several.
  static Voice blend(const std::vector<Voice>& voices);

  bool defined() const { return rows_ != nullptr; }
  /// The style for a number of phonemes: row min(n, 509), kStyleWidth values.
  const float* row(int64_t phonemes) const;
  const float* data() const { return rows_->data(); }

 private:
  std::shared_ptr<const std::vector<float>> rows_;
};

/// The voices of a model's folder: NAME.bin in it or in its folder `voices`.
class VoiceFolder {
 public:
  VoiceFolder() = default;
  explicit VoiceFolder(std::string folder);
  const std::vector<std::string>& names() const { return names_; }
  /// A name; several joined by '+' or ',' for their mean; or the path of a .bin file. Throws NotFoundError listing the
  /// names, and what Voice::open throws.
  Voice load(std::string_view name) const;

 private:
  std::string folder_;
  std::vector<std::string> names_;
};

}  // namespace gpukit::tts
