// Mixtures of experts: a layer as a whole, and the steps of one as version 0.2 had them.
#pragma once

#include <cstdint>
#include <vector>

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/weight.h"

namespace gpukit {

/// The matrices of all experts, [experts, n, k] with one row for each output: dense or quantised. Immutable: a copy
/// shares the memory.
class ExpertWeights {
 public:
  ExpertWeights() = default;
  /// float16, bfloat16 or float32 [experts, n, k], itself where it is row-major, else a copy. Throws ShapeError,
  /// DTypeError.
  explicit ExpertWeights(const Array& matrices);
  /// Codes [experts, n, k] (packed ones [experts, n, k / 2]) and their scales, as quantize makes them of a 3-D array;
  /// tensor_scale is one number, or [experts]. Throws ShapeError, DTypeError, ArgumentError, DeviceError.
  explicit ExpertWeights(const Quantized& codes);
  /// Copies of the matrices of experts, all of one shape and format. Throws ShapeError, DTypeError, ArgumentError.
  static ExpertWeights stack(const std::vector<Weight>& experts);

  bool defined() const { return parts_.data.defined(); }
  bool is_quantized() const;
  int64_t experts() const { return parts_.data.shape(0); }
  int64_t rows() const { return parts_.data.shape(1); }
  int64_t columns() const;
  DType dtype() const { return parts_.data.dtype(); }
  Device device() const { return parts_.data.device(); }
  int64_t nbytes() const;
  const Quantized& parts() const { return parts_; }

 private:
  Quantized parts_;
};

/// What a layer is made of. `hidden` is the width of a token, `width` that of an expert.
struct MoeWeights {
  Weight router;          // [experts, hidden]
  ExpertWeights gate_up;  // [experts, 2 * width, hidden]: the gate's rows, then those it multiplies
  ExpertWeights down;     // [experts, hidden, width]
  // An expert that every token goes to; not defined() where there is none.
  Weight shared_gate_up, shared_down;  // [2 * shared width, hidden], [hidden, shared width]
  Weight shared_gate;                  // [1, hidden]: times the sigmoid of this product; may be left out
};

struct MoeOptions {
  int64_t top_k = 2;
  bool softmax_first = true;   // gates: softmax over all experts, of which the largest k; else softmax over those k
  bool normalize = true;       // after a softmax over all: the k gates are divided by their sum
  Array ids;                   // int32 [tokens]: a token with a negative id is padding, goes nowhere and becomes 0
  bool sigmoid_input = false;  // no softmax: an expert gets x times the sigmoid of its logit, rounded to x's dtype
};

/// For each token x of [tokens, hidden] (float16, bfloat16, float32): the sum over its k experts, largest gate first,
/// of gate * (silu(x @ gate.T) * (x @ up.T)) @ down.T, and the shared expert's last. Router and gates are float32;
/// among equal logits the lowest expert comes first; NaN comes last. What an expert gives is rounded to x's dtype, the
/// sum once more. A token's result does not depend on those beside it as far as matmul's and grouped_matmul's do not.
/// With `out` nothing is allocated. Throws ShapeError, DTypeError, DeviceError, ArgumentError.
Array moe(const Array& x, const MoeWeights& weights, const MoeOptions& options, const Array* out = nullptr);

/// The k largest of each row of logits [tokens, experts], largest first, and where they stand; equal ones by index, NaN
/// last. values is [tokens, k] of logits' dtype, indices int32 [tokens, k].
void moe_topk_with_indices(const Array& logits, const Array& values, const Array& indices);
/// softmax over each row of values [tokens, k], in place.
void moe_softmax_topk(const Array& values);

/// The order of rows by expert. expert_indices is int32 [tokens, k] or [tokens * k], with -1 for a row that goes
/// nowhere: such rows come last. counts is [experts], offsets [experts + 1], permute and reverse [tokens * k], all
/// int32: permute[p] = token * k + slot of the row at place p, those of one expert ascending; reverse is its inverse.
/// Another id outside [0, experts) is a bad index and goes nowhere.
void moe_compute_permutation(const Array& expert_indices, const Array& counts, const Array& offsets,
                             const Array& permute, const Array& reverse);
/// gathered[p] = hidden[permute[p] / k]: hidden [tokens, width], gathered [tokens * k, width].
void moe_gather(const Array& hidden, const Array& permute, const Array& gathered, int64_t k);
/// output[t] = sum over slots of router_weights[t, slot] * expert_outputs[reverse[t * k + slot]], in float32.
void moe_scatter(const Array& expert_outputs, const Array& router_weights, const Array& reverse, const Array& output);
/// row_expert_ids[p] = the expert e with offsets[e] <= p < offsets[e + 1], -1 past the last.
void moe_expand_expert_offsets(const Array& offsets, const Array& row_expert_ids);

}  // namespace gpukit
