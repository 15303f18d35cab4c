#include "gpukit/text/tokenizer.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/error.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/path.h"

namespace gpukit {
namespace {

using namespace python;
using text::Tokenizer;
using text::TokenStream;

int32_t to_id(const char* op, nb::handle value) {
  const int64_t id = to_int(op, "token_id", value);
  if (id < 0 || id > INT32_MAX) throw OutOfRangeError(std::string(op) + ": " + std::to_string(id) + " is no token id");
  return static_cast<int32_t>(id);
}

std::vector<int32_t> to_ids(const char* op, nb::handle values) {
  const nb::tuple items = to_items(op, "token_ids", values);
  std::vector<int32_t> ids;
  ids.reserve(items.size());
  for (nb::handle item : items) ids.push_back(to_id(op, item));
  return ids;
}

nb::object open_tokenizer(const AnyObject& path, const std::string& backend) {
  if (backend == "tokenizers") return nb::module_::import_("pygpukit.llm.tokenizer").attr("TokenizersTokenizer")(path);
  if (backend != "pygpukit") throw ArgumentError("Tokenizer", "backend", "be pygpukit or tokenizers", backend);
  const std::string where = to_path("Tokenizer", path);
  return nb::cast(in_scope([&] { return Tokenizer::from_file(where); }));
}

}  // namespace

void bind_tokenizer(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_text", "The classes of pygpukit.llm that handle text; internal.");
  nb::class_<Tokenizer>(m, "Tokenizer", "Text to token ids and back, as a tokenizer.json says. Experimental.")
      .def(nb::new_(&open_tokenizer), "path"_a, "backend"_a = "pygpukit")
      .def_static(
          "from_json",
          [](nb::str json, std::optional<nb::str> config) {
            const std::string text = to_text("Tokenizer.from_json", "json", json);
            const std::string settings = config ? to_text("Tokenizer.from_json", "config", *config) : std::string();
            return in_scope([&] { return Tokenizer::from_json(text, settings); });
          },
          "json"_a, "config"_a = nb::none(), "From the text of a tokenizer.json, and of its tokenizer_config.json.")
      .def(
          "encode",
          [](const Tokenizer& self, nb::str text, bool add_special_tokens) {
            const std::string bytes = to_text("Tokenizer.encode", "text", text);
            return in_scope([&] { return self.encode(bytes, add_special_tokens); });
          },
          "text"_a, "add_special_tokens"_a = true,
          "Token ids of a text; by default with those the file puts around it.")
      .def(
          "decode",
          [](const Tokenizer& self, const AnyObject& token_ids, bool skip_special_tokens) {
            const std::vector<int32_t> ids = to_ids("Tokenizer.decode", token_ids);
            return in_scope([&] { return self.decode(ids, skip_special_tokens); });
          },
          "token_ids"_a, "skip_special_tokens"_a = true,
          "The text of token ids. Raises OutOfRangeError for an unknown id.")
      .def(
          "id_to_token",
          [](const Tokenizer& self, const AnyObject& token_id) {
            return self.id_to_token(to_id("Tokenizer.id_to_token", token_id));
          },
          "token_id"_a, "A token as the vocabulary spells it, or None.")
      .def(
          "token_to_id",
          [](const Tokenizer& self, nb::str token) {
            return self.token_to_id(to_text("Tokenizer.token_to_id", "token", token));
          },
          "token"_a, "The id of a token as the vocabulary spells it, or None.")
      .def(
          "stream",
          [](const Tokenizer& self, bool skip_special_tokens) { return TokenStream(self, skip_special_tokens); },
          "skip_special_tokens"_a = true, "A TokenStream: text of ids as they come.")
      .def("__len__", &Tokenizer::vocab_size)
      .def_prop_ro("vocab_size", &Tokenizer::vocab_size, "Number of tokens, added ones included.")
      .def_prop_ro("bos_token_id", &Tokenizer::bos_id, "The token that begins a text, or None.")
      .def_prop_ro("eos_token_id", &Tokenizer::eos_id, "The token that ends a text, or None.")
      .def_prop_ro("pad_token_id", &Tokenizer::pad_id, "The token that fills rows, or None.")
      .def_prop_ro("special_token_ids", &Tokenizer::special_ids, "Ids that decode leaves out, ascending.")
      .def_prop_ro(
          "chat_template",
          [](const Tokenizer& self) {
            return self.chat_template().empty() ? std::nullopt : std::optional(self.chat_template());
          },
          "The Jinja text of the file's chat template, or None.");

  nb::class_<TokenStream>(m, "TokenStream", "Text of token ids as they come; never half a character.")
      .def(nb::init<Tokenizer, bool>(), "tokenizer"_a, "skip_special_tokens"_a = true)
      .def(
          "push",
          [](TokenStream& self, const AnyObject& token_id) { return self.push(to_id("TokenStream.push", token_id)); },
          "token_id"_a, "The text that a token completes; often empty.")
      .def("flush", &TokenStream::flush, "What is left; the next push begins a new text.");
}

}  // namespace gpukit
