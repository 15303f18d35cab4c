#include "gpukit/models/asr/whisper_config.h"

#include <algorithm>
#include <span>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"

namespace gpukit::asr {
namespace {

/// One member of config.json and where it goes.
struct SizeField {
  const char* name;
  int64_t WhisperConfig::*field;
};
constexpr SizeField kSizes[] = {
    {"d_model", &WhisperConfig::d_model},
    {"encoder_layers", &WhisperConfig::encoder_layers},
    {"encoder_attention_heads", &WhisperConfig::encoder_attention_heads},
    {"encoder_ffn_dim", &WhisperConfig::encoder_ffn_dim},
    {"decoder_layers", &WhisperConfig::decoder_layers},
    {"decoder_attention_heads", &WhisperConfig::decoder_attention_heads},
    {"decoder_ffn_dim", &WhisperConfig::decoder_ffn_dim},
    {"vocab_size", &WhisperConfig::vocab_size},
    {"num_mel_bins", &WhisperConfig::num_mel_bins},
    {"max_source_positions", &WhisperConfig::max_source_positions},
    {"max_target_positions", &WhisperConfig::max_target_positions},
};
constexpr SizeField kTokens[] = {
    {"bos_token_id", &WhisperConfig::bos_token_id},
    {"eos_token_id", &WhisperConfig::eos_token_id},
    {"pad_token_id", &WhisperConfig::pad_token_id},
    {"decoder_start_token_id", &WhisperConfig::decoder_start_token_id},
};

struct Language {
  const char* code;
  const char* name;
};
// In the order of their tokens.
constexpr Language kLanguages[] = {
    {"en", "english"},        {"zh", "chinese"},       {"de", "german"},    {"es", "spanish"},    {"ru", "russian"},
    {"ko", "korean"},         {"fr", "french"},        {"ja", "japanese"},  {"pt", "portuguese"}, {"tr", "turkish"},
    {"pl", "polish"},         {"ca", "catalan"},       {"nl", "dutch"},     {"ar", "arabic"},     {"sv", "swedish"},
    {"it", "italian"},        {"id", "indonesian"},    {"hi", "hindi"},     {"fi", "finnish"},    {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},     {"el", "greek"},     {"ms", "malay"},      {"cs", "czech"},
    {"ro", "romanian"},       {"da", "danish"},        {"hu", "hungarian"}, {"ta", "tamil"},      {"no", "norwegian"},
    {"th", "thai"},           {"ur", "urdu"},          {"hr", "croatian"},  {"bg", "bulgarian"},  {"lt", "lithuanian"},
    {"la", "latin"},          {"mi", "maori"},         {"ml", "malayalam"}, {"cy", "welsh"},      {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},       {"lv", "latvian"},   {"bn", "bengali"},    {"sr", "serbian"},
    {"az", "azerbaijani"},    {"sl", "slovenian"},     {"kn", "kannada"},   {"et", "estonian"},   {"mk", "macedonian"},
    {"br", "breton"},         {"eu", "basque"},        {"is", "icelandic"}, {"hy", "armenian"},   {"ne", "nepali"},
    {"mn", "mongolian"},      {"bs", "bosnian"},       {"kk", "kazakh"},    {"sq", "albanian"},   {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},       {"pa", "punjabi"},   {"si", "sinhala"},    {"km", "khmer"},
    {"sn", "shona"},          {"yo", "yoruba"},        {"so", "somali"},    {"af", "afrikaans"},  {"oc", "occitan"},
    {"ka", "georgian"},       {"be", "belarusian"},    {"tg", "tajik"},     {"sd", "sindhi"},     {"gu", "gujarati"},
    {"am", "amharic"},        {"yi", "yiddish"},       {"lo", "lao"},       {"uz", "uzbek"},      {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},        {"tk", "turkmen"},   {"nn", "nynorsk"},    {"mt", "maltese"},
    {"sa", "sanskrit"},       {"lb", "luxembourgish"}, {"my", "myanmar"},   {"bo", "tibetan"},    {"tl", "tagalog"},
    {"mg", "malagasy"},       {"as", "assamese"},      {"tt", "tatar"},     {"haw", "hawaiian"},  {"ln", "lingala"},
    {"ha", "hausa"},          {"ba", "bashkir"},       {"jw", "javanese"},  {"su", "sundanese"},  {"yue", "cantonese"},
};

constexpr int64_t kEnglishVocabulary = 51864;  // one more text token, and one more for each language after English
constexpr int64_t kTimestamps = 1501;          // 0.00 to 30.00

std::vector<int64_t> integers(const Json& list) {
  std::vector<int64_t> values;
  for (const Json& item : list.items()) values.push_back(item.as_integer());
  return values;
}

Json list_of(const std::vector<int64_t>& values) {
  Json list = Json::list();
  for (const int64_t value : values) list.push_back(Json(value));
  return list;
}

/// Null for a member that is missing or null.
const Json* given(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

}  // namespace

WhisperConfig WhisperConfig::from_json(const Json& json) {
  WhisperConfig config;
  for (const auto& fields : {std::span<const SizeField>(kSizes), std::span<const SizeField>(kTokens)})
    for (const SizeField& field : fields)
      if (const Json* value = given(json, field.name)) config.*field.field = value->as_integer();
  if (const Json* value = given(json, "activation_function")) config.activation_function = value->as_string();
  if (const Json* value = given(json, "suppress_tokens")) config.suppress_tokens = integers(*value);
  if (const Json* value = given(json, "begin_suppress_tokens")) config.begin_suppress_tokens = integers(*value);
  if (const Json* value = given(json, "scale_embedding"); value != nullptr && value->as_bool())
    throw UnsupportedError("whisper: scale_embedding is not supported");
  config.check();
  return config;
}

Json WhisperConfig::to_json() const {
  Json json = Json::object();
  for (const auto& fields : {std::span<const SizeField>(kSizes), std::span<const SizeField>(kTokens)})
    for (const SizeField& field : fields) json.set(field.name, Json(this->*field.field));
  json.set("activation_function", Json(activation_function));
  json.set("suppress_tokens", list_of(suppress_tokens));
  json.set("begin_suppress_tokens", list_of(begin_suppress_tokens));
  return json;
}

void WhisperConfig::check() const {
  for (const SizeField& field : kSizes)
    if (this->*field.field < 1 || this->*field.field > (int64_t{1} << 30))
      throw FormatError(std::string("whisper: ") + field.name + " is " + std::to_string(this->*field.field));
  for (const SizeField& field : kTokens)
    if (this->*field.field < 0 || this->*field.field >= vocab_size)
      throw FormatError(std::string("whisper: ") + field.name + " " + std::to_string(this->*field.field) +
                        " is not in the vocabulary of " + std::to_string(vocab_size));
  for (const int64_t heads : {encoder_attention_heads, decoder_attention_heads})
    if (d_model % heads != 0)
      throw FormatError("whisper: d_model " + std::to_string(d_model) + " is not a multiple of " +
                        std::to_string(heads) + " heads");
  if (activation_function != "gelu")
    throw UnsupportedError("whisper: activation '" + activation_function + "' is not supported, gelu is");
}

WhisperTokens WhisperTokens::from_vocabulary(int64_t vocab_size) {
  WhisperTokens t;
  t.multilingual = vocab_size > kEnglishVocabulary;
  const int64_t first = t.multilingual ? 50257 : 50256;
  // Behind the text: end, start, languages, six tokens for tasks and places, timestamps.
  const int64_t languages = vocab_size - kTimestamps - first - 2 - 6;
  if (languages < 1 || languages > static_cast<int64_t>(std::size(kLanguages)))
    throw FormatError("whisper: a vocabulary of " + std::to_string(vocab_size) + " is none of Whisper's");
  t.end_of_text = first;
  t.start = first + 1;
  for (int64_t i = 0; i < languages; ++i) t.languages.emplace_back(kLanguages[i].code, t.start + 1 + i);
  t.translate = t.start + 1 + languages;
  t.transcribe = t.translate + 1;
  t.start_of_previous = t.transcribe + 2;
  t.no_speech = t.transcribe + 3;
  t.no_timestamps = t.transcribe + 4;
  t.timestamp_begin = t.no_timestamps + 1;
  return t;
}

int64_t WhisperTokens::language(std::string_view name) const {
  std::string code(name);
  for (char& c : code) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (code.starts_with("<|") && code.ends_with("|>") && code.size() > 4) code = code.substr(2, code.size() - 4);
  for (const Language& known : kLanguages)
    if (code == known.name) code = known.code;
  for (const auto& [known, id] : languages)
    if (known == code) return id;
  throw ArgumentError("transcribe", "language", "be one that the model knows, such as en",
                      "'" + std::string(name) + "'");
}

std::vector<int64_t> WhisperTokens::prompt(std::string_view language, std::string_view task, bool timestamps) const {
  if (task != "transcribe" && task != "translate")
    throw ArgumentError("transcribe", "task", "be transcribe or translate", "'" + std::string(task) + "'");
  std::vector<int64_t> ids = {start};
  if (multilingual) {
    ids.push_back(this->language(language));
    ids.push_back(task == "translate" ? translate : transcribe);
  } else if (this->language(language) != languages.front().second || task == "translate") {
    throw ArgumentError("transcribe", "language", "be English, which alone this model knows",
                        "'" + std::string(language) + "'");
  }
  if (!timestamps) ids.push_back(no_timestamps);
  return ids;
}

WhisperFiles WhisperFiles::read(const std::string& folder) {
  const std::string path = files::join(folder, "config.json");
  const std::string generation_path = files::join(folder, "generation_config.json");
  const std::string features_path = files::join(folder, "preprocessor_config.json");
  std::string at = path;
  try {
    WhisperFiles files;
    const Json json = Json::parse(files::read_file(path));
    if (const Json* type = given(json, "model_type"); type != nullptr && type->as_string() != "whisper")
      throw FormatError("model_type is '" + type->as_string() + "', not whisper");
    files.config = WhisperConfig::from_json(json);
    files.tokens = WhisperTokens::from_vocabulary(files.config.vocab_size);
    if (files::is_file(at = generation_path)) {
      const Json generation = Json::parse(files::read_file(at));
      if (const Json* value = given(generation, "suppress_tokens")) files.config.suppress_tokens = integers(*value);
      if (const Json* value = given(generation, "begin_suppress_tokens"))
        files.config.begin_suppress_tokens = integers(*value);
      if (const Json* value = given(generation, "max_initial_timestamp_index"))
        files.max_initial_timestamp = value->as_integer();
      if (const Json* value = given(generation, "alignment_heads"))
        for (const Json& pair : value->items()) {
          const std::vector<int64_t> place = integers(pair);
          if (place.size() != 2 || place[0] < 0 || place[0] >= files.config.decoder_layers || place[1] < 0 ||
              place[1] >= files.config.decoder_attention_heads)
            throw FormatError("alignment_heads names a head that the model does not have");
          files.alignment_heads.emplace_back(place[0], place[1]);
        }
    }
    for (const auto* ids : {&files.config.suppress_tokens, &files.config.begin_suppress_tokens})
      for (const int64_t id : *ids)
        if (id < 0 || id >= files.config.vocab_size)
          throw FormatError("suppressed token " + std::to_string(id) + " is not in the vocabulary");
    if (files::is_file(at = features_path)) {
      const Json features = Json::parse(files::read_file(at));
      const std::pair<const char*, int64_t> wanted[] = {
          {"feature_size", files.config.num_mel_bins}, {"hop_length", 160}, {"n_fft", 400}, {"sampling_rate", 16000}};
      for (const auto& [name, value] : wanted)
        if (const Json* found = given(features, name); found != nullptr && found->as_integer() != value)
          throw FormatError(std::string(name) + " is " + std::to_string(found->as_integer()) + ", not " +
                            std::to_string(value));
    }
    return files;
  } catch (const FormatError& e) {
    throw FormatError(at + ": " + e.what());
  }
}

}  // namespace gpukit::asr
