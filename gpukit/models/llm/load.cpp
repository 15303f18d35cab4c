#include "gpukit/models/llm/load.h"

#include <filesystem>
#include <set>
#include <tuple>
#include <unordered_set>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/io/model_path.h"
#include "gpukit/io/read_ahead.h"
#include "gpukit/io/safetensors.h"
#include "gpukit/models/llm/int4_checkpoint.h"
#include "gpukit/models/llm/weight_blocks.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/manipulate/manipulate.h"

namespace gpukit::llm {

namespace {

constexpr const char* kOp = "load_model";

Array join_rows(const std::vector<Array>& parts) {
  if (parts.size() == 1) return parts.front();
  const DType dtype = parts.front().dtype();
  if (!is_storage_only(dtype)) return concat(parts, 0);
  std::vector<Array> bytes;
  for (const Array& part : parts) bytes.push_back(part.bitcast(DType::uint8));
  return concat(bytes, 0).bitcast(dtype);
}

/// The pattern of a bias: the spec's own, else that beside the matrix.
std::string bias_of(const std::string& own, const std::string& matrix) {
  constexpr std::string_view kWeight = ".weight";
  if (!own.empty() || !matrix.ends_with(kWeight)) return own;
  return matrix.substr(0, matrix.size() - kWeight.size()) + ".bias";
}

/// Tensors of checkpoints that hold what config.json tells as well.
bool follows_from_config(const std::string& name, const ModelSpec& spec) {
  if (name.ends_with(".rotary_emb.inv_freq")) return true;
  return spec.name == "gpt2" && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

class Loader {
 public:
  /// Sets the biases of `config` to those that the checkpoint must have.
  Loader(const io::TensorFile& file, TransformerConfig& config, const ModelSpec& spec, Device device,
         const LoadOptions& options, WeightBlocks* weights)
      : file_(file), config_(config), spec_(spec), device_(device), options_(options), weights_(weights) {
    if (weights_ != nullptr)
      reading_.enter = [this] { return std::make_shared<Residence::Turn>(weights_->residence()); };
    // GPT-2 checkpoints have their names with the first before them, or without; models that see too the second.
    for (const char* prefix : {"transformer.", "language_model."})
      if (file.contains(prefix + spec.embed_tokens)) prefix_ = prefix;
    if (spec.embed_tokens.empty()) throw ArgumentError(kOp, "spec", "name embed_tokens", spec.name);
    dtype_ = options.dtype ? *options.dtype : file.info(full_name(spec.embed_tokens)).dtype;
    if (dtype_ != DType::float16 && dtype_ != DType::bfloat16 && dtype_ != DType::float32)
      throw DTypeError(kOp, "dtype", "be float16, bfloat16 or float32", name(dtype_));
    config.qkv_bias =
        config.qkv_bias || in_any_layer({bias_of(spec.q_bias, spec.q_proj), bias_of(spec.k_bias, spec.k_proj),
                                         bias_of(spec.v_bias, spec.v_proj)});
    config.out_bias = config.out_bias || in_any_layer({bias_of(spec.o_bias, spec.o_proj)});
    config.mlp_bias = config.mlp_bias ||
                      in_any_layer({bias_of("", spec.gate_proj), bias_of("", spec.up_proj), bias_of("", spec.down_proj),
                                    bias_of(spec.fc1_bias, spec.fc1), bias_of(spec.fc2_bias, spec.fc2)});
  }

  CausalTransformer::Parts load() {
    CausalTransformer::Parts parts;
    const std::vector<std::string> order = names_in_order();
    for (const std::string& name : order) total_bytes_ += file_.info(name).bytes;
    // On the CPU reading and packing share the threads, so a little ahead is enough. Behind a wall what is read ahead
    // must not take the room of what is made of it.
    if (device_.kind == DeviceKind::cpu) {
      reading_.batch_bytes = int64_t{16} << 20;
      reading_.ahead_bytes = int64_t{32} << 20;
    }
    if (const auto account = runtime::current_account(device_)) {
      const auto room = static_cast<int64_t>(std::min<size_t>(account->available(), size_t{1} << 40));
      reading_.ahead_bytes = std::min(reading_.ahead_bytes, room / 8);
      reading_.batch_bytes = std::min(reading_.batch_bytes, room / 16);
    }
    reader_.emplace(file_, order, device_, reading_);
    parts.embed_tokens = tensor(spec_.embed_tokens, {config_.vocab_size, config_.hidden_size});
    if (!spec_.position_embed.empty())
      parts.position_embed = tensor(spec_.position_embed, {config_.max_position_embeddings, config_.hidden_size});
    const auto [cos, sin] = make_rope_tables(config_, device_);
    parts.blocks.reserve(static_cast<size_t>(config_.num_layers));
    for (layer_ = 0; layer_ < config_.num_layers; ++layer_) {
      TransformerBlock block;
      block.attn_norm = norm(spec_.attn_norm, spec_.attn_norm_bias);
      block.mlp_norm = norm(spec_.mlp_norm, spec_.mlp_norm_bias);
      block.attn = attention();
      if (config_.has_rope(layer_)) std::tie(block.attn.cos, block.attn.sin) = std::tie(cos, sin);
      if (config_.is_moe_layer(layer_))
        block.mlp = experts();
      else
        block.mlp = mlp();
      parts.blocks.push_back(std::move(block));
      if (weights_ != nullptr) weights_->added(parts);
    }
    parts.final_norm = norm(spec_.final_norm, spec_.final_norm_bias);
    const bool own_head = !spec_.lm_head.empty() && file_.contains(full_name(spec_.lm_head));
    if (!own_head && !config_.tie_word_embeddings)
      throw FormatError(file_.path() + ": there is no " + spec_.lm_head +
                        ", and config.json does not tie it to the embedding");
    parts.head = Weight::for_few_rows(own_head ? tensor(spec_.lm_head, {config_.vocab_size, config_.hidden_size})
                                               : parts.embed_tokens);
    note(parts.head.parts().data, {full_name(own_head ? spec_.lm_head : spec_.embed_tokens)});
    // One copy serves both: of the table a token reads a row alone.
    if (!own_head) parts.embed_tokens = parts.head.parts().data;
    check_all_read();
    if (weights_ != nullptr) weights_->finish(parts);
    return parts;
  }

 private:
  /// One matrix of the checkpoint: its pattern and shape as [outputs, inputs].
  struct Matrix {
    std::string pattern;
    int64_t rows, columns;
  };

  std::string full_name(const std::string& pattern, int64_t expert = 0) const {
    return full_name(pattern, layer_, expert);
  }
  std::string full_name(const std::string& pattern, int64_t layer, int64_t expert) const {
    const std::string name = tensor_name(pattern, layer, expert);
    return !prefix_.empty() && file_.contains(prefix_ + name) ? prefix_ + name : name;
  }

  bool in_any_layer(const std::vector<std::string>& patterns) {
    for (layer_ = 0; layer_ < config_.num_layers; ++layer_)
      for (const std::string& pattern : patterns)
        if (!pattern.empty() && file_.contains(full_name(pattern))) return true;
    return false;
  }

  void check_all_read() const {
    for (const std::string& name : file_.names())
      // Beside the language model of one that sees lie the parts that see.
      if (!read_.contains(name) && !follows_from_config(name, spec_) &&
          (prefix_ != "language_model." || name.starts_with(prefix_)))
        throw FormatError(file_.path() + ": " + name + " is no tensor of a " + config_.model_type + " of " +
                          std::to_string(config_.num_layers) +
                          " layers by config.json: without it the model would compute something else");
  }

  /// What an array that stays is made of.
  void note(const Array& array, std::vector<std::string> tensors, bool turned = false) const {
    if (weights_ != nullptr) weights_->note(array, std::move(tensors), turned);
  }
  std::vector<std::string> names_of(const std::vector<Matrix>& matrices, int64_t expert, const char* end = "") const {
    std::vector<std::string> names;
    for (const Matrix& m : matrices) names.push_back(full_name(m.pattern, expert) + end);
    return names;
  }

  /// Of the tensors that are asked for, about in the order in which they are.
  std::vector<std::string> names_in_order() const {
    std::vector<std::string> names;
    const auto add = [&](const std::string& pattern, int64_t layer = 0, int64_t expert = 0) {
      if (pattern.empty()) return;
      const std::string name = full_name(pattern, layer, expert);
      for (const char* end : {"", "_scale_inv"})
        if (file_.contains(name + end)) names.push_back(name + end);
    };
    const ModelSpec& s = spec_;
    for (const auto* pattern : {&s.embed_tokens, &s.position_embed}) add(*pattern);
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      for (const auto* pattern : {&s.attn_norm, &s.attn_norm_bias, &s.mlp_norm, &s.mlp_norm_bias, &s.q_norm, &s.k_norm})
        add(*pattern, layer);
      for (const auto& [bias, matrix] : {std::pair{&s.q_bias, &s.q_proj}, std::pair{&s.k_bias, &s.k_proj},
                                         std::pair{&s.v_bias, &s.v_proj}, std::pair{&s.o_bias, &s.o_proj}}) {
        add(*matrix, layer);
        add(bias_of(*bias, *matrix), layer);
      }
      if (!config_.is_moe_layer(layer)) {
        for (const auto* pattern : {&s.gate_proj, &s.up_proj, &s.down_proj, &s.fc1, &s.fc1_bias, &s.fc2, &s.fc2_bias})
          add(*pattern, layer);
        continue;
      }
      for (const auto* pattern : {&s.moe_gate, &s.experts_gate_up, &s.experts_down, &s.shared_gate_proj,
                                  &s.shared_up_proj, &s.shared_down_proj})
        add(*pattern, layer);
      for (int64_t e = 0; e < config_.num_experts; ++e)
        for (const auto* pattern : {&s.expert_gate_proj, &s.expert_up_proj, &s.expert_down_proj})
          add(*pattern, layer, e);
    }
    for (const auto* pattern : {&s.final_norm, &s.final_norm_bias, &s.lm_head}) add(*pattern);
    std::set<std::string> seen;
    std::erase_if(names, [&](const std::string& name) { return !seen.insert(name).second; });
    return names;
  }

  Array read(const std::string& name, std::optional<DType> cast = std::nullopt) const {
    Array array = reader_->load(name, cast);
    done_bytes_ += file_.info(name).bytes;
    if (options_.progress) options_.progress(done_bytes_, std::max(done_bytes_, total_bytes_));
    return array;
  }

  /// In the model's dtype.
  Array tensor(const std::string& pattern, const Dims& shape, int64_t expert = 0) const {
    const std::string name = full_name(pattern, expert);
    const io::TensorInfo& info = file_.info(name);
    if (info.shape != shape)
      throw FormatError(file_.path() + ": " + name + " must have shape " + shape.str() + " by config.json, got " +
                        info.shape.str());
    if (!is_floating(info.dtype))
      throw FormatError(file_.path() + ": " + name + " must hold floats, got " + gpukit::name(info.dtype));
    read_.insert(name);
    const Array loaded = read(name, dtype_);
    note(loaded, {name});
    return loaded;
  }

  /// Undefined where there is none to be.
  Array bias(bool wanted, const std::string& own, const std::string& matrix, int64_t size) const {
    return wanted ? tensor(bias_of(own, matrix), {size}) : Array();
  }

  Norm norm(const std::string& gamma, const std::string& beta) const {
    if (gamma.empty()) throw ArgumentError(kOp, "spec", "name its norms", spec_.name);
    Norm n{tensor(gamma, {config_.hidden_size}), {}, config_.norm_eps};
    if (config_.norm == NormKind::layernorm) n.beta = tensor(beta, {config_.hidden_size});
    return n;
  }

  Array dense(const Matrix& m, int64_t expert = 0) const {
    if (!spec_.weight_transpose) return tensor(m.pattern, {m.rows, m.columns}, expert);
    return contiguous(tensor(m.pattern, {m.columns, m.rows}, expert).transpose());
  }

  /// As the checkpoint quantised it: without parts of that name, nothing.
  std::optional<Quantized> stored_codes(const Matrix& m, int64_t expert) const {
    const std::string name = full_name(m.pattern, expert);
    if (config_.int4 && name.ends_with(".weight")) {
      const std::string stem = name.substr(0, name.size() - std::string_view(".weight").size());
      if (file_.contains(stem + ".qweight")) {
        for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"}) read_.insert(stem + part);
        return load_int4(file_, stem, *config_.int4, m.rows, m.columns, device_);
      }
    }
    if (!file_.contains(name + "_scale_inv")) return std::nullopt;
    const Fp8Layout layout = config_.fp8.value_or(Fp8Layout{});
    const io::TensorInfo& info = file_.info(name);
    const Dims scales{(m.rows + layout.block_rows - 1) / layout.block_rows,
                      (m.columns + layout.block_columns - 1) / layout.block_columns};
    const io::TensorInfo& scale = file_.info(name + "_scale_inv");
    if (info.dtype != DType::float8_e4m3 || info.shape != Dims{m.rows, m.columns} || scale.shape != scales)
      throw FormatError(file_.path() + ": " + name + " must be float8_e4m3 " + Dims{m.rows, m.columns}.str() +
                        " with scales " + scales.str() + ", got " + gpukit::name(info.dtype) + " " + info.shape.str() +
                        " with " + scale.shape.str());
    read_.insert({name, scale.name});
    return Quantized(read(name), read(scale.name, DType::float32));
  }

  Weight packed(const Array& matrix) const {
    if (!options_.quantize) return Weight::for_few_rows(matrix);
    return Weight::quantize(matrix, *options_.quantize,
                            weight_quantization(*options_.quantize, options_.group, matrix.shape(1)));
  }

  /// Matrices of one input, joined below each other where their scales allow it.
  std::vector<Weight> joined(const std::vector<Matrix>& matrices, int64_t expert = 0) const {
    std::vector<Array> numbers, codes, scales, zeros;
    std::vector<Quantized> quantized;
    for (const Matrix& m : matrices) {
      if (const auto q = stored_codes(m, expert)) {
        quantized.push_back(*q);
        codes.push_back(q->data);
        scales.push_back(q->scale);
        if (q->zero.defined()) zeros.push_back(q->zero);
      } else {
        numbers.push_back(dense(m, expert));
      }
    }
    if (!numbers.empty() && !codes.empty())
      throw FormatError(file_.path() + ": " + full_name(matrices.front().pattern, expert) +
                        " and its neighbours are not all quantised");
    if (codes.empty()) {
      const Weight weight = packed(join_rows(numbers));
      note(weight.parts().data, names_of(matrices, expert), spec_.weight_transpose);
      return {weight};
    }
    if (options_.quantize)
      throw ArgumentError(kOp, "quantize", "be None for a checkpoint whose matrices are quantised already",
                          gpukit::name(*options_.quantize));
    bool whole_blocks = true;
    for (const Quantized& q : quantized)
      whole_blocks =
          whole_blocks && q.data.shape(0) % (zeros.empty() ? config_.fp8.value_or(Fp8Layout{}).block_rows : 1) == 0;
    if (whole_blocks) {
      const Weight weight(Quantized(join_rows(codes), join_rows(scales), zeros.empty() ? Array() : join_rows(zeros)));
      if (!config_.int4) {
        note(weight.parts().data, names_of(matrices, expert));
        note(weight.parts().scale, names_of(matrices, expert, "_scale_inv"));
      }
      return {weight};
    }
    std::vector<Weight> weights;
    for (const Quantized& q : quantized) weights.emplace_back(q);
    return weights;
  }

  Weight single(const std::string& pattern, int64_t rows, int64_t columns, int64_t expert = 0) const {
    if (pattern.empty()) throw ArgumentError(kOp, "spec", "name the matrices of its layers", spec_.name);
    return joined({{pattern, rows, columns}}, expert).front();
  }

  AttentionLayer attention() const {
    AttentionLayer a;
    a.num_heads = config_.num_heads;
    a.num_kv_heads = config_.kv_heads();
    a.dim = config_.dim();
    a.norm_eps = config_.norm_eps;
    set_position_rules(config_, layer_, &a);
    const int64_t q = a.num_heads * a.dim, kv = a.num_kv_heads * a.dim, width = config_.hidden_size;
    if (spec_.q_proj.empty() || spec_.k_proj.empty() || spec_.v_proj.empty())
      throw ArgumentError(kOp, "spec", "name q, k and v", spec_.name);
    if (spec_.qkv_combined) {
      a.qkv = joined({{spec_.q_proj, q + 2 * kv, width}});
      a.qkv_bias = bias(config_.qkv_bias, spec_.q_bias, spec_.q_proj, q + 2 * kv);
    } else {
      a.qkv = joined({{spec_.q_proj, q, width}, {spec_.k_proj, kv, width}, {spec_.v_proj, kv, width}});
      const Array biases[] = {bias(config_.qkv_bias, spec_.q_bias, spec_.q_proj, q),
                              bias(config_.qkv_bias, spec_.k_bias, spec_.k_proj, kv),
                              bias(config_.qkv_bias, spec_.v_bias, spec_.v_proj, kv)};
      if (config_.qkv_bias) {
        a.qkv_bias = concat(biases, 0);
        note(a.qkv_bias,
             {full_name(bias_of(spec_.q_bias, spec_.q_proj)), full_name(bias_of(spec_.k_bias, spec_.k_proj)),
              full_name(bias_of(spec_.v_bias, spec_.v_proj))});
      }
    }
    a.out = {single(spec_.o_proj, width, q), bias(config_.out_bias, spec_.o_bias, spec_.o_proj, width)};
    if (config_.unit_qk_norm && config_.has_rope(layer_)) {
      // A rotation keeps the length: the same before and after it.
      a.q_norm = a.k_norm = ones({a.dim}, dtype_, device_);
    } else if (spec_.use_qk_norm) {
      a.q_norm = tensor(spec_.q_norm, {a.dim});
      a.k_norm = tensor(spec_.k_norm, {a.dim});
    }
    return a;
  }

  MlpLayer mlp() const {
    const int64_t width = config_.hidden_size, inner = config_.mlp_size();
    MlpLayer m;
    if (config_.mlp == MlpKind::silu) {
      m.gate = {single(spec_.gate_proj, inner, width), bias(config_.mlp_bias, "", spec_.gate_proj, inner)};
      m.up = {single(spec_.up_proj, inner, width), bias(config_.mlp_bias, "", spec_.up_proj, inner)};
      m.down = {single(spec_.down_proj, width, inner), bias(config_.mlp_bias, "", spec_.down_proj, width)};
    } else {
      m.up = {single(spec_.fc1, inner, width), bias(config_.mlp_bias, spec_.fc1_bias, spec_.fc1, inner)};
      m.down = {single(spec_.fc2, width, inner), bias(config_.mlp_bias, spec_.fc2_bias, spec_.fc2, width)};
    }
    return m;
  }

  /// Experts that lie in one tensor, [experts, inputs, outputs].
  ExpertWeights stacked(const std::string& pattern, int64_t rows, int64_t columns) const {
    const Array all = tensor(pattern, {config_.num_experts, columns, rows});
    std::vector<Weight> each;
    for (int64_t e = 0; e < config_.num_experts; ++e) each.push_back(expert_weight(all.select(0, e).transpose()));
    return ExpertWeights::stack(each);
  }

  Weight expert_weight(const Array& matrix) const {
    const Array dense = contiguous(matrix);
    return options_.quantize ? packed(dense) : Weight(dense);
  }

  MoeLayer llama4_experts() const {
    const int64_t width = config_.hidden_size, inner = config_.expert_size(), shared = config_.shared_expert_size;
    MoeLayer m;
    m.options.top_k = config_.num_experts_per_tok;
    m.options.sigmoid_input = config_.sigmoid_experts;
    m.weights.router = Weight(tensor(spec_.moe_gate, {config_.num_experts, width}));
    m.weights.gate_up = stacked(spec_.experts_gate_up, 2 * inner, width);
    m.weights.down = stacked(spec_.experts_down, width, inner);
    const auto pair = joined({{spec_.shared_gate_proj, shared, width}, {spec_.shared_up_proj, shared, width}});
    if (pair.size() != 1)
      throw UnsupportedError(file_.path() + ": a shared expert of " + std::to_string(shared) +
                             " rows, which are not whole blocks of scales, is not computed");
    m.weights.shared_gate_up = pair.front();
    m.weights.shared_down = single(spec_.shared_down_proj, width, shared);
    return m;
  }

  MoeLayer experts() const {
    if (!spec_.experts_gate_up.empty()) return llama4_experts();
    if (spec_.moe_gate.empty() || spec_.expert_gate_proj.empty() || spec_.expert_up_proj.empty() ||
        spec_.expert_down_proj.empty())
      throw ArgumentError(kOp, "spec", "name a router and experts", spec_.name);
    const int64_t width = config_.hidden_size, inner = config_.expert_size();
    MoeLayer m;
    m.options.top_k = config_.num_experts_per_tok;
    m.options.normalize = config_.normalize_expert_weights;
    m.weights.router = Weight(tensor(spec_.moe_gate, {config_.num_experts, width}));
    std::vector<Weight> gate_up, down;
    for (int64_t e = 0; e < config_.num_experts; ++e) {
      auto pair = joined({{spec_.expert_gate_proj, inner, width}, {spec_.expert_up_proj, inner, width}}, e);
      if (pair.size() != 1)
        throw UnsupportedError(file_.path() + ": experts of " + std::to_string(inner) +
                               " rows, which are not whole blocks of scales, are not computed");
      gate_up.push_back(std::move(pair.front()));
      down.push_back(single(spec_.expert_down_proj, width, inner, e));
    }
    m.weights.gate_up = ExpertWeights::stack(gate_up);
    m.weights.down = ExpertWeights::stack(down);
    std::vector<std::string> wide, narrow;
    for (int64_t e = 0; e < config_.num_experts; ++e) {
      wide.insert(wide.end(), {full_name(spec_.expert_gate_proj, e), full_name(spec_.expert_up_proj, e)});
      narrow.push_back(full_name(spec_.expert_down_proj, e));
    }
    note(m.weights.gate_up.parts().data, std::move(wide));
    note(m.weights.down.parts().data, std::move(narrow));
    return m;
  }

  const io::TensorFile& file_;
  const TransformerConfig& config_;
  const ModelSpec& spec_;
  Device device_;
  const LoadOptions& options_;
  WeightBlocks* const weights_;  // null: arrays stay where they are
  std::string prefix_;
  DType dtype_ = DType::float32;
  int64_t layer_ = 0;
  mutable std::unordered_set<std::string> read_;  // names of the tensors taken so far
  io::ReadAhead::Options reading_;
  int64_t total_bytes_ = 0;
  mutable int64_t done_bytes_ = 0;
  mutable std::optional<io::ReadAhead> reader_;
};

/// Throws when config.json names another family than the tensors do.
void check_agreement(const std::string& path, const TransformerConfig& config, const ModelSpec& spec) {
  const ModelSpec& told = find_model_spec(config.model_type);
  // A llama with biases has the names of a qwen2.
  if (told.name == spec.name || (told.name == "llama" && spec.name == "qwen2")) return;
  throw FormatError(path + ": config.json says " + config.model_type + ", the tensors are named as those of " +
                    spec.name);
}

/// The last part of a path.
std::string short_name(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.find_last_of("/\\") + 1);
}

}  // namespace

QuantizeOptions weight_quantization(DType format, int64_t group, int64_t columns) {
  QuantizeOptions options;
  switch (format) {
    case DType::int8:
    case DType::float8_e4m3: options.block = {1, group}; break;
    case DType::int4: options.block = {1, group == 0 ? 64 : group}; break;
    case DType::float4_e2m1: options.block = {1, group == 0 ? 16 : group}; break;
    default: throw ArgumentError(kOp, "quantize", "be float8_e4m3, int8, int4 or float4_e2m1", name(format));
  }
  if (is_packed(format) && columns % 2 != 0)
    throw ArgumentError(kOp, "quantize", "be a format of bytes for matrices of odd width", name(format));
  return options;
}

TransformerConfig load_config(const std::string& path) {
  const std::string folder = io::model_folder(io::find_model(path));
  const auto read = [&](const std::string& name, const auto& use) {
    const std::string file = folder + "/" + name;
    try {
      use(Json::parse(files::read_file(file)));
    } catch (const FormatError& error) {
      const std::string_view text = error.what();
      throw FormatError(file + ": " + std::string(text.starts_with(name + ": ") ? text.substr(name.size() + 2) : text));
    }
  };
  TransformerConfig config;
  read("config.json", [&](const Json& json) { config = TransformerConfig::from_json(json); });
  if (std::filesystem::exists(folder + "/generation_config.json"))
    read("generation_config.json", [&](const Json& json) { config.add_generation(json); });
  return config;
}

std::shared_ptr<const CausalTransformer> load_model(const std::string& path, Device device,
                                                    const LoadOptions& options) {
  const io::TensorFile file = io::TensorFile::open(path);
  TransformerConfig config = load_config(path);
  const ModelSpec& spec = options.spec != nullptr ? *options.spec : detect_model_spec(file.names());
  if (options.spec == nullptr) check_agreement(file.path(), config, spec);
  if (!options.evictable) {
    CausalTransformer::Parts parts = Loader(file, config, spec, device, options, nullptr).load();
    return std::make_shared<const CausalTransformer>(config, std::move(parts));
  }
  const auto residence = std::make_shared<Residence>("model:" + short_name(path), device);
  const Residence::Turn turn(residence);
  WeightBlocks weights(file, residence);
  CausalTransformer::Parts parts = Loader(file, config, spec, device, options, &weights).load();
  return std::make_shared<const CausalTransformer>(config, std::move(parts), residence);
}

}  // namespace gpukit::llm
