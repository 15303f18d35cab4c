// How the tensors of a family of checkpoints are called, and what the family computes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpukit/models/llm/config.h"

namespace gpukit::llm {

/// Patterns of tensor names: {layer} and {expert} stand for numbers. What a family does not have is empty.
struct ModelSpec {
  std::string name;
  std::string embed_tokens, position_embed, lm_head, final_norm, final_norm_bias;
  std::string attn_norm, attn_norm_bias, q_proj, k_proj, v_proj, o_proj, q_bias, k_bias, v_bias, o_bias, q_norm, k_norm;
  std::string mlp_norm, mlp_norm_bias, fc1, fc1_bias, fc2, fc2_bias, gate_proj, up_proj, down_proj;
  std::string moe_gate, expert_gate_proj, expert_up_proj, expert_down_proj;
  std::string experts_gate_up, experts_down;  // all experts in one tensor, [experts, inputs, outputs]
  std::string shared_gate_proj, shared_up_proj, shared_down_proj;
  std::string norm_type = "rmsnorm", activation = "silu";
  bool use_rope = true, use_qk_norm = false, use_position_embed = false;
  bool qkv_combined = false;      // q_proj names one matrix of all three
  bool weight_transpose = false;  // matrices are [k, n]
  bool is_moe = false;
  double default_norm_eps = 1e-5, default_rope_theta = 1e4;
  std::string hf_model_type;
};

/// The name of a tensor.
std::string tensor_name(const std::string& pattern, int64_t layer = 0, int64_t expert = 0);

/// gpt2, llama, qwen3, qwen3_moe, qwen2, mixtral, llama4_text.
const std::vector<ModelSpec>& model_specs();
/// By its name, or by the model_type of a config.json (mistral is a llama). Throws ArgumentError naming the known ones.
const ModelSpec& find_model_spec(std::string_view name);
/// From the names of a checkpoint's tensors. Throws ArgumentError: Cannot detect model type.
const ModelSpec& detect_model_spec(const std::vector<std::string>& tensor_names);

}  // namespace gpukit::llm
