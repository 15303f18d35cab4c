// What Python's layers hold beside the layers of the library.
#pragma once

#include "gpukit/base/error.h"
#include "gpukit/models/llm/layer_calls.h"
#include "gpukit/python/bind.h"

namespace gpukit::llm {

struct Fp8Linear : Linear {};

struct AttentionObject {
  AttentionLayer layer;
  Array k_cache = {}, v_cache = {};  // [num_heads, tokens, dim], the heads of one KV head side by side
  int64_t confirmed = 0;             // tokens of the fixed cache that stay

  void init_cache(int64_t max_seq_len, DType dtype) {
    const Dims shape{layer.num_heads, max_seq_len, layer.dim};
    k_cache = Array::empty(shape, dtype, layer.out.weight.device());
    v_cache = Array::empty(shape, dtype, layer.out.weight.device());
  }
  KvCache cache() const {
    if (!k_cache.defined()) throw Error("Attention: there is no fixed cache; call init_fixed_cache first");
    return expanded_cache(k_cache, v_cache, layer.num_kv_heads);
  }
};

struct BlockObject {
  TransformerBlock block;
  nanobind::object attn;  // the AttentionObject, whose cache users fill
};

}  // namespace gpukit::llm
