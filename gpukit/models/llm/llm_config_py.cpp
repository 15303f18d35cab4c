#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "gpukit/base/error.h"
#include "gpukit/models/llm/llm_py.h"

namespace gpukit::llm {

namespace {

constexpr const char* kOp = "TransformerConfig";
using OptionalInt = python::Shown<"int | None">;
using OptionalIntObject = python::ShownObject<"int | None">;

/// `each(name, member)` for every field, in the order of Python's dataclass.
template <typename Spec, typename Each>
void each_field(Spec& s, const Each& each) {
  each("name", s.name);
  each("embed_tokens", s.embed_tokens);
  each("position_embed", s.position_embed);
  each("lm_head", s.lm_head);
  each("final_norm", s.final_norm);
  each("final_norm_bias", s.final_norm_bias);
  each("attn_norm", s.attn_norm);
  each("attn_norm_bias", s.attn_norm_bias);
  each("q_proj", s.q_proj);
  each("k_proj", s.k_proj);
  each("v_proj", s.v_proj);
  each("o_proj", s.o_proj);
  each("q_bias", s.q_bias);
  each("k_bias", s.k_bias);
  each("v_bias", s.v_bias);
  each("o_bias", s.o_bias);
  each("q_norm", s.q_norm);
  each("k_norm", s.k_norm);
  each("mlp_norm", s.mlp_norm);
  each("mlp_norm_bias", s.mlp_norm_bias);
  each("fc1", s.fc1);
  each("fc1_bias", s.fc1_bias);
  each("fc2", s.fc2);
  each("fc2_bias", s.fc2_bias);
  each("gate_proj", s.gate_proj);
  each("up_proj", s.up_proj);
  each("down_proj", s.down_proj);
  each("moe_gate", s.moe_gate);
  each("expert_gate_proj", s.expert_gate_proj);
  each("expert_up_proj", s.expert_up_proj);
  each("expert_down_proj", s.expert_down_proj);
  each("experts_gate_up", s.experts_gate_up);
  each("experts_down", s.experts_down);
  each("shared_gate_proj", s.shared_gate_proj);
  each("shared_up_proj", s.shared_up_proj);
  each("shared_down_proj", s.shared_down_proj);
  each("norm_type", s.norm_type);
  each("activation", s.activation);
  each("use_rope", s.use_rope);
  each("use_qk_norm", s.use_qk_norm);
  each("use_position_embed", s.use_position_embed);
  each("qkv_combined", s.qkv_combined);
  each("weight_transpose", s.weight_transpose);
  each("is_moe", s.is_moe);
  each("default_norm_eps", s.default_norm_eps);
  each("default_rope_theta", s.default_rope_theta);
  each("hf_model_type", s.hf_model_type);
}

// None stands for an empty name.
nb::object to_python(const std::string& value) { return value.empty() ? nb::object(nb::none()) : nb::cast(value); }
template <typename T>
nb::object to_python(const T& value) {
  return nb::cast(value);
}
void from_python(std::string& field, nb::handle value) {
  field = value.is_none() ? std::string() : nb::cast<std::string>(value);
}
template <typename T>
void from_python(T& field, nb::handle value) {
  field = nb::cast<T>(value);
}

python::AnyDict spec_fields(const ModelSpec& spec) {
  nb::dict fields;
  each_field(spec, [&](const char* name, const auto& value) { fields[name] = to_python(value); });
  return fields;
}

int64_t or_zero(const char* argument, nb::handle value) {
  return python::to_optional_int(kOp, argument, value).value_or(0);
}

OptionalIntObject none_if_zero(int64_t value) { return value == 0 ? nb::object(nb::none()) : nb::cast(value); }

NormKind to_norm(const std::string& name) {
  if (name == "rmsnorm") return NormKind::rmsnorm;
  if (name == "layernorm") return NormKind::layernorm;
  throw ArgumentError(kOp, "norm_type", "be rmsnorm or layernorm", name);
}
MlpKind to_mlp(const std::string& name) {
  if (name == "silu") return MlpKind::silu;
  if (name == "gelu") return MlpKind::gelu;
  throw ArgumentError(kOp, "activation", "be silu or gelu", name);
}

TransformerConfig make_config(int64_t vocab_size, int64_t hidden_size, int64_t num_layers, int64_t num_heads,
                              OptionalInt num_kv_heads, OptionalInt intermediate_size, OptionalInt head_dim,
                              OptionalInt num_experts, int64_t num_experts_per_tok, OptionalInt moe_intermediate_size,
                              const std::string& norm_type, const std::string& activation, bool use_rope, bool causal,
                              int64_t max_position_embeddings, double norm_eps, double rope_theta,
                              bool tie_word_embeddings, OptionalInt sliding_window) {
  TransformerConfig c;
  c.vocab_size = vocab_size;
  c.hidden_size = hidden_size;
  c.num_layers = num_layers;
  c.num_heads = num_heads;
  c.num_kv_heads = or_zero("num_kv_heads", num_kv_heads);
  c.intermediate_size = or_zero("intermediate_size", intermediate_size);
  c.head_dim = or_zero("_head_dim", head_dim);
  c.num_experts = or_zero("num_experts", num_experts);
  c.num_experts_per_tok = num_experts_per_tok;
  c.moe_intermediate_size = or_zero("moe_intermediate_size", moe_intermediate_size);
  c.norm = to_norm(norm_type);
  c.mlp = to_mlp(activation);
  c.use_rope = use_rope;
  c.causal = causal;
  c.max_position_embeddings = max_position_embeddings;
  c.norm_eps = norm_eps;
  c.rope_theta = rope_theta;
  c.tie_word_embeddings = tie_word_embeddings;
  c.sliding_window = or_zero("sliding_window", sliding_window);
  if (!causal) throw UnsupportedError("TransformerConfig: causal=False is not computed by language models");
  c.check();
  return c;
}

template <typename... Args>
auto in_place(TransformerConfig (*make)(Args...)) {
  return [make](TransformerConfig* self, Args... args) { new (self) TransformerConfig(make(args...)); };
}

/// A field that is at least 1.
template <int64_t TransformerConfig::*kMember>
void set_count(TransformerConfig& c, int64_t value) {
  if (value < 1) throw ArgumentError(kOp, "a size", "be positive", std::to_string(value));
  c.*kMember = value;
}
/// The same where None takes the usual size.
template <int64_t TransformerConfig::*kMember>
void set_optional(TransformerConfig& c, OptionalInt value) {
  const int64_t number = value.is_none() ? 0 : python::to_int(kOp, "a size", value);
  if (number < (value.is_none() ? 0 : 1))
    throw ArgumentError(kOp, "a size", "be positive or None", python::shown(value));
  c.*kMember = number;
}

std::string repr(const TransformerConfig& c) {
  return "TransformerConfig(" + c.model_type + ", " + std::to_string(c.num_layers) + " layers, hidden " +
         std::to_string(c.hidden_size) + ", heads " + std::to_string(c.num_heads) + "/" + std::to_string(c.kv_heads()) +
         ", vocab " + std::to_string(c.vocab_size) + ")";
}

void bind_config(nb::module_& m) {
  using C = TransformerConfig;
  const C d;
  nb::class_<C>(m, "TransformerConfig", "What a model looks like. None takes the usual size.")
      .def("__init__", in_place(&make_config), "vocab_size"_a = d.vocab_size, "hidden_size"_a = d.hidden_size,
           "num_layers"_a = d.num_layers, "num_heads"_a = d.num_heads, "num_kv_heads"_a = nb::none(),
           "intermediate_size"_a = nb::none(), "_head_dim"_a = nb::none(), "num_experts"_a = nb::none(),
           "num_experts_per_tok"_a = 2, "moe_intermediate_size"_a = nb::none(), "norm_type"_a = "rmsnorm",
           "activation"_a = "silu", "use_rope"_a = true, "causal"_a = true,
           "max_position_embeddings"_a = d.max_position_embeddings, "norm_eps"_a = d.norm_eps,
           "rope_theta"_a = d.rope_theta, "tie_word_embeddings"_a = true, "sliding_window"_a = nb::none())
      .def_static(
          "from_json",
          [](python::StringArg text) { return C::from_json(Json::parse(python::to_text(kOp, "text", text))); },
          "text"_a, "The config.json of a Hugging Face checkpoint.")
      .def_ro("model_type", &C::model_type)
      .def_prop_rw(
          "vocab_size", [](const C& c) { return c.vocab_size; }, &set_count<&C::vocab_size>)
      .def_prop_rw(
          "hidden_size", [](const C& c) { return c.hidden_size; }, &set_count<&C::hidden_size>)
      .def_prop_rw(
          "num_layers", [](const C& c) { return c.num_layers; }, &set_count<&C::num_layers>)
      .def_prop_rw(
          "num_heads", [](const C& c) { return c.num_heads; }, &set_count<&C::num_heads>)
      .def_prop_rw("num_kv_heads", &C::kv_heads, &set_optional<&C::num_kv_heads>, nb::for_setter("value"_a.none()))
      .def_prop_ro("num_kv_groups", [](const C& c) { return c.num_heads / c.kv_heads(); })
      .def_prop_ro("head_dim", &C::dim)
      .def_prop_rw(
          "_head_dim", [](const C& c) { return none_if_zero(c.head_dim); }, &set_optional<&C::head_dim>,
          nb::for_setter("value"_a.none()))
      .def_prop_rw("intermediate_size", &C::mlp_size, &set_optional<&C::intermediate_size>,
                   nb::for_setter("value"_a.none()))
      .def_prop_rw(
          "num_experts", [](const C& c) { return none_if_zero(c.num_experts); }, &set_optional<&C::num_experts>,
          nb::for_setter("value"_a.none()))
      .def_prop_rw(
          "num_experts_per_tok", [](const C& c) { return c.num_experts_per_tok; }, &set_count<&C::num_experts_per_tok>)
      .def_prop_rw(
          "moe_intermediate_size", [](const C& c) { return none_if_zero(c.is_moe() ? c.expert_size() : 0); },
          &set_optional<&C::moe_intermediate_size>, nb::for_setter("value"_a.none()))
      .def_prop_ro("is_moe", &C::is_moe)
      .def_prop_rw(
          "norm_type", [](const C& c) { return c.norm == NormKind::rmsnorm ? "rmsnorm" : "layernorm"; },
          [](C& c, const std::string& name) { c.norm = to_norm(name); })
      .def_prop_rw(
          "activation", [](const C& c) { return c.mlp == MlpKind::silu ? "silu" : "gelu"; },
          [](C& c, const std::string& name) { c.mlp = to_mlp(name); })
      .def_rw("use_rope", &C::use_rope)
      .def_ro("causal", &C::causal)
      .def_prop_rw(
          "max_position_embeddings", [](const C& c) { return c.max_position_embeddings; },
          &set_count<&C::max_position_embeddings>)
      .def_rw("norm_eps", &C::norm_eps)
      .def_rw("rope_theta", &C::rope_theta)
      .def_rw("tie_word_embeddings", &C::tie_word_embeddings)
      .def_prop_rw(
          "sliding_window", [](const C& c) { return none_if_zero(c.sliding_window); },
          &set_optional<&C::sliding_window>, nb::for_setter("value"_a.none()))
      .def_ro("eos_token_ids", &C::eos_token_ids)
      .def("__repr__", &repr);
}

}  // namespace

ModelSpec to_spec(nb::handle value) {
  ModelSpec spec;
  each_field(spec, [&](const char* name, auto& field) { from_python(field, nb::getattr(value, name)); });
  return spec;
}

std::vector<int32_t> to_ids(const char* op, const char* argument, nb::handle value) {
  std::vector<int32_t> ids;
  for (const int64_t id : python::to_ints(op, argument, value)) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max())
      throw OutOfRangeError(op, id, std::numeric_limits<int32_t>::max());
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace gpukit::llm

namespace gpukit {

void bind_llm_config(nb::module_& parent) {
  using namespace llm;
  nb::module_ m = parent.def_submodule("_llm", "The classes of pygpukit.llm; internal.");
  m.def(
      "token_ids",
      [](python::IntsArg ids) {
        nb::typed<nb::list, int> list;
        for (const int32_t id : to_ids("generate", "input_ids", ids)) list.append(id);
        return list;
      },
      "ids"_a, "Plain ints of what holds ids: a sequence, an array.");
  bind_config(m);
  m.def(
      "model_spec_fields", [](const std::string& name) { return spec_fields(find_model_spec(name)); }, "name"_a,
      "The fields of a known ModelSpec.");
  m.def(
      "detect_model_spec_name",
      [](const std::vector<std::string>& tensor_names) { return detect_model_spec(tensor_names).name; },
      "tensor_names"_a, "The name of the ModelSpec that tensors are named by.");
}

}  // namespace gpukit
