#include "gpukit/models/tts/kokoro_config.h"

#include <algorithm>
#include <numeric>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/text/english/letters.h"

namespace gpukit::tts {
namespace {

using text::english::decode_utf8;
using text::english::encode_utf8;

/// The phonemes of the published checkpoint.
constexpr std::pair<char32_t, int64_t> kVocabulary[] = {
    {U';', 1},        {U':', 2},        {U',', 3},        {U'.', 4},        {U'!', 5},        {U'?', 6},
    {U'\u2014', 9},   {U'\u2026', 10},  {U'"', 11},       {U'(', 12},       {U')', 13},       {U'\u201c', 14},
    {U'\u201d', 15},  {U' ', 16},       {U'\u0303', 17},  {U'\u02a3', 18},  {U'\u02a5', 19},  {U'\u02a6', 20},
    {U'\u02a8', 21},  {U'\u1d5d', 22},  {U'\uab67', 23},  {U'A', 24},       {U'I', 25},       {U'O', 31},
    {U'Q', 33},       {U'S', 35},       {U'T', 36},       {U'W', 39},       {U'Y', 41},       {U'\u1d4a', 42},
    {U'a', 43},       {U'b', 44},       {U'c', 45},       {U'd', 46},       {U'e', 47},       {U'f', 48},
    {U'h', 50},       {U'i', 51},       {U'j', 52},       {U'k', 53},       {U'l', 54},       {U'm', 55},
    {U'n', 56},       {U'o', 57},       {U'p', 58},       {U'q', 59},       {U'r', 60},       {U's', 61},
    {U't', 62},       {U'u', 63},       {U'v', 64},       {U'w', 65},       {U'x', 66},       {U'y', 67},
    {U'z', 68},       {U'\u0251', 69},  {U'\u0250', 70},  {U'\u0252', 71},  {U'\u00e6', 72},  {U'\u03b2', 75},
    {U'\u0254', 76},  {U'\u0255', 77},  {U'\u00e7', 78},  {U'\u0256', 80},  {U'\u00f0', 81},  {U'\u02a4', 82},
    {U'\u0259', 83},  {U'\u025a', 85},  {U'\u025b', 86},  {U'\u025c', 87},  {U'\u025f', 90},  {U'\u0261', 92},
    {U'\u0265', 99},  {U'\u0268', 101}, {U'\u026a', 102}, {U'\u029d', 103}, {U'\u026f', 110}, {U'\u0270', 111},
    {U'\u014b', 112}, {U'\u0273', 113}, {U'\u0272', 114}, {U'\u0274', 115}, {U'\u00f8', 116}, {U'\u0278', 118},
    {U'\u03b8', 119}, {U'\u0153', 120}, {U'\u0279', 123}, {U'\u027e', 125}, {U'\u027b', 126}, {U'\u0281', 128},
    {U'\u027d', 129}, {U'\u0282', 130}, {U'\u0283', 131}, {U'\u0288', 132}, {U'\u02a7', 133}, {U'\u028a', 135},
    {U'\u028b', 136}, {U'\u028c', 138}, {U'\u0263', 139}, {U'\u0264', 140}, {U'\u03c7', 142}, {U'\u028e', 143},
    {U'\u0292', 147}, {U'\u0294', 148}, {U'\u02c8', 156}, {U'\u02cc', 157}, {U'\u02d0', 158}, {U'\u02b0', 162},
    {U'\u02b2', 164}, {U'\u2193', 169}, {U'\u2192', 171}, {U'\u2197', 172}, {U'\u2198', 173}, {U'\u1d7b', 177}};

[[noreturn]] void bad(const std::string& member, const std::string& needed) {
  throw FormatError("kokoro config: " + member + " must " + needed);
}

void read(const Json& json, const char* name, int64_t& value) {
  const Json* member = json.find(name);
  if (member == nullptr) return;
  constexpr int64_t kLargest = 1 << 20;
  if (!member->is_integer() || member->as_integer() < 1 || member->as_integer() > kLargest)
    bad(name, "be an integer from 1 to " + std::to_string(kLargest));
  value = member->as_integer();
}

std::vector<int64_t> sizes(const Json& list, const char* name) {
  if (!list.is_list() || list.items().empty() || list.items().size() > 16) bad(name, "be a list of 1 to 16 integers");
  std::vector<int64_t> out;
  for (const Json& item : list.items()) {
    if (!item.is_integer() || item.as_integer() < 1 || item.as_integer() > 4096) bad(name, "have integers above 0");
    out.push_back(item.as_integer());
  }
  return out;
}

void read(const Json& json, const char* name, std::vector<int64_t>& value) {
  if (const Json* member = json.find(name)) value = sizes(*member, name);
}

Json to_list(const std::vector<int64_t>& values) {
  Json list = Json::list();
  for (const int64_t v : values) list.push_back(v);
  return list;
}

}  // namespace

KokoroConfig KokoroConfig::from_json(const Json& json) {
  if (!json.is_object()) bad("it", "be an object");
  KokoroConfig c;
  read(json, "dim_in", c.dim_in);
  read(json, "hidden_dim", c.hidden_dim);
  read(json, "style_dim", c.style_dim);
  read(json, "n_layer", c.n_layer);
  read(json, "n_token", c.n_token);
  read(json, "max_dur", c.max_dur);
  read(json, "n_mels", c.n_mels);
  read(json, "text_encoder_kernel_size", c.text_encoder_kernel_size);
  read(json, "sample_rate", c.sample_rate);
  const Json* net = json.find("istftnet");
  const Json& generator = net != nullptr && net->is_object() ? *net : json;
  read(generator, "upsample_rates", c.upsample_rates);
  read(generator, "upsample_kernel_sizes", c.upsample_kernel_sizes);
  read(generator, "resblock_kernel_sizes", c.resblock_kernel_sizes);
  read(generator, "upsample_initial_channel", c.upsample_initial_channel);
  read(generator, "gen_istft_n_fft", c.gen_istft_n_fft);
  read(generator, "gen_istft_hop_size", c.gen_istft_hop_size);
  if (const Json* dilations = generator.find("resblock_dilation_sizes")) {
    if (!dilations->is_list()) bad("resblock_dilation_sizes", "be a list of lists");
    c.resblock_dilation_sizes.clear();
    for (const Json& list : dilations->items())
      c.resblock_dilation_sizes.push_back(sizes(list, "resblock_dilation_sizes"));
  }
  const Json* bert = json.find("plbert");
  if (bert != nullptr) {
    read(*bert, "hidden_size", c.plbert_hidden_size);
    read(*bert, "num_attention_heads", c.plbert_num_attention_heads);
    read(*bert, "intermediate_size", c.plbert_intermediate_size);
    read(*bert, "max_position_embeddings", c.plbert_max_position_embeddings);
    read(*bert, "num_hidden_layers", c.plbert_num_hidden_layers);
  }
  if (c.plbert_max_position_embeddings < 3) bad("max_position_embeddings", "be at least 3");
  if (c.plbert_hidden_size % c.plbert_num_attention_heads != 0)
    bad("hidden_size", "be a multiple of num_attention_heads");
  if (c.upsample_rates.size() != c.upsample_kernel_sizes.size())
    bad("upsample_kernel_sizes", "have one size for each rate");
  if (c.resblock_kernel_sizes.size() != c.resblock_dilation_sizes.size())
    bad("resblock_dilation_sizes", "have one list for each kernel size");
  if (const Json* vocab = json.find("vocab")) {
    c.vocab.clear();
    if (!vocab->is_object()) bad("vocab", "be an object of phonemes and ids");
    for (const auto& [phoneme, id] : vocab->members()) {
      if (decode_utf8(phoneme).size() != 1) bad("vocab", "have one character for each id, not '" + phoneme + "'");
      if (!id.is_integer() || id.as_integer() < 0 || id.as_integer() >= c.n_token)
        bad("vocab['" + phoneme + "']", "be an id below n_token");
      c.vocab.emplace_back(phoneme, id.as_integer());
    }
  }
  return c;
}

std::vector<std::pair<std::string, int64_t>> default_vocabulary() {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& [phoneme, id] : kVocabulary) out.emplace_back(encode_utf8(std::u32string_view(&phoneme, 1)), id);
  return out;
}

KokoroConfig KokoroConfig::open(const std::string& path) {
  const std::string text = files::read_file(path);
  try {
    return from_json(Json::parse(text));
  } catch (const FormatError& error) {
    throw FormatError(path + ": " + error.what());
  }
}

Json KokoroConfig::to_json() const {
  Json json = Json::object();
  json.set("dim_in", dim_in);
  json.set("hidden_dim", hidden_dim);
  json.set("style_dim", style_dim);
  json.set("n_mels", n_mels);
  json.set("n_layer", n_layer);
  json.set("n_token", n_token);
  json.set("max_dur", max_dur);
  json.set("text_encoder_kernel_size", text_encoder_kernel_size);
  json.set("sample_rate", sample_rate);
  Json net = Json::object();
  net.set("upsample_rates", to_list(upsample_rates));
  net.set("upsample_kernel_sizes", to_list(upsample_kernel_sizes));
  net.set("resblock_kernel_sizes", to_list(resblock_kernel_sizes));
  Json dilations = Json::list();
  for (const auto& list : resblock_dilation_sizes) dilations.push_back(to_list(list));
  net.set("resblock_dilation_sizes", std::move(dilations));
  net.set("upsample_initial_channel", upsample_initial_channel);
  net.set("gen_istft_n_fft", gen_istft_n_fft);
  net.set("gen_istft_hop_size", gen_istft_hop_size);
  json.set("istftnet", std::move(net));
  Json bert = Json::object();
  bert.set("hidden_size", plbert_hidden_size);
  bert.set("num_attention_heads", plbert_num_attention_heads);
  bert.set("intermediate_size", plbert_intermediate_size);
  bert.set("max_position_embeddings", plbert_max_position_embeddings);
  bert.set("num_hidden_layers", plbert_num_hidden_layers);
  json.set("plbert", std::move(bert));
  Json tokens = Json::object();
  for (const auto& [phoneme, id] : vocab) tokens.set(phoneme, id);
  json.set("vocab", std::move(tokens));
  return json;
}

int64_t KokoroConfig::samples_per_pitch() const {
  return std::accumulate(upsample_rates.begin(), upsample_rates.end(), gen_istft_hop_size, std::multiplies<>());
}

Vocabulary::Vocabulary(const KokoroConfig& config) {
  for (const auto& [phoneme, id] : config.vocab) {
    const char32_t code = decode_utf8(phoneme)[0];
    ids_.emplace(code, static_cast<int32_t>(id));
    phonemes_.emplace(static_cast<int32_t>(id), code);
  }
}

std::vector<int32_t> Vocabulary::ids(std::string_view phonemes, std::vector<std::string>* unknown) const {
  std::vector<int32_t> out;
  for (const char32_t c : decode_utf8(phonemes)) {
    if (const auto id = ids_.find(c); id != ids_.end()) {
      out.push_back(id->second);
    } else if (unknown != nullptr) {
      const std::string shown = encode_utf8(std::u32string_view(&c, 1));
      if (std::find(unknown->begin(), unknown->end(), shown) == unknown->end()) unknown->push_back(shown);
    }
  }
  return out;
}

std::string Vocabulary::phonemes(const std::vector<int32_t>& ids) const {
  std::u32string out;
  for (const int32_t id : ids)
    if (const auto found = phonemes_.find(id); found != phonemes_.end()) out += found->second;
  return encode_utf8(out);
}

}  // namespace gpukit::tts
