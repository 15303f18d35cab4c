#include "gpukit/models/tts/voice.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"

namespace gpukit::tts {
namespace {

constexpr std::string_view kSuffix = ".bin";

}  // namespace

Voice Voice::open(const std::string& path) {
  const std::string file = files::read_file(path);
  constexpr size_t kValues = kVoiceRows * kStyleWidth;
  if (file.size() != kValues * sizeof(float))
    throw FormatError("voice " + path + ": must have " + std::to_string(kValues * sizeof(float)) +
                      " bytes, float32 [510, 1, 256], got " + std::to_string(file.size()));
  std::vector<float> rows(kValues);
  std::memcpy(rows.data(), file.data(), file.size());
  if (!std::all_of(rows.begin(), rows.end(), [](float v) { return std::isfinite(v); }))
    throw FormatError("voice " + path + ": has values that are not finite");
  Voice voice;
  voice.rows_ = std::make_shared<const std::vector<float>>(std::move(rows));
  return voice;
}

Voice Voice::blend(const std::vector<Voice>& voices) {
  if (voices.empty()) throw ArgumentError("Voice::blend", "voices", "have at least one", "none");
  if (voices.size() == 1) return voices[0];
  std::vector<float> rows(voices[0].rows_->size());
  for (size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (const Voice& voice : voices) sum += (*voice.rows_)[i];
    rows[i] = static_cast<float>(sum / static_cast<double>(voices.size()));
  }
  Voice voice;
  voice.rows_ = std::make_shared<const std::vector<float>>(std::move(rows));
  return voice;
}

const float* Voice::row(int64_t phonemes) const {
  return rows_->data() + std::clamp<int64_t>(phonemes, 0, kVoiceRows - 1) * kStyleWidth;
}

VoiceFolder::VoiceFolder(std::string folder) : folder_(std::move(folder)) {
  const std::string inner = files::join(folder_, "voices");
  if (files::is_folder(inner)) folder_ = inner;
  for (const files::Entry& entry : files::list_folder(folder_))
    if (entry.name.ends_with(kSuffix) && entry.name.size() > kSuffix.size())
      names_.push_back(entry.name.substr(0, entry.name.size() - kSuffix.size()));
}

Voice VoiceFolder::load(std::string_view name) const {
  if (name.ends_with(kSuffix) && files::is_file(std::string(name))) return Voice::open(std::string(name));
  std::vector<Voice> parts;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find_first_of("+,", at), name.size());
    const std::string part(name.substr(at, end - at));
    if (std::find(names_.begin(), names_.end(), part) == names_.end()) {
      std::string known;
      for (const std::string& other : names_) known += (known.empty() ? "" : ", ") + other;
      throw NotFoundError("no voice '" + part + "' in " + folder_ + "; there are: " + (known.empty() ? "none" : known));
    }
    parts.push_back(Voice::open(files::join(folder_, part + std::string(kSuffix))));
    at = end + 1;
  }
  return Voice::blend(parts);
}

}  // namespace gpukit::tts
