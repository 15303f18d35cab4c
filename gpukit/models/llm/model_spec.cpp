#include "gpukit/models/llm/model_spec.h"

#include <algorithm>

#include "gpukit/base/error.h"

namespace gpukit::llm {

namespace {

ModelSpec gpt2() {
  ModelSpec s;
  s.name = s.hf_model_type = "gpt2";
  s.embed_tokens = "wte.weight";
  s.position_embed = "wpe.weight";
  s.lm_head = "lm_head.weight";
  s.final_norm = "ln_f.weight";
  s.final_norm_bias = "ln_f.bias";
  s.attn_norm = "h.{layer}.ln_1.weight";
  s.attn_norm_bias = "h.{layer}.ln_1.bias";
  s.q_proj = s.k_proj = s.v_proj = "h.{layer}.attn.c_attn.weight";
  s.q_bias = s.k_bias = s.v_bias = "h.{layer}.attn.c_attn.bias";
  s.o_proj = "h.{layer}.attn.c_proj.weight";
  s.o_bias = "h.{layer}.attn.c_proj.bias";
  s.mlp_norm = "h.{layer}.ln_2.weight";
  s.mlp_norm_bias = "h.{layer}.ln_2.bias";
  s.fc1 = "h.{layer}.mlp.c_fc.weight";
  s.fc1_bias = "h.{layer}.mlp.c_fc.bias";
  s.fc2 = "h.{layer}.mlp.c_proj.weight";
  s.fc2_bias = "h.{layer}.mlp.c_proj.bias";
  s.norm_type = "layernorm";
  s.activation = "gelu";
  s.use_rope = false;
  s.use_position_embed = s.qkv_combined = s.weight_transpose = true;
  return s;
}

ModelSpec llama() {
  ModelSpec s;
  s.name = s.hf_model_type = "llama";
  s.embed_tokens = "model.embed_tokens.weight";
  s.lm_head = "lm_head.weight";
  s.final_norm = "model.norm.weight";
  s.attn_norm = "model.layers.{layer}.input_layernorm.weight";
  s.q_proj = "model.layers.{layer}.self_attn.q_proj.weight";
  s.k_proj = "model.layers.{layer}.self_attn.k_proj.weight";
  s.v_proj = "model.layers.{layer}.self_attn.v_proj.weight";
  s.o_proj = "model.layers.{layer}.self_attn.o_proj.weight";
  s.mlp_norm = "model.layers.{layer}.post_attention_layernorm.weight";
  s.gate_proj = "model.layers.{layer}.mlp.gate_proj.weight";
  s.up_proj = "model.layers.{layer}.mlp.up_proj.weight";
  s.down_proj = "model.layers.{layer}.mlp.down_proj.weight";
  return s;
}

ModelSpec qwen2() {
  ModelSpec s = llama();
  s.name = s.hf_model_type = "qwen2";
  s.q_bias = "model.layers.{layer}.self_attn.q_proj.bias";
  s.k_bias = "model.layers.{layer}.self_attn.k_proj.bias";
  s.v_bias = "model.layers.{layer}.self_attn.v_proj.bias";
  s.default_norm_eps = 1e-6;
  s.default_rope_theta = 1e6;
  return s;
}

ModelSpec qwen3() {
  ModelSpec s = llama();
  s.name = s.hf_model_type = "qwen3";
  s.q_norm = "model.layers.{layer}.self_attn.q_norm.weight";
  s.k_norm = "model.layers.{layer}.self_attn.k_norm.weight";
  s.use_qk_norm = true;
  s.default_norm_eps = 1e-6;
  s.default_rope_theta = 1e6;
  return s;
}

ModelSpec qwen3_moe() {
  ModelSpec s = qwen3();
  s.name = s.hf_model_type = "qwen3_moe";
  s.moe_gate = "model.layers.{layer}.mlp.gate.weight";
  s.expert_gate_proj = "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight";
  s.expert_up_proj = "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight";
  s.expert_down_proj = "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight";
  s.is_moe = true;
  s.default_rope_theta = 1e7;
  return s;
}

ModelSpec mixtral() {
  ModelSpec s = llama();
  s.name = s.hf_model_type = "mixtral";
  s.gate_proj = s.up_proj = s.down_proj = "";
  s.moe_gate = "model.layers.{layer}.block_sparse_moe.gate.weight";
  s.expert_gate_proj = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w1.weight";
  s.expert_up_proj = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w3.weight";
  s.expert_down_proj = "model.layers.{layer}.block_sparse_moe.experts.{expert}.w2.weight";
  s.is_moe = true;
  s.default_rope_theta = 1e6;
  return s;
}

ModelSpec llama4() {
  ModelSpec s = llama();
  s.name = s.hf_model_type = "llama4_text";
  s.gate_proj = "model.layers.{layer}.feed_forward.gate_proj.weight";
  s.up_proj = "model.layers.{layer}.feed_forward.up_proj.weight";
  s.down_proj = "model.layers.{layer}.feed_forward.down_proj.weight";
  s.moe_gate = "model.layers.{layer}.feed_forward.router.weight";
  s.experts_gate_up = "model.layers.{layer}.feed_forward.experts.gate_up_proj";
  s.experts_down = "model.layers.{layer}.feed_forward.experts.down_proj";
  s.shared_gate_proj = "model.layers.{layer}.feed_forward.shared_expert.gate_proj.weight";
  s.shared_up_proj = "model.layers.{layer}.feed_forward.shared_expert.up_proj.weight";
  s.shared_down_proj = "model.layers.{layer}.feed_forward.shared_expert.down_proj.weight";
  s.is_moe = true;
  s.default_rope_theta = 5e5;
  return s;
}

void replace(std::string& text, std::string_view placeholder, int64_t number) {
  if (const size_t at = text.find(placeholder); at != std::string::npos)
    text.replace(at, placeholder.size(), std::to_string(number));
}

}  // namespace

std::string tensor_name(const std::string& pattern, int64_t layer, int64_t expert) {
  std::string name = pattern;
  replace(name, "{layer}", layer);
  replace(name, "{expert}", expert);
  return name;
}

const std::vector<ModelSpec>& model_specs() {
  static const auto* const specs =
      new std::vector<ModelSpec>{gpt2(), llama(), qwen3(), qwen3_moe(), qwen2(), mixtral(), llama4()};
  return *specs;
}

const ModelSpec& find_model_spec(std::string_view name) {
  const std::string_view family = name == "mistral" ? "llama" : name;
  for (const ModelSpec& spec : model_specs())
    if (spec.name == family) return spec;
  throw ArgumentError("find_model_spec", "name",
                      "be gpt2, llama, llama4_text, mistral, mixtral, qwen2, qwen3 or qwen3_moe", name);
}

const ModelSpec& detect_model_spec(const std::vector<std::string>& tensor_names) {
  const auto any = [&](std::string_view part) {
    return std::any_of(tensor_names.begin(), tensor_names.end(),
                       [&](const std::string& name) { return name.find(part) != std::string::npos; });
  };
  const bool llama_names = any("embed_tokens");
  if (any("block_sparse_moe")) return find_model_spec("mixtral");
  if (llama_names && any(".feed_forward.")) return find_model_spec("llama4_text");
  if (any("mlp.experts") && any("q_norm")) return find_model_spec("qwen3_moe");
  if (any("q_norm")) return find_model_spec("qwen3");
  if (llama_names && any("layers.0.self_attn.q_proj.bias")) return find_model_spec("qwen2");
  if (llama_names) return find_model_spec("llama");
  if (any("wte.weight")) return find_model_spec("gpt2");
  std::string first;
  for (size_t i = 0; i < std::min<size_t>(tensor_names.size(), 3); ++i) first += (i == 0 ? "" : ", ") + tensor_names[i];
  throw ArgumentError("Cannot detect model type from " + std::to_string(tensor_names.size()) + " tensors (" + first +
                      (tensor_names.size() > 3 ? ", ..." : "") + ")");
}

}  // namespace gpukit::llm
