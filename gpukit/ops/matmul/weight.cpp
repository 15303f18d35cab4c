#include "gpukit/ops/matmul/weight.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/pack.h"

namespace gpukit {
namespace {

constexpr const char* kOp = "Weight";

void check_matrix(const char* argument, const Array& x) {
  if (x.ndim() != 2) throw ShapeError(kOp, argument, "be a 2D array (2 dimensions): [n, k]", x.shape().str());
}

bool is_code(DType dtype) {
  return is_packed(dtype) || dtype == DType::int8 || dtype == DType::float8_e4m3 || dtype == DType::float8_e5m2;
}

/// The CPU's product reads such columns in place, and rows only after it has packed them.
bool lies_by_columns(const Array& matrix) {
  return matrix.device().kind == DeviceKind::cpu && matrix.transpose().is_contiguous();
}

}  // namespace

Weight::Weight(const Array& matrix) {
  check_matrix("matrix", matrix);
  check_floating(kOp, "matrix", matrix);
  parts_ = Quantized(lies_by_columns(matrix) ? matrix : pack(matrix));
}

Weight::Weight(const Quantized& values) {
  check_matrix("data", values.data);
  if (!is_code(values.data.dtype()))
    throw DTypeError(kOp, "data", "be float8, int8, int4 or float4_e2m1 beside scales", name(values.data.dtype()));
  check_parts(kOp, values, {"scale", "zero", "tensor_scale"});
  parts_ = values;
  parts_.data = pack(values.data);
  for (Array* part : {&parts_.scale, &parts_.zero, &parts_.tensor_scale})
    if (part->defined()) *part = contiguous(*part);
}

Weight Weight::for_few_rows(const Array& matrix) {
  check_matrix("matrix", matrix);
  if (matrix.device().kind != DeviceKind::cpu) return Weight(matrix);
  return Weight(contiguous(matrix.transpose()).transpose());
}

Weight Weight::quantize(const Array& matrix, DType format, const QuantizeOptions& options) {
  check_matrix("matrix", matrix);
  return Weight(gpukit::quantize(matrix, format, options));
}

bool Weight::is_quantized() const { return is_code(dtype()); }

int64_t Weight::columns() const { return parts_.data.shape(1) * (is_packed(dtype()) ? 2 : 1); }

int64_t Weight::nbytes() const {
  int64_t bytes = 0;
  for (const Array* part : {&parts_.data, &parts_.scale, &parts_.zero, &parts_.tensor_scale})
    if (part->defined()) bytes += part->size() * itemsize(part->dtype());
  return bytes;
}

Array Weight::dense(DType dtype) const {
  return is_quantized() ? dequantize(parts_, dtype) : astype(parts_.data, dtype);
}

}  // namespace gpukit
