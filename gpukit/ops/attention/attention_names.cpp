#include "gpukit/ops/attention/attention_names.h"

#include "gpukit/ops/attention/attention_impl.h"
#include "gpukit/ops/common/operand.h"

namespace gpukit {

namespace {

std::optional<double> scale_of(double scale) { return scale > 0 ? std::optional<double>(scale) : std::nullopt; }

/// [heads, tokens, dim] as a batch of one.
Array batch_of(const Array& x) { return x.permute({1, 0, 2}).expand_dims(0); }

}  // namespace

Array sdpa(const char* op, const Array& q, const Array& k, const Array& v, const SdpaOptions& options,
           const Array* out) {
  check_ndim(op, "Q", q, 3);
  check_ndim(op, "K", k, 3);
  check_ndim(op, "V", v, 3);
  check_shape(op, "V", v, k.shape());
  if (k.shape()[2] != q.shape()[2])
    throw ShapeError(op, "K", "have the " + std::to_string(q.shape()[2]) + " dims of Q", k.shape().str());
  const int64_t keys = options.keys.value_or(k.shape()[1]);
  if (keys < 0 || keys > k.shape()[1])
    throw OutOfRangeError(std::string(op) + ": a context of " + std::to_string(keys) + " keys is out of range for " +
                          std::to_string(k.shape()[1]));
  AttentionOptions o;
  o.score.scale = scale_of(options.scale);
  o.causal = options.causal;
  o.first_position = options.first_position;
  if (options.context_len.defined()) {
    check_dtype(op, "context_len_buf", options.context_len, DType::int32);
    if (options.context_len.ndim() != 1 || options.context_len.size() < 1)
      throw ShapeError(op, "context_len_buf", "have one element", options.context_len.shape().str());
    o.k_lengths = options.context_len.narrow(0, 0, 1);
  }
  const Array target = result(op, out, q.shape(), q.dtype(), q.device());
  const Array view = batch_of(target);
  attention(op, batch_of(q), batch_of(k.narrow(1, 0, keys)), batch_of(v.narrow(1, 0, keys)), o, &view, nullptr);
  return target;
}

Array paged_attention(const char* op, const Array& q, const Array& k_cache, const Array& v_cache,
                      const Array& block_tables, const Array& context_lens, double scale, const Array* out) {
  check_ndim(op, "Q", q, 3);
  check_ndim(op, "K_cache", k_cache, 4);
  check_ndim(op, "V_cache", v_cache, 4);
  const KvCache cache{k_cache.permute({0, 2, 1, 3}), v_cache.permute({0, 2, 1, 3}), {}, {}, block_tables};
  AttentionOptions o;
  o.score.scale = scale_of(scale);
  o.k_lengths = context_lens;
  const Array target = result(op, out, q.shape(), q.dtype(), q.device());
  const Array view = target.expand_dims(1);
  attention_of_cache(op, q.expand_dims(1), cache, o, &view, nullptr);
  return target;
}

}  // namespace gpukit
