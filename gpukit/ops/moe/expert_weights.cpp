#include <string>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/pack.h"
#include "gpukit/ops/moe/moe.h"

namespace gpukit {
namespace {

constexpr const char* kOp = "ExpertWeights";

bool is_plain(DType d) { return d == DType::float16 || d == DType::bfloat16 || d == DType::float32; }

void check_matrices(const char* argument, const Array& x) {
  if (x.ndim() != 3 || x.shape()[0] < 1) throw ShapeError(kOp, argument, "be [experts, n, k]", x.shape().str());
}

/// One array with a first axis for experts.
Array stack_parts(const char* argument, const std::vector<Weight>& experts, Array Quantized::*part) {
  const Array& first = experts.front().parts().*part;
  if (!first.defined()) return {};
  Dims shape{static_cast<int64_t>(experts.size())};
  for (int axis = 0; axis < first.ndim(); ++axis) shape.push_back(first.shape()[axis]);
  const Array all = Array::empty(shape, first.dtype(), first.device());
  for (size_t i = 0; i < experts.size(); ++i) {
    const Array& one = experts[i].parts().*part;
    if (!one.defined()) throw ArgumentError(kOp, argument, "be there for all experts or none", "some");
    check_dtype(kOp, argument, one, first.dtype());
    check_shape(kOp, argument, one, first.shape());
    copy_into(all.select(0, static_cast<int64_t>(i)), one);
  }
  return all;
}

}  // namespace

ExpertWeights::ExpertWeights(const Array& matrices) {
  check_matrices("matrices", matrices);
  if (!is_plain(matrices.dtype()))
    unsupported_dtype(kOp, "matrices", matrices.dtype(), "have dtype float16, bfloat16 or float32");
  parts_ = Quantized(pack(matrices));
}

ExpertWeights::ExpertWeights(const Quantized& codes) {
  check_matrices("data", codes.data);
  if (is_plain(codes.data.dtype()) || (!is_storage_only(codes.data.dtype()) && codes.data.dtype() != DType::int8))
    throw DTypeError(kOp, "data", "be float8, int8, int4 or float4_e2m1 beside scales", name(codes.data.dtype()));
  check_parts(kOp, codes, {"scale", "zero", "tensor_scale"}, true);
  parts_ = codes;
  parts_.data = pack(codes.data);
  for (Array* part : {&parts_.scale, &parts_.zero, &parts_.tensor_scale})
    if (part->defined()) *part = contiguous(*part);
}

ExpertWeights ExpertWeights::stack(const std::vector<Weight>& experts) {
  if (experts.empty() || !experts.front().defined())
    throw ArgumentError(kOp, "experts", "have one weight or more", experts.empty() ? "none" : "an empty Weight");
  const Quantized all(stack_parts("experts", experts, &Quantized::data),
                      stack_parts("scale", experts, &Quantized::scale), stack_parts("zero", experts, &Quantized::zero),
                      stack_parts("tensor_scale", experts, &Quantized::tensor_scale));
  return experts.front().is_quantized() ? ExpertWeights(all) : ExpertWeights(all.data);
}

bool ExpertWeights::is_quantized() const { return !is_plain(dtype()); }

int64_t ExpertWeights::columns() const { return parts_.data.shape(2) * (is_packed(dtype()) ? 2 : 1); }

int64_t ExpertWeights::nbytes() const {
  int64_t bytes = 0;
  for (const Array* part : {&parts_.data, &parts_.scale, &parts_.zero, &parts_.tensor_scale})
    if (part->defined()) bytes += part->nbytes();
  return bytes;
}

}  // namespace gpukit
