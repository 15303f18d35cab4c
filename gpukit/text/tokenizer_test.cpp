#include "gpukit/text/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/base/json.h"
#include "gpukit/text/byte_level.h"
#include "gpukit/text/nfc.h"
#include "gpukit/text/splitter.h"

namespace gpukit::text {
namespace {

using Ids = std::vector<int32_t>;

/// Byte-level, 256 single bytes and a few merges; added tokens of each kind.
Json byte_level_file() {
  Json vocabulary = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocabulary.set(spelling_of(static_cast<unsigned char>(byte)), byte);
  const char* merged[] = {"ab", "abab", "bc", "abc"};
  for (int i = 0; i < 4; ++i) vocabulary.set(merged[i], 256 + i);
  Json file = Json::parse(R"({"added_tokens": [{"id": 260, "content": "<end>", "special": true, "normalized": false}],
    "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<end>"}}, {"Sequence": {"id": "A"}}],
                       "special_tokens": {"<end>": {"ids": [260]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "merges": ["a b", "b c", "ab ab", ["ab", "c"]]}})");
  Json model = file.at("model");
  model.set("vocab", vocabulary);
  file.set("model", model);
  return file;
}

/// Characters, bytes where there is none, a mark for spaces.
Json sentence_file() {
  Json vocabulary = Json::object();
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.set(std::string{'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'}, byte);
  const char* tokens[] = {"<unk>",
                          "\xe2\x96\x81",
                          "a",
                          "b",
                          "ab",
                          "\xe2\x96\x81"
                          "ab"};
  for (int i = 0; i < 6; ++i) vocabulary.set(tokens[i], 256 + i);
  Json file = Json::parse(R"({"added_tokens": [],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                   {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
              "merges": ["a b", "\u2581 ab"]}})");
  Json model = file.at("model");
  model.set("vocab", vocabulary);
  file.set("model", model);
  return file;
}

std::vector<std::string> words_of(Splitter splitter, std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view word : split_words(splitter, text)) words.emplace_back(word);
  return words;
}

TEST(Splitter, CutsAsTheFamiliesDo) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(words_of(Splitter::gpt2, "I'll  pay\n\n 12345!? 's"),
            (Words{"I", "'ll", " ", " pay", "\n\n", " 12345", "!?", " '", "s"}));
  EXPECT_EQ(words_of(Splitter::gpt2, "IT'S  "), (Words{"IT", "'", "S", "  "}));
  EXPECT_EQ(words_of(Splitter::qwen2, "IT'S 123 (a)\r\n \n x"),
            (Words{"IT", "'S", " ", "1", "2", "3", " (", "a", ")\r\n", " \n", " x"}));
  EXPECT_EQ(words_of(Splitter::llama3, "12345 a.b"), (Words{"123", "45", " a", ".b"}));
  EXPECT_EQ(words_of(Splitter::qwen2,
                     "'\xc5\xbf"
                     "a"),
            (Words{"'\xc5\xbf", "a"}));
  EXPECT_EQ(words_of(Splitter::none, " a b"), (Words{" a b"}));
  EXPECT_TRUE(split_words(Splitter::gpt2, "").empty());
}

TEST(Nfc, ComposesAndOrdersMarks) {
  EXPECT_EQ(nfc("e\xcc\x81"), "\xc3\xa9");
  EXPECT_EQ(nfc("a\xcc\x81\xcc\xa3"), "\xe1\xba\xa1\xcc\x81");             // the mark below comes first
  EXPECT_EQ(nfc("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab"), "\xed\x95\x9c");  // Hangul
  EXPECT_EQ(nfc("\xe2\x84\xab"), "\xc3\x85");                              // the sign for angstrom is a letter
  EXPECT_EQ(nfc("\xe0\xa4\x95\xe0\xa4\xbc"), "\xe0\xa4\x95\xe0\xa4\xbc");  // never put together
}

TEST(Tokenizer, MergesTheFirstOfTheListFirst) {
  const Tokenizer tokenizer = Tokenizer::from_json(byte_level_file().dump());
  EXPECT_EQ(tokenizer.encode("abababc", false), (Ids{257, 259}));
  EXPECT_EQ(tokenizer.encode("bc", false), (Ids{258}));
  EXPECT_EQ(tokenizer.encode("abc<end>", true), (Ids{260, 259, 260}));
  EXPECT_EQ(tokenizer.decode(Ids{260, 259, 260}), "abc");
  EXPECT_EQ(tokenizer.decode(Ids{260, 259}, false), "<end>abc");
  EXPECT_EQ(tokenizer.special_ids(), (Ids{260}));
  EXPECT_EQ(tokenizer.vocab_size(), 261);
  EXPECT_TRUE(tokenizer.encode("", false).empty());
}

TEST(Tokenizer, FallsBackToBytes) {
  const Tokenizer tokenizer = Tokenizer::from_json(sentence_file().dump());
  EXPECT_EQ(tokenizer.encode("ab \xc3\xa4"), (Ids{261, 257, 0xc3, 0xa4}));
  EXPECT_EQ(tokenizer.decode(Ids{261, 257, 0xc3, 0xa4}), "ab \xc3\xa4");
  // A run of bytes is text as one or not at all.
  EXPECT_EQ(tokenizer.decode(Ids{'x', 0xc3}), "\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Tokenizer, StreamsWholeCharacters) {
  TokenStream stream(Tokenizer::from_json(sentence_file().dump()));
  EXPECT_EQ(stream.push(261), "ab");
  EXPECT_EQ(stream.push(0xc3), "");
  EXPECT_EQ(stream.push(0xa4), "\xc3\xa4");
  EXPECT_EQ(stream.push(0xf0), "");
  EXPECT_EQ(stream.push(258),
            "\xef\xbf\xbd"
            "a");
  EXPECT_EQ(stream.push(0xe2), "");
  EXPECT_EQ(stream.flush(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.push(261), "ab");  // the space at the beginning is left out again
}

TEST(Tokenizer, LongWordsTakeNoSquareTime) {
  const Tokenizer tokenizer = Tokenizer::from_json(byte_level_file().dump());
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(tokenizer.encode(text, false).size(), text.size());
  std::string pairs;
  for (int i = 0; i < 1 << 19; ++i) pairs += "ab";
  EXPECT_EQ(tokenizer.encode(pairs, false), Ids(1 << 18, 257));
}

TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = Tokenizer::from_json(byte_level_file().dump());
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) result = tokenizer.encode("abc " + std::to_string(i % 300) + " abab");
    });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, tokenizer.encode("abc 199 abab"));
}

TEST(Tokenizer, RefusesArguments) {
  const Tokenizer tokenizer = Tokenizer::from_json(byte_level_file().dump());
  EXPECT_THROW(tokenizer.encode("a\xff"), ArgumentError);
  EXPECT_THROW(tokenizer.encode(std::string((1 << 26) + 1, 'a')), ArgumentError);
  EXPECT_THROW(tokenizer.decode(Ids{261}), OutOfRangeError);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), OutOfRangeError);
  EXPECT_EQ(tokenizer.id_to_token(261), std::nullopt);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const FormatError& error) {
    return error.what();
  } catch (const UnsupportedError& error) {
    return std::string("unsupported: ") + error.what();
  }
  return "read";
}

/// The error of a good file after `member` of it (or of its model) was replaced.
std::string refusal(Json file, const std::string& member, const std::string& value) {
  Json model = file.at("model");
  if (model.find(member) != nullptr || member.starts_with("model.")) {
    model.set(member.starts_with("model.") ? member.substr(6) : member, Json::parse(value));
    file.set("model", model);
  } else {
    file.set(member, Json::parse(value));
  }
  return message_of([&] { Tokenizer::from_json(file.dump()); });
}

struct Fault {
  const char* member;
  const char* value;
  const char* message;  // a part of it
};

const Fault kFaults[] = {
    {"model", "[]", "model must be an object"},
    {"model", "null", "model is missing"},
    {"decoder", "null", "decoder is missing"},
    {"decoder", "3", "decoder must be an object"},
    {"decoder", "{}", "decoder.type must be a string"},
    {"decoder", R"({"type": "WordPiece"})", "unsupported: tokenizer.json: decoder.type WordPiece"},
    {"decoder", R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]})", "unsupported"},
    {"decoder",
     R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "ab", "start": 1, "stop": 0}]})",
     "content must be one character"},
    {"decoder",
     R"({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": -1, "stop": 0}]})",
     "start must be a whole number"},
    {"decoder", R"({"type": "Sequence", "decoders": 3})", "decoders must be a list"},
    {"type", "\"Unigram\"", "unsupported: tokenizer.json: model.type Unigram"},
    {"type", "4", "model.type must be a string"},
    {"vocab", "[]", "model.vocab must be an object"},
    {"vocab", "null", "model.vocab is missing"},
    {"vocab", R"({"a": -1})", "no whole number"},
    {"vocab", R"({"a": 2147483648})", "no whole number"},
    {"vocab", R"({"a": 1e300})", "no whole number"},
    {"vocab", R"({"a": "1"})", "no whole number"},
    {"vocab", R"({"a": 1, "b": 1})", "two tokens of the id 1"},
    {"merges", "{}", "model.merges must be a list"},
    {"merges", "[\"a b\", \"x\"]", "merges[1] must be two tokens"},
    {"merges", "[\"a b c\"]", "merges[0] must be two tokens"},
    {"merges", "[\"a \"]", "merges[0] must be two tokens"},
    {"merges", "[[\"a\"]]", "merges[0] must be two tokens"},
    {"merges", "[[\"a\", 3]]", "merges[0] must be two tokens"},
    {"merges", "[[\"\", \"a\"]]", "merges[0] must be two tokens"},
    {"merges", "[\"a z\"]", "merges[0] is of a token that the vocabulary has not"},
    {"model.unk_token", "\"<none>\"", "unk_token is not in the vocabulary"},
    {"model.dropout", "0.1", "unsupported"},
    {"model.byte_fallback", "1", "byte_fallback must be true or false"},
    {"model.end_of_word_suffix", "\"</w>\"", "unsupported"},
    {"added_tokens", "{}", "added_tokens must be a list"},
    {"added_tokens", "[1]", "added_tokens[0] must be an object"},
    {"added_tokens", R"([{"id": 300}])", "added_tokens[0].content must be a string"},
    {"added_tokens", R"([{"content": "x"}])", "added_tokens[0].id must be a whole number"},
    {"added_tokens", R"([{"content": "", "id": 300}])", "content must have 1 to"},
    {"added_tokens", R"([{"content": "x", "id": 4294967296}])", "id must be a whole number"},
    {"added_tokens", R"([{"content": "x<", "id": 3, "normalized": false}])", "id is of another token"},
    {"added_tokens", R"([{"content": "a", "id": 300}])", "id is of another token"},
    {"added_tokens", R"([{"content": "<x>", "id": 300}, {"content": "<y>", "id": 300}])", "id is used twice"},
    {"added_tokens", R"([{"content": "<x>", "id": 300}, {"content": "<x>", "id": 301}])", "content is used twice"},
    {"added_tokens", R"([{"content": "<x>", "id": 300, "special": "yes"}])", "special must be true or false"},
    {"normalizer", R"({"type": "Lowercase"})", "unsupported"},
    {"normalizer", R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""})", "unsupported"},
    {"normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": "a"})", "String must not be empty"},
    {"normalizer", R"({"type": "Prepend"})", "prepend must be a string"},
    {"pre_tokenizer", R"({"type": "Whitespace"})", "unsupported"},
    {"pre_tokenizer", R"({"type": "Metaspace", "replacement": "", "split": true})",
     "replacement must be one character"},
    {"pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
     "always, first or never"},
    {"pre_tokenizer",
     R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated"}, {"type": "ByteLevel"}]})",
     "the package `tokenizers` reads every kind"},
    {"post_processor", R"({"type": "BertProcessing"})", "unsupported"},
    {"post_processor", R"({"type": "TemplateProcessing", "single": []})", "single must hold the text"},
    {"post_processor", R"({"type": "TemplateProcessing", "single": [{"Sequence": {}}, {"Sequence": {}}]})",
     "must stand once"},
    {"post_processor",
     R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "special_tokens": {}})",
     "special_tokens.x is missing"},
    {"post_processor",
     R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}], "special_tokens": {"x": {"ids": [9999]}}})",
     "id 9999, which is of no token"},
};

TEST(Tokenizer, RefusesFilesByName) {
  const Json file = byte_level_file();
  EXPECT_EQ(message_of([&] { Tokenizer::from_json(file.dump()); }), "read");
  for (const Fault& fault : kFaults) {
    const std::string message = refusal(file, fault.member, fault.value);
    EXPECT_NE(message.find(fault.message), std::string::npos) << fault.member << " " << fault.value << ": " << message;
  }
}

TEST(Tokenizer, RefusesDeepAndGrowingFiles) {
  std::string deep = R"({"type": "NFC"})";
  for (int i = 0; i < 150; ++i) deep = R"({"type": "Sequence", "normalizers": [)" + deep + "]}";
  EXPECT_THROW(Tokenizer::from_json(R"({"normalizer": )" + deep + "}"), FormatError);
  EXPECT_THROW(Tokenizer::from_json(std::string(100000, '[')), FormatError);

  Json file = byte_level_file();
  std::string doubled = R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  std::string steps = doubled;
  for (int i = 1; i < 16; ++i) steps += "," + doubled;
  file.set("normalizer", Json::parse(R"({"type": "Sequence", "normalizers": [)" + steps + "]}"));
  EXPECT_THROW(Tokenizer::from_json(file.dump()).encode(std::string(100, 'a')), ArgumentError);
  file.set("normalizer", Json::parse(R"({"type": "Sequence", "normalizers": [)" + steps + "," + doubled + "]}"));
  EXPECT_THROW(Tokenizer::from_json(file.dump()), FormatError);
}

TEST(Tokenizer, ReadsItsConfig) {
  const std::string file = byte_level_file().dump();
  const Tokenizer named = Tokenizer::from_json(
      file, R"({"bos_token": "<end>", "eos_token": {"content": "ab"}, "pad_token": null, "model_max_length": 1e30,
                "chat_template": [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "y"}]})");
  EXPECT_EQ(named.bos_id(), 260);
  EXPECT_EQ(named.eos_id(), 256);
  EXPECT_EQ(named.pad_id(), std::nullopt);
  EXPECT_EQ(named.chat_template(), "y");
  for (const char* config : {"3", R"({"bos_token": 3})", R"({"eos_token": "<none>"})", R"({"eos_token": {}})",
                             R"({"chat_template": {}})", R"({"chat_template": [1]})"})
    EXPECT_THROW(Tokenizer::from_json(file, config), FormatError) << config;
}

}  // namespace
}  // namespace gpukit::text
