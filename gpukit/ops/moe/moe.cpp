#include "gpukit/ops/moe/moe.h"

#include <string>

#include "gpukit/base/error.h"
#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/embedding/embedding.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/matmul/scaled_matmul.h"
#include "gpukit/ops/moe/moe_impl.h"
#include "gpukit/ops/softmax/softmax.h"
#include "gpukit/runtime/fault.h"

namespace gpukit {
namespace {

bool is_plain(DType d) { return d == DType::float16 || d == DType::bfloat16 || d == DType::float32; }

void check_place(const char* op, const char* argument, const Array& x, const char* first, const Array& like) {
  if (x.device() == like.device()) return;
  throw DeviceError(std::string(op) + ": " + argument + " is on " + str(x.device()) + ", " + first + " is on " +
                    str(like.device()) + "; move one with x.to(device)");
}

void check_plain(const char* op, const char* argument, const Array& x) {
  if (!is_plain(x.dtype())) unsupported_dtype(op, argument, x.dtype(), "have dtype float16, bfloat16 or float32");
}

/// An array that a call writes beside others.
void check_written(const char* op, const char* argument, const Array& x, const Dims& shape, DType dtype,
                   const char* first, const Array& like) {
  check_place(op, argument, x, first, like);
  check_dtype(op, argument, x, dtype);
  check_shape(op, argument, x, shape);
  if (has_internal_overlap(x))
    throw ArgumentError(std::string(op) + ": " + argument + " reaches some of its memory twice and cannot be written");
}

/// Results of one call are apart from each other and from what is read.
void check_apart(const char* op, std::initializer_list<const Array*> written,
                 std::initializer_list<const Array*> read) {
  const auto meet = [](const Array* a, const Array* b) {
    return a->size() > 0 && b->size() > 0 && may_share_memory(*a, *b);
  };
  for (auto a = written.begin(); a != written.end(); ++a) {
    for (auto b = written.begin(); b != a; ++b)
      if (meet(*a, *b)) throw ArgumentError(std::string(op) + ": two results share memory");
    for (const Array* b : read)
      if (meet(*a, b)) throw ArgumentError(std::string(op) + ": a result shares memory with what is read");
  }
}

void submit(const Route& r) {
  if (r.indices.size() == 0) return;
  switch (r.logits.device().kind) {
    case DeviceKind::cpu: cpu::route(r); break;
    case DeviceKind::cuda: cuda::route(r); break;
  }
}

Route make_route(const char* op, const Array& logits, const Array& indices) {
  Route r;
  r.op = op;
  r.logits = logits;
  r.indices = indices;
  r.space.tokens = logits.shape()[0];
  r.space.experts = static_cast<int32_t>(logits.shape()[1]);
  r.space.k = static_cast<int32_t>(indices.shape()[1]);
  r.space.row = logits.strides()[0];
  r.space.column = logits.strides()[1];
  return r;
}

/// `weights` is [tokens, k], `out` [tokens, width].
Combine make_combine(const char* op, const Array& out, const Array& rows, const Array& weights) {
  Combine c;
  c.op = op;
  c.out = out;
  c.rows = rows;
  c.weights = weights;
  c.space.width = out.shape()[1];
  c.space.k = weights.shape()[1];
  c.space.rows_row = rows.strides()[0];
  c.space.rows_column = rows.strides()[1];
  c.space.weights_row = weights.strides()[0];
  c.space.weights_column = weights.strides()[1];
  c.space.out_row = out.strides()[0];
  c.space.out_column = out.strides()[1];
  c.space.rows = rows.shape()[0];
  c.space.fault_op = runtime::fault_code(op);
  return c;
}

void submit(const Combine& c) {
  if (c.out.size() == 0) return;
  switch (c.out.device().kind) {
    case DeviceKind::cpu: cpu::combine(c); break;
    case DeviceKind::cuda: cuda::combine(c); break;
  }
}

constexpr const char* kMoe = "moe";

void check_matrix(const char* argument, const Weight& w, int64_t rows, int64_t columns, const Array& x) {
  check_place(kMoe, argument, w.parts().data, "x", x);
  if (!w.is_quantized()) check_dtype(kMoe, argument, w.parts().data, x.dtype());
  if (w.rows() != rows || w.columns() != columns)
    throw ShapeError(kMoe, argument, "be [" + std::to_string(rows) + ", " + std::to_string(columns) + "]",
                     "[" + std::to_string(w.rows()) + ", " + std::to_string(w.columns()) + "]");
}

void check_experts(const char* argument, const ExpertWeights& w, int64_t experts, int64_t rows, int64_t columns,
                   const Array& x) {
  if (!w.defined()) throw ArgumentError(kMoe, argument, "be matrices", "empty ExpertWeights");
  check_place(kMoe, argument, w.parts().data, "x", x);
  if (!w.is_quantized()) check_dtype(kMoe, argument, w.parts().data, x.dtype());
  if (w.experts() != experts || w.rows() != rows || w.columns() != columns)
    throw ShapeError(kMoe, argument, "be " + Dims{experts, rows, columns}.str(),
                     Dims{w.experts(), w.rows(), w.columns()}.str());
}

void check_layer(const Array& x, const MoeWeights& w, const MoeOptions& options) {
  check_plain(kMoe, "x", x);
  check_ndim(kMoe, "x", x, 2);
  const int64_t hidden = x.shape()[1];
  if (!w.router.defined()) throw ArgumentError(kMoe, "router", "be a matrix", "an empty Weight");
  const int64_t experts = w.router.rows();
  check_matrix("router", w.router, experts, hidden, x);
  if (!w.gate_up.defined()) throw ArgumentError(kMoe, "gate_up", "be matrices", "empty ExpertWeights");
  if (w.gate_up.rows() % 2 != 0)
    throw ShapeError(kMoe, "gate_up", "have an even number of rows: those of the gate, then as many",
                     std::to_string(w.gate_up.rows()));
  check_experts("gate_up", w.gate_up, experts, w.gate_up.rows(), hidden, x);
  check_experts("down", w.down, experts, hidden, w.gate_up.rows() / 2, x);
  if (options.top_k < 1 || options.top_k > experts)
    throw ArgumentError(kMoe, "top_k", "be 1 to " + std::to_string(experts), std::to_string(options.top_k));
  if (w.shared_gate_up.defined() != w.shared_down.defined() || (w.shared_gate.defined() && !w.shared_gate_up.defined()))
    throw ArgumentError(kMoe, "shared_expert", "have both matrices", "one of them");
  if (w.shared_gate_up.defined()) {
    const int64_t rows = w.shared_gate_up.rows();
    if (rows % 2 != 0)
      throw ShapeError(kMoe, "shared_expert", "have an even number of rows: those of the gate, then as many",
                       std::to_string(rows));
    check_matrix("shared gate_up", w.shared_gate_up, rows, hidden, x);
    check_matrix("shared down", w.shared_down, hidden, rows / 2, x);
    if (w.shared_gate.defined()) check_matrix("shared gate", w.shared_gate, 1, hidden, x);
  }
  if (options.ids.defined()) {
    check_place(kMoe, "ids", options.ids, "x", x);
    check_dtype(kMoe, "ids", options.ids, DType::int32);
    check_shape(kMoe, "ids", options.ids, {x.shape()[0]});
  }
}

/// The router's logits in float32, whatever x is.
void multiply_router(const Array& x, const Weight& router, const Array& logits) {
  if (router.is_quantized())
    scaled_matmul(Quantized(x), router.parts(), {.out_dtype = DType::float32}, &logits);
  else
    matmul(x, router.parts().data.transpose(), &logits, {.out_dtype = DType::float32});
}

/// A row for each token and expert, which grouped_matmul takes in any order: x, times the sigmoid of `logits` where
/// these are given.
Array copies_of(const Array& x, int64_t k, const Array& logits, Temporaries& temporaries) {
  if (k == 1 && !logits.defined()) return x;
  const int64_t tokens = x.shape()[0], hidden = x.shape()[1];
  const Array copies = temporaries.empty({tokens, k, hidden}, x.dtype(), x.device());
  if (logits.defined()) {
    sigmoid(logits, &logits);
    const Array factors = temporaries.empty({tokens, k, 1}, x.dtype(), x.device());
    copy_into(factors, logits.expand_dims(2));
    multiply(x.expand_dims(1), factors, &copies);
  } else {
    copy_into(copies, x.expand_dims(1));
  }
  return copies.reshape_view({tokens * k, hidden});
}

bool writes_ahead(const Array& out, const Array& x, const MoeWeights& w, const MoeOptions& options) {
  for (const Quantized* q : {&w.router.parts(), &w.gate_up.parts(), &w.down.parts(), &w.shared_gate_up.parts(),
                             &w.shared_down.parts(), &w.shared_gate.parts()})
    for (const Array* part : {&q->data, &q->scale, &q->zero, &q->tensor_scale})
      if (part->defined() && may_share_memory(out, *part)) return true;
  return may_share_memory(out, x) || (options.ids.defined() && may_share_memory(out, options.ids));
}

}  // namespace

Array moe(const Array& x, const MoeWeights& w, const MoeOptions& options, const Array* out) {
  check_layer(x, w, options);
  const Array target = result(kMoe, out, x.shape(), x.dtype(), x.device());
  if (target.size() == 0) return target;
  const int64_t tokens = x.shape()[0], hidden = x.shape()[1], k = options.top_k, rows = tokens * k;
  Temporaries temporaries(kMoe);
  const auto make = [&](const Dims& shape, DType dtype) { return temporaries.empty(shape, dtype, x.device()); };

  const Array logits = make({tokens, w.router.rows()}, DType::float32);
  multiply_router(x, w.router, logits);
  const Array gates = make({tokens, k}, DType::float32), experts = make({tokens, k}, DType::int32);
  Route route = make_route(kMoe, logits, experts);
  route.gates = gates;
  route.ids = options.ids;
  route.space.softmax_first = options.softmax_first ? 1 : 0;
  route.space.normalize = options.normalize ? 1 : 0;
  route.space.id_step = options.ids.defined() ? options.ids.strides()[0] : 0;
  if (options.sigmoid_input) route.values = make({tokens, k}, DType::float32);
  submit(route);
  if (options.sigmoid_input) fill(gates, 1.0);

  const Array copies = copies_of(x, k, route.values, temporaries);
  const Array ids = experts.reshape_view({rows});
  const Array wide = make({rows, w.gate_up.rows()}, x.dtype()), inner = make({rows, w.down.columns()}, x.dtype());
  const Array each = make({rows, hidden}, x.dtype());
  grouped_matmul(Quantized(copies), w.gate_up.parts(), ids, {}, &wide);
  swiglu_packed(wide, &inner);
  grouped_matmul(Quantized(inner), w.down.parts(), ids, {}, &each);

  const Array to = writes_ahead(target, x, w, options) ? temporaries.empty_like(target) : target;
  Combine sum = make_combine(kMoe, to, each, gates);
  sum.ids = options.ids;
  sum.space.id_step = route.space.id_step;
  if (w.shared_gate_up.defined()) {
    const Array both = make({tokens, w.shared_gate_up.rows()}, x.dtype());
    const Array half = make({tokens, w.shared_down.columns()}, x.dtype());
    sum.shared = make({tokens, hidden}, x.dtype());
    sum.space.shared_row = hidden;
    linear(x, w.shared_gate_up, {}, &both);
    swiglu_packed(both, &half);
    linear(half, w.shared_down, {}, &sum.shared);
    if (w.shared_gate.defined()) {
      sum.shared_gate = make({tokens, 1}, x.dtype());
      linear(x, w.shared_gate, {}, &sum.shared_gate);
    }
  }
  submit(sum);
  if (!begin_together(to, target)) copy_into(target, to);
  return target;
}

void moe_topk_with_indices(const Array& logits, const Array& values, const Array& indices) {
  constexpr const char* kOp = "moe_topk_with_indices";
  check_plain(kOp, "logits", logits);
  check_ndim(kOp, "logits", logits, 2);
  check_ndim(kOp, "values", values, 2);
  const int64_t k = values.shape()[1];
  if (k < 1 || k > logits.shape()[1])
    throw ShapeError(kOp, "values", "have 1 to " + std::to_string(logits.shape()[1]) + " columns",
                     values.shape().str());
  const Dims shape{logits.shape()[0], k};
  check_written(kOp, "values", values, shape, logits.dtype(), "logits", logits);
  check_written(kOp, "indices", indices, shape, DType::int32, "logits", logits);
  check_apart(kOp, {&values, &indices}, {&logits});
  Temporaries temporaries(kOp);
  const auto dense = [&](const Array& x) { return x.is_contiguous() ? x : temporaries.empty_like(x); };
  Route route = make_route(kOp, logits, dense(indices));
  route.values = dense(values);
  submit(route);
  if (!values.is_contiguous()) copy_into(values, route.values);
  if (!indices.is_contiguous()) copy_into(indices, route.indices);
}

void moe_softmax_topk(const Array& values) {
  constexpr const char* kOp = "moe_softmax_topk";
  check_plain(kOp, "values", values);
  check_ndim(kOp, "values", values, 2);
  if (values.size() > 0) softmax(values, -1, &values);
}

void moe_compute_permutation(const Array& expert_indices, const Array& counts, const Array& offsets,
                             const Array& permute, const Array& reverse) {
  constexpr const char* kOp = "moe_compute_permutation";
  const Array& ids = expert_indices;
  check_dtype(kOp, "expert_indices", ids, DType::int32);
  check_ndim(kOp, "expert_counts", counts, 1);
  const int64_t experts = counts.size(), rows = ids.size();
  const auto written = [&](const char* argument, const Array& x, int64_t size) {
    check_written(kOp, argument, x, {size}, DType::int32, "expert_indices", ids);
  };
  written("expert_counts", counts, experts);
  written("expert_offsets", offsets, experts + 1);
  written("permute_indices", permute, rows);
  written("reverse_perm", reverse, rows);
  check_apart(kOp, {&counts, &offsets, &permute, &reverse}, {&ids});
  Temporaries temporaries(kOp);
  const auto dense = [&](const Array& x) { return x.is_contiguous() ? x : temporaries.empty_like(x); };
  const Permutation p{dense(counts), dense(offsets), dense(permute), dense(reverse),
                      contiguous(ids, temporaries).reshape_view({rows})};
  switch (ids.device().kind) {
    case DeviceKind::cpu: cpu::order_by_expert(p); break;
    case DeviceKind::cuda: cuda::order_by_expert(p); break;
  }
  if (!counts.is_contiguous()) copy_into(counts, p.counts);
  if (!offsets.is_contiguous()) copy_into(offsets, p.offsets);
  if (!permute.is_contiguous()) copy_into(permute, p.permute);
  if (!reverse.is_contiguous()) copy_into(reverse, p.reverse);
}

void moe_gather(const Array& hidden, const Array& permute, const Array& gathered, int64_t k) {
  constexpr const char* kOp = "moe_gather";
  check_ndim(kOp, "hidden", hidden, 2);
  check_dtype(kOp, "permute_indices", permute, DType::int32);
  if (k < 1) throw ArgumentError(kOp, "k", "be at least 1", std::to_string(k));
  check_place(kOp, "permute_indices", permute, "hidden", hidden);
  check_shape(kOp, "permute_indices", permute, {hidden.shape()[0] * k});
  check_written(kOp, "gathered", gathered, {permute.size(), hidden.shape()[1]}, hidden.dtype(), "hidden", hidden);
  Temporaries temporaries(kOp);
  const Array tokens = temporaries.empty_like(permute);
  floor_divide(permute, Operand(k), &tokens);
  embedding(kOp, hidden, tokens, &gathered);
}

void moe_scatter(const Array& expert_outputs, const Array& router_weights, const Array& reverse, const Array& output) {
  constexpr const char* kOp = "moe_scatter";
  check_plain(kOp, "expert_outputs", expert_outputs);
  check_ndim(kOp, "expert_outputs", expert_outputs, 2);
  check_ndim(kOp, "router_weights", router_weights, 2);
  check_place(kOp, "router_weights", router_weights, "expert_outputs", expert_outputs);
  check_plain(kOp, "router_weights", router_weights);
  check_place(kOp, "reverse_perm", reverse, "expert_outputs", expert_outputs);
  check_dtype(kOp, "reverse_perm", reverse, DType::int32);
  check_shape(kOp, "reverse_perm", reverse, {router_weights.size()});
  check_shape(kOp, "expert_outputs", expert_outputs, {router_weights.size(), expert_outputs.shape()[1]});
  check_written(kOp, "output", output, {router_weights.shape()[0], expert_outputs.shape()[1]}, expert_outputs.dtype(),
                "expert_outputs", expert_outputs);
  check_apart(kOp, {&output}, {&expert_outputs, &router_weights, &reverse});
  Temporaries temporaries(kOp);
  Array weights = router_weights;
  if (weights.dtype() != DType::float32) {
    weights = temporaries.empty(router_weights.shape(), DType::float32, router_weights.device());
    copy_into(weights, router_weights);
  }
  Combine sum = make_combine(kOp, output, expert_outputs, weights);
  sum.reverse = reverse;
  sum.space.reverse_step = reverse.strides()[0];
  submit(sum);
}

void moe_expand_expert_offsets(const Array& offsets, const Array& row_expert_ids) {
  constexpr const char* kOp = "moe_expand_expert_offsets";
  check_dtype(kOp, "expert_offsets", offsets, DType::int32);
  check_ndim(kOp, "expert_offsets", offsets, 1);
  if (offsets.size() < 1) throw ShapeError(kOp, "expert_offsets", "be [experts + 1]", offsets.shape().str());
  check_ndim(kOp, "row_expert_ids", row_expert_ids, 1);
  check_written(kOp, "row_expert_ids", row_expert_ids, row_expert_ids.shape(), DType::int32, "expert_offsets", offsets);
  check_apart(kOp, {&row_expert_ids}, {&offsets});
  if (row_expert_ids.size() == 0) return;
  Temporaries temporaries(kOp);
  const Array ids = row_expert_ids.is_contiguous() ? row_expert_ids : temporaries.empty_like(row_expert_ids);
  const Array from = contiguous(offsets, temporaries);
  switch (ids.device().kind) {
    case DeviceKind::cpu: cpu::expand_offsets(from, ids); break;
    case DeviceKind::cuda: cuda::expand_offsets(from, ids); break;
  }
  if (!row_expert_ids.is_contiguous()) copy_into(row_expert_ids, ids);
}

}  // namespace gpukit
