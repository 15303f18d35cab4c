#include "gpukit/ops/matmul/scaled_matmul.h"

#include <algorithm>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/scales.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/ops/matmul/quantized/sum_order.cuh"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/session.h"

namespace gpukit {
namespace {

constexpr int64_t kChain = 2048, kFloat8Chain = 128, kOneChain = int64_t{1} << 62;

bool is_plain(DType d) { return d == DType::float16 || d == DType::bfloat16 || d == DType::float32; }
bool is_float8(DType d) { return d == DType::float8_e4m3 || d == DType::float8_e5m2; }
bool is_small_integer(DType d) { return d == DType::int8 || d == DType::int4; }

/// Which formats go together.
void check_formats(const char* op, DType a, DType b, bool grouped) {
  const bool quantized_b = is_float8(b) || is_small_integer(b) || b == DType::float4_e2m1;
  if (is_plain(a)) {
    if (quantized_b || (grouped && a == b)) return;
    throw DTypeError(op, "b",
                     std::string("be float8, int8, int4 or float4_e2m1") +
                         (grouped ? std::string(", or ") + name(a) + " like a" : " (matmul takes plain floats)"),
                     name(b));
  }
  if (is_float8(a) ? is_float8(b) : a == b && quantized_b) return;
  const std::string wanted = is_float8(a) ? "float8_e4m3 or float8_e5m2" : name(a);
  if (is_float8(a) || is_small_integer(a) || a == DType::float4_e2m1)
    throw DTypeError(op, "b", "be " + wanted + " beside a of " + name(a), name(b));
  throw DTypeError(op, "a", "be float16, bfloat16, float32, float8, int8, int4 or float4_e2m1", name(a));
}

void check_device(const char* op, const char* argument, const Array& x, const Array& a) {
  if (x.device() == a.device()) return;
  throw DeviceError(std::string(op) + ": " + argument + " is on " + str(x.device()) + ", a is on " + str(a.device()) +
                    "; move one with x.to(device)");
}

int64_t columns_of(const Array& values) { return values.shape(-1) * (is_packed(values.dtype()) ? 2 : 1); }

/// `q.data` has a leading axis of experts when `batched`.
ScaledOperand make_operand(const char* op, const Quantized& q, bool batched, const char* scale, const char* zero) {
  const Array& values = q.data;
  ScaledOperand o = {};
  o.code = code_of(op, "a", values.dtype());
  o.has_scale = q.scale.defined() ? 1 : 0;
  if (batched) o.batch = values.strides()[0];
  o.row = values.strides()[values.ndim() - 2];
  o.k = values.strides()[values.ndim() - 1];
  const CodeShape shape = {batched ? values.shape(0) : 1, values.shape(-2), columns_of(values)};
  if (q.scale.defined()) o.scale = scale_layout(op, scale, q.scale, shape, batched);
  if (q.zero.defined()) o.zero = scale_layout(op, zero, q.zero, shape, batched);
  if (batched && q.tensor_scale.defined() && q.tensor_scale.size() > 1) o.whole = q.tensor_scale.strides()[0];
  return o;
}

DType choose_out(const char* op, const ScaledMatmulOptions& options, const Quantized& a, const Quantized& b,
                 const Array* out) {
  const bool exact = is_small_integer(a.data.dtype()) && !a.scale.defined() && !b.scale.defined() &&
                     !options.bias.defined() && options.alpha == 1.0f;
  DType wanted = DType::float32;
  if (options.out_dtype)
    wanted = *options.out_dtype;
  else if (out != nullptr)
    wanted = out->dtype();
  else if (is_plain(a.data.dtype()))
    wanted = a.data.dtype();
  else if (exact)
    wanted = DType::int32;
  if (!is_plain(wanted) && !is_float8(wanted) && !(wanted == DType::int32 && exact))
    throw DTypeError(op, "out_dtype",
                     "be float32, float16, bfloat16 or float8 (int32: integers without scales, alpha and bias)",
                     name(wanted));
  if (options.out_scale.defined()) {
    check_dtype(op, "out_scale", options.out_scale, DType::float32);
    check_device(op, "out_scale", options.out_scale, a.data);
    if (!is_float8(wanted)) throw ArgumentError(op, "out_scale", "be None unless the result is float8", name(wanted));
    if (options.out_scale.size() != 1)
      throw ShapeError(op, "out_scale", "be one number", options.out_scale.shape().str());
  }
  return wanted;
}

void check_bias(const char* op, const Array& bias, const Array& a, int64_t n) {
  if (!bias.defined()) return;
  check_shape(op, "bias", bias, {n});
  if (!is_plain(bias.dtype()))
    throw DTypeError(op, "bias", "have dtype float16, bfloat16 or float32", name(bias.dtype()));
  check_device(op, "bias", bias, a);
}

void set_order(ScaledProblem* s, DType a, DType b) {
  const bool plain = is_plain(a) && is_plain(b);
  s->chain = plain ? kOneChain : is_float8(a) ? kFloat8Chain : kChain;
  s->group = s->chain;
  for (const ScaledOperand* o : {&s->a, &s->b})
    if (scaled_along_k(*o)) s->group = std::min(s->group, int64_t{1} << o->scale.column_shift);
  const bool bytes = is_plain(a) && (is_float8(b) || b == DType::int8);
  if (bytes && s->group == s->chain) s->chain = s->group = kBytesChain;
}

bool shares_memory(const Array& out, const ScaledProduct& p) {
  for (const Quantized* q : {&p.a, &p.b})
    for (const Array* x : {&q->data, &q->scale, &q->zero, &q->tensor_scale})
      if (x->defined() && may_share_memory(out, *x)) return true;
  for (const Array* x : {&p.bias, &p.out_scale, &p.ids})
    if (x->defined() && may_share_memory(out, *x)) return true;
  return false;
}

/// Which kernel serves, and with it the order of sums, may depend on how an array lies. Under batch_invariant what has
/// a row for each row of the batch lies as in a matrix of its own. Grouped rows and results may lie anyhow: all their
/// kernels take any strides.
bool lies_anyhow(const Array& x) {
  return x.defined() && x.device().kind == DeviceKind::cuda && !(x.is_contiguous() && is_aligned(x)) &&
         runtime::determinism() == env::Determinism::batch_invariant;
}

Array copy_to_workspace(const Array& x, Temporaries& temporaries) {
  const Array dense = temporaries.empty_like(x);
  copy_into(dense, x);
  return dense;
}

/// float8 by float8 on the tensor cores of sm_90 has other bits than on CUDA cores, at every level of determinism: how
/// its arrays lie must not choose between them.
bool wants_tensor_cores(const Quantized& a, const Quantized& b, bool grouped) {
  return !grouped && is_float8(a.data.dtype()) && a.data.dtype() == b.data.dtype() &&
         a.data.device().kind == DeviceKind::cuda && a.data.context().properties().sm_major == 9;
}

constexpr int64_t kRowBytes = 16;

bool rows_lie_well(const Array& x) {
  return is_aligned(x) && x.strides()[1] == 1 && x.strides()[0] > 0 &&
         x.strides()[0] * itemsize(x.dtype()) % kRowBytes == 0;
}

/// The same rows at multiples of 16 bytes.
Array lay_rows(const Array& values, Temporaries& temporaries) {
  if (rows_lie_well(values)) return values;
  const int64_t k = values.shape(1), pitch = ceil_div(k, kRowBytes) * kRowBytes;
  const Array rows = temporaries.empty({values.shape(0), pitch}, values.dtype(), values.device()).narrow(1, 0, k);
  copy_into(rows, values);
  return rows;
}

/// The same elements without gaps, from a multiple of 16 bytes on.
Array lay_dense(const Array& x, Temporaries& temporaries) {
  return !x.defined() || (x.is_contiguous() && is_aligned(x)) ? x : copy_to_workspace(x, temporaries);
}

/// The product of checked arguments, but for its result.
ScaledProduct check(const char* op, const Quantized& a, const Quantized& b, const Array* ids,
                    const ScaledMatmulOptions& options, Temporaries& temporaries) {
  const bool grouped = ids != nullptr;
  check_formats(op, a.data.dtype(), b.data.dtype(), grouped);
  check_device(op, "b", b.data, a.data);
  check_kernel(op, options.kernel, a.data.device());
  const bool vector = a.data.ndim() == 1 && !grouped;
  if (a.data.ndim() != 2 && !vector) throw ShapeError(op, "a", "be 2D: [m, k]", a.data.shape().str());
  if (b.data.ndim() != (grouped ? 3 : 2))
    throw ShapeError(op, "b", grouped ? "be 3D: [experts, n, k]" : "be 2D: [n, k]", b.data.shape().str());
  if (columns_of(a.data) != columns_of(b.data))
    throw ShapeError(std::string(op) + ": a and b must have the same inner dimension k, got " +
                     std::to_string(columns_of(a.data)) + " and " + std::to_string(columns_of(b.data)) + " of shapes " +
                     a.data.shape().str() + " and " + b.data.shape().str());
  if (is_plain(a.data.dtype()) && a.scale.defined())
    throw ArgumentError(op, "scale_a", "be None for plain floats", std::string("one for ") + name(a.data.dtype()));
  if (is_plain(b.data.dtype()) && b.scale.defined())
    throw ArgumentError(op, "scale_b", "be None for plain floats", std::string("one for ") + name(b.data.dtype()));
  check_parts(op, a, {"scale_a", "zero_a", "tensor_scale_a"});
  check_parts(op, b, {"scale_b", "zero_b", "tensor_scale_b"}, grouped);
  if (a.zero.defined()) throw ArgumentError(op, "zero_a", "be None: activations have no zero points", "an array");

  ScaledProduct p;
  p.a = a;
  p.b = b;
  p.bias = options.bias;
  if (!grouped && lies_anyhow(a.data)) p.a.data = copy_to_workspace(a.data, temporaries);
  if (lies_anyhow(a.scale)) p.a.scale = copy_to_workspace(a.scale, temporaries);
  // One row lies as a matrix of its own, whatever it is a slice of.
  if (!grouped && !vector && a.data.shape(0) == 1) p.a.data = p.a.data.squeeze(0);
  if (p.a.data.ndim() == 1) p.a.data = p.a.data.expand_dims(0);
  if (wants_tensor_cores(p.a, p.b, grouped) && p.a.data.size() > 0 && p.b.data.size() > 0) {
    p.a.data = lay_rows(p.a.data, temporaries);
    p.b.data = lay_rows(p.b.data, temporaries);
    p.a.scale = lay_dense(p.a.scale, temporaries);
    p.b.scale = lay_dense(p.b.scale, temporaries);
    p.bias = lay_dense(p.bias, temporaries);
  }
  p.out_scale = options.out_scale;
  p.kernel = options.kernel;
  ScaledProblem& s = p.problem;
  s = {};
  s.m = p.a.data.shape(0);
  s.n = b.data.shape(-2);
  s.k = columns_of(a.data);
  s.a = make_operand(op, p.a, false, "scale_a", "zero_a");
  s.b = make_operand(op, p.b, grouped, "scale_b", "zero_b");
  s.alpha = options.alpha;
  if (p.of_integers() && (scaled_along_k(s.a) || scaled_along_k(s.b) || b.zero.defined()))
    throw ArgumentError(op,
                        scaled_along_k(s.a) ? "scale_a"
                        : b.zero.defined()  ? "zero_b"
                                            : "scale_b",
                        "not vary along k: exact sums of integers have scales of the tensor or the row",
                        (scaled_along_k(s.a) ? a.scale : b.scale).shape().str());
  set_order(&s, a.data.dtype(), b.data.dtype());
  check_bias(op, p.bias, a.data, s.n);
  if (p.bias.defined()) {
    s.bias = code_of(op, "bias", p.bias.dtype());
    s.bias_n = p.bias.strides()[0];
  }
  if (grouped) {
    check_dtype(op, "row_expert_ids", *ids, DType::int32);
    check_shape(op, "row_expert_ids", *ids, {s.m});
    check_device(op, "row_expert_ids", *ids, a.data);
    p.ids = *ids;
    s.experts = b.data.shape(0);
    s.id_m = ids->strides()[0];
    s.fault_op = runtime::fault_code(op);
    if (s.experts == 0) throw ShapeError(op, "b", "have at least one expert", b.data.shape().str());
  }
  return p;
}

Array product(const char* op, const Quantized& a, const Quantized& b, const Array* ids,
              const ScaledMatmulOptions& options, const Array* out) {
  Temporaries temporaries(op);
  ScaledProduct p = check(op, a, b, ids, options, temporaries);
  ScaledProblem& s = p.problem;
  const bool vector = a.data.ndim() == 1;
  const DType wanted = choose_out(op, options, a, b, out);
  const Array target = result(op, out, vector ? Dims{s.n} : Dims{s.m, s.n}, wanted, a.data.device());
  if (target.size() == 0) return target;
  const bool buffer =
      out != nullptr &&
      (shares_memory(target, p) || (ids == nullptr && lies_anyhow(target)) ||
       (wants_tensor_cores(p.a, p.b, ids != nullptr) && !rows_lie_well(vector ? target.expand_dims(0) : target)));
  p.out = buffer ? temporaries.empty_like(target) : target;
  s.out = code_of(op, "out", wanted);
  s.out_m = vector ? 0 : p.out.strides()[0];
  s.out_n = p.out.strides()[p.out.ndim() - 1];
  switch (p.out.device().kind) {
    case DeviceKind::cpu: cpu::scaled_matmul(p); break;
    case DeviceKind::cuda: cuda::scaled_matmul(p); break;
  }
  if (buffer) copy_into(target, p.out);
  return target;
}

}  // namespace

Array scaled_product(const char* op, const Quantized& a, const Quantized& b, const ScaledMatmulOptions& options,
                     const Array* out) {
  return product(op, a, b, nullptr, options, out);
}

Array scaled_matmul(const Quantized& a, const Quantized& b, const ScaledMatmulOptions& options, const Array* out) {
  return product("scaled_matmul", a, b, nullptr, options, out);
}

Array grouped_matmul(const Quantized& a, const Quantized& b, const Array& row_expert_ids,
                     const ScaledMatmulOptions& options, const Array* out) {
  return product("grouped_matmul", a, b, &row_expert_ids, options, out);
}

std::string explain_scaled_matmul(const Quantized& a, const Quantized& b, const ScaledMatmulOptions& options) {
  constexpr const char* kOp = "explain_scaled_matmul";
  Temporaries temporaries(kOp);
  ScaledProduct p = check(kOp, a, b, nullptr, options, temporaries);
  const DType out = choose_out(kOp, options, a, b, nullptr);
  ScaledProblem& s = p.problem;
  const std::string text = a.data.shape().str() + " of " + name(a.data.dtype()) + " by " + b.data.shape().str() +
                           " of " + name(b.data.dtype()) + " into " + name(out) + " on " + str(a.data.device()) + ": ";
  if (s.m == 0 || s.n == 0) return text + "nothing to compute";
  p.out = temporaries.empty({s.m, s.n}, out, a.data.device());
  s.out = code_of(kOp, "out", out);
  s.out_m = s.n;
  s.out_n = 1;
  switch (a.data.device().kind) {
    case DeviceKind::cpu: return text + "row by row (scaled_matmul_cpu.cpp)";
    case DeviceKind::cuda: break;
  }
  return text + cuda::explain_scaled_matmul(p);
}

std::string explain_grouped_matmul(const Quantized& a, const Quantized& b, const Array& row_expert_ids,
                                   const ScaledMatmulOptions& options) {
  constexpr const char* kOp = "explain_grouped_matmul";
  Temporaries temporaries(kOp);
  ScaledProduct p = check(kOp, a, b, &row_expert_ids, options, temporaries);
  const DType out = choose_out(kOp, options, a, b, nullptr);
  std::string text = a.data.shape().str() + " of " + name(a.data.dtype()) + " by experts " + b.data.shape().str() +
                     " of " + name(b.data.dtype()) + " into " + name(out) + " on " + str(a.data.device()) + ": ";
  if (p.problem.m == 0 || p.problem.n == 0) return text + "nothing to compute";
  p.problem.out = code_of(kOp, "out", out);
  p.problem.out_m = p.problem.n;
  p.problem.out_n = 1;
  switch (a.data.device().kind) {
    case DeviceKind::cpu: text += "row by row"; break;
    case DeviceKind::cuda: text += cuda::explain_grouped_matmul(p, out); break;
  }
  return text;
}

}  // namespace gpukit
