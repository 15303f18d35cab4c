// Tokenizers of tokenizer.json: byte-level BPE with the splitters of GPT-2, Qwen 2 and Llama 3, and BPE of the
// SentencePiece kind with byte fallback. Experimental: what is read is stated here, what is not raises by name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/text/decoder.h"

namespace gpukit::text {

/// Immutable; copies share one tokenizer. May be used by several threads at once.
class Tokenizer {
 public:
  /// A tokenizer.json, or the folder of one. A tokenizer_config.json beside it names the bos, eos and pad tokens and
  /// holds the chat template, which chat_template.jinja beside it overrides.
  /// Throws FormatError naming the file and the member, UnsupportedError, FileError.
  static Tokenizer from_file(const std::string& path);
  /// The same from text. `config`: the text of a tokenizer_config.json, or empty.
  static Tokenizer from_json(std::string_view tokenizer, std::string_view config = {});

  /// `text` must be UTF-8. With `add_special_tokens` as the file's post processor says: most begin with the bos token.
  /// Truncation and padding of the file are not applied. Throws ArgumentError.
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = true) const;
  /// Bytes that are not UTF-8 become U+FFFD. Throws OutOfRangeError for an id that has no token.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

  std::optional<std::string> id_to_token(int32_t id) const;
  std::optional<int32_t> token_to_id(std::string_view token) const;
  /// Tokens, added ones included. A model may have rows for more ids.
  int64_t vocab_size() const;
  /// Added tokens that are no text, such as <|im_end|>.
  bool is_special(int32_t id) const;
  std::vector<int32_t> special_ids() const;

  // As tokenizer_config.json names them; without it, the first token there is of those that the families use.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  /// Jinja text; empty without one.
  const std::string& chat_template() const;

 private:
  friend class TokenStream;
  struct Model;
  explicit Tokenizer(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  /// `chat_template`: empty where the config's is meant.
  static Tokenizer make(std::string_view tokenizer, std::string_view config, std::string chat_template);

  std::shared_ptr<const Model> model_;
};

/// Text of ids as they come, without half a character: one that several tokens make is given with its last token.
/// All text together is that of decode; only where bytes of <0x..> tokens make no text are they told apart earlier.
class TokenStream {
 public:
  explicit TokenStream(Tokenizer tokenizer, bool skip_special_tokens = true);
  /// The text that `id` completes; often empty. Throws OutOfRangeError for an id that has no token.
  std::string push(int32_t id);
  /// What is left, with U+FFFD for half a character. The next push begins a new text.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  Decoder::State state_;
};

}  // namespace gpukit::text
