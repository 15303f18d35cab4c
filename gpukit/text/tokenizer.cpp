#include "gpukit/text/tokenizer.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_map>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/json.h"
#include "gpukit/text/added_tokens.h"
#include "gpukit/text/bpe.h"
#include "gpukit/text/normalizer.h"
#include "gpukit/text/utf8.h"
#include "gpukit/text/word_rules.h"

namespace gpukit::text {
namespace {

constexpr size_t kMaxText = size_t{1} << 26;  // positions of 16 times as much fit in an int32

template <typename T>
T read_optional(const Fields& file, std::string_view name) {
  return file.find(name) == nullptr ? T() : T(file.object(name));
}

}  // namespace

struct Tokenizer::Model {
  Model(const Fields& file, const Fields& config);

  void read_added(const Fields& file);
  void read_post_processor(const Fields& processor);
  void read_template(const Fields& processor);
  void read_config(const Fields& config);
  std::optional<int32_t> named_token(const Fields& config, std::string_view name,
                                     std::initializer_list<std::string_view> usual) const;
  std::optional<int32_t> find(std::string_view token) const;
  /// What the decoder takes.
  const std::string& token(int32_t id) const;
  bool is_special(int32_t id) const;
  void encode_text(std::string_view text, bool at_start, std::vector<int32_t>& ids) const;

  WordRules words;
  Normalizer normalizer;
  Bpe bpe;
  Decoder decoder;
  std::vector<AddedToken> added;
  std::unordered_map<int32_t, const AddedToken*> added_by_id;
  std::unordered_map<std::string_view, int32_t> added_ids;
  TokenMatcher raw_matcher, normalized_matcher;
  std::vector<int32_t> before, after;  // the ids that encode puts around a text
  std::optional<int32_t> bos, eos, pad;
  std::string chat_template;
  int64_t size = 0;
};

Tokenizer::Model::Model(const Fields& file, const Fields& config)
    : words(read_optional<WordRules>(file, "pre_tokenizer")),
      normalizer(read_optional<Normalizer>(file, "normalizer")),
      bpe(file.object("model"), words.byte_level()),
      decoder(file.object("decoder")),
      added(read_added_tokens(file, normalizer)) {
  read_added(file);
  if (file.find("post_processor") != nullptr) read_post_processor(file.object("post_processor"));
  read_config(config);
}

void Tokenizer::Model::read_added(const Fields& file) {
  size = static_cast<int64_t>(bpe.tokens().size());
  for (size_t i = 0; i < added.size(); ++i) {
    const AddedToken& token = added[i];
    const Fields item = file.item("added_tokens", i);
    const std::string* in_model = bpe.token(token.id);
    if (in_model == nullptr) ++size;
    if ((in_model != nullptr && *in_model != token.content) || bpe.find(token.content).value_or(token.id) != token.id)
      item.fail("id", "is of another token in model.vocab");
    added_by_id.emplace(token.id, &token);
    added_ids.emplace(token.content, token.id);
    (token.normalized ? normalized_matcher : raw_matcher).add(token);
  }
}

void Tokenizer::Model::read_post_processor(const Fields& processor) {
  const std::string type = processor.string("type");
  if (type == "Sequence") {
    for (size_t i = 0; i < processor.list("processors").size(); ++i)
      read_post_processor(processor.item("processors", i));
  } else if (type == "TemplateProcessing") {
    read_template(processor);
  } else if (type != "ByteLevel") {  // which moves offsets, not tokens
    processor.unsupported("type", type);
  }
}

void Tokenizer::Model::read_template(const Fields& processor) {
  std::vector<int32_t> first, last;
  bool past_text = false;
  for (size_t i = 0; i < processor.list("single").size(); ++i) {
    const Fields piece = processor.item("single", i);
    if (piece.find("Sequence") != nullptr) {
      if (past_text) piece.fail("Sequence", "must stand once");
      past_text = true;
      continue;
    }
    const std::string name = piece.object("SpecialToken").string("id");
    const Fields special = processor.object("special_tokens").object(name);
    for (const Json& id : special.list("ids")) {
      if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() > INT32_MAX)
        special.fail("ids", "must be whole numbers from 0 to 2147483647");
      const int32_t number = static_cast<int32_t>(id.as_integer());
      if (bpe.token(number) == nullptr && !added_by_id.contains(number))
        special.fail("ids", "has the id " + std::to_string(number) + ", which is of no token");
      (past_text ? last : first).push_back(number);
    }
  }
  if (!past_text) processor.fail("single", "must hold the text as a Sequence");
  before.insert(before.begin(), first.begin(), first.end());
  after.insert(after.end(), last.begin(), last.end());
}

std::optional<int32_t> Tokenizer::Model::named_token(const Fields& config, std::string_view name,
                                                     std::initializer_list<std::string_view> usual) const {
  if (const Json* given = config.find(name); given != nullptr) {
    const std::string& content = given->is_object() ? config.object(name).string("content") : config.string(name);
    const auto id = find(content);
    if (!id) config.fail(name, "is no token of the tokenizer: " + Json(content).dump());
    return id;
  }
  for (const std::string_view token : usual)
    if (const auto id = find(token)) return id;
  return std::nullopt;
}

void Tokenizer::Model::read_config(const Fields& config) {
  const bool named = !config.members().empty();
  using Names = std::initializer_list<std::string_view>;
  bos = named_token(config, "bos_token", named ? Names{} : Names{"<s>", "<|begin_of_text|>", "<|startoftext|>"});
  eos = named_token(config, "eos_token", named ? Names{} : Names{"</s>", "<|im_end|>", "<|eot_id|>", "<|endoftext|>"});
  pad = named_token(config, "pad_token", named ? Names{} : Names{"<pad>"});
  const Json* jinja = config.find("chat_template");
  if (jinja == nullptr) return;
  if (!jinja->is_list()) {
    chat_template = config.string("chat_template");
    return;
  }
  for (size_t i = 0; i < jinja->items().size(); ++i) {
    const Fields named_template = config.item("chat_template", i);
    if (named_template.string("name") == "default") chat_template = named_template.string("template");
  }
}

std::optional<int32_t> Tokenizer::Model::find(std::string_view token) const {
  const auto found = added_ids.find(token);
  return found == added_ids.end() ? bpe.find(token) : found->second;
}

const std::string& Tokenizer::Model::token(int32_t id) const {
  if (const auto found = added_by_id.find(id); found != added_by_id.end()) return found->second->pattern;
  const std::string* text = bpe.token(id);
  if (text == nullptr)
    throw OutOfRangeError("Tokenizer.decode: the id " + std::to_string(id) + " has no token; there are " +
                          std::to_string(size));
  return *text;
}

bool Tokenizer::Model::is_special(int32_t id) const {
  const auto found = added_by_id.find(id);
  return found != added_by_id.end() && found->second->special;
}

void Tokenizer::Model::encode_text(std::string_view text, bool at_start, std::vector<int32_t>& ids) const {
  const std::string normalized = normalizer.apply(text);
  for (const Part& part : normalized_matcher.split(normalized)) {
    if (part.id >= 0)
      ids.push_back(part.id);
    else
      words.split(part.text, at_start && part.text.data() == normalized.data(),
                  [&](std::string_view word) { bpe.encode(word, ids); });
  }
}

Tokenizer Tokenizer::make(std::string_view tokenizer, std::string_view config, std::string chat_template) {
  const Json file = Json::parse(tokenizer);
  const Json settings = config.empty() ? Json::object() : Json::parse(config);
  auto model = std::make_shared<Model>(Fields(file, "tokenizer.json"), Fields(settings, "tokenizer_config.json"));
  if (!chat_template.empty()) model->chat_template = std::move(chat_template);
  return Tokenizer(std::move(model));
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer, std::string_view config) {
  return make(tokenizer, config, {});
}

Tokenizer Tokenizer::from_file(const std::string& path) {
  const bool is_folder = files::is_folder(path);
  const std::string file = is_folder ? files::join(path, "tokenizer.json") : path;
  const size_t slash = file.find_last_of("/\\");
  const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash);
  const auto beside = [&](std::string_view name) {
    const std::string other = files::join(folder, name);
    return files::is_file(other) ? files::read_file(other) : std::string();
  };
  const std::string text = files::read_file(file);
  try {
    return make(text, beside("tokenizer_config.json"), beside("chat_template.jinja"));
  } catch (const FormatError& error) {
    throw FormatError(file + ": " + error.what());
  }
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  if (text.size() > kMaxText)
    throw ArgumentError("Tokenizer.encode", "text", "have at most " + std::to_string(kMaxText) + " bytes",
                        std::to_string(text.size()));
  if (const size_t valid = valid_prefix(text); valid != text.size())
    throw ArgumentError("Tokenizer.encode", "text", "be UTF-8", "another byte at offset " + std::to_string(valid));
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = model_->before;
  for (const Part& part : model_->raw_matcher.split(text)) {
    if (part.id >= 0)
      ids.push_back(part.id);
    else
      model_->encode_text(part.text, part.text.data() == text.data(), ids);
  }
  if (add_special_tokens) ids.insert(ids.end(), model_->after.begin(), model_->after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string text;
  Decoder::State state{.whole = true};
  for (const int32_t id : ids)
    if (!skip_special_tokens || !model_->is_special(id)) model_->decoder.take(state, model_->token(id), text);
  model_->decoder.finish(state, text);
  return text;
}

std::optional<std::string> Tokenizer::id_to_token(int32_t id) const {
  if (const auto found = model_->added_by_id.find(id); found != model_->added_by_id.end())
    return found->second->content;
  const std::string* token = model_->bpe.token(id);
  return token == nullptr ? std::nullopt : std::optional(*token);
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const { return model_->find(token); }
int64_t Tokenizer::vocab_size() const { return model_->size; }
bool Tokenizer::is_special(int32_t id) const { return model_->is_special(id); }
std::optional<int32_t> Tokenizer::bos_id() const { return model_->bos; }
std::optional<int32_t> Tokenizer::eos_id() const { return model_->eos; }
std::optional<int32_t> Tokenizer::pad_id() const { return model_->pad; }
const std::string& Tokenizer::chat_template() const { return model_->chat_template; }

std::vector<int32_t> Tokenizer::special_ids() const {
  std::vector<int32_t> ids;
  for (const AddedToken& token : model_->added)
    if (token.special) ids.push_back(token.id);
  std::ranges::sort(ids);
  return ids;
}

TokenStream::TokenStream(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string TokenStream::push(int32_t id) {
  std::string text;
  if (!skip_special_tokens_ || !tokenizer_.model_->is_special(id))
    tokenizer_.model_->decoder.take(state_, tokenizer_.model_->token(id), text);
  return text;
}

std::string TokenStream::flush() {
  std::string text;
  tokenizer_.model_->decoder.finish(state_, text);
  state_ = {};
  return text;
}

}  // namespace gpukit::text
