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
