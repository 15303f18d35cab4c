#include "gpukit/ops/rope/positions.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/dtype.h"
#include "gpukit/base/number_text.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/elementwise/where.h"

namespace gpukit {

namespace {

void check_positive(const char* op, const char* argument, int64_t value) {
  if (value < 1) throw ArgumentError(op, argument, "be at least 1", std::to_string(value));
}

Array vector_of(const std::vector<double>& values, const Dims& shape, Device device) {
  const std::vector<float> rounded(values.begin(), values.end());
  return from_host(rounded.data(), shape, DType::float32, device);
}

Array sequence(int64_t start, int64_t count, Device device, Temporaries& into) {
  const Array out = into.empty({count}, DType::float32, device);
  if (count == 0) return out;
  switch (device.kind) {
    case DeviceKind::cpu: cpu::sequence(out, static_cast<double>(start), 1.0, nullptr); break;
    case DeviceKind::cuda: cuda::sequence(out, static_cast<double>(start), 1.0, nullptr); break;
  }
  return out;
}

/// float32 [rows, columns]: column - (start + row).
Array distances(int64_t rows, int64_t columns, int64_t start, Device device, Temporaries& into) {
  const Array out = into.empty({rows, columns}, DType::float32, device);
  subtract(sequence(0, columns, device, into), sequence(start, rows, device, into).expand_dims(1), &out);
  return out;
}

Array by_heads(const char* op, const Array& slopes, int64_t heads) {
  check_dtype(op, "slopes", slopes, DType::float32);
  check_shape(op, "slopes", slopes, {heads});
  return slopes.expand_dims(1).expand_dims(2);
}

void check_beside(const char* op, const char* argument, const Array& a, const char* first, const Array& x) {
  if (a.device() == x.device()) return;
  throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", " + first + " is on " +
                    str(x.device()) + "; move one with x.to(device)");
}

void add_rows(const char* op, const Array& x, const Array& encoding, int64_t start) {
  const Array rows = encoding.narrow(0, start, x.shape()[0]).expand_dims(1);
  if (x.dtype() == DType::float32) return add_inplace(x, rows);
  Temporaries temporaries(op);
  const Array sum = temporaries.empty(x.shape(), promote(op, x.dtype(), DType::float32), x.device());
  add(x, rows, &sum);
  cast(op, sum, x.dtype(), &x);
}

}  // namespace

Array pope_encoding(int64_t positions, int64_t dim, double base, Device device) {
  constexpr const char* kOp = "pope_init_encoding";
  check_positive(kOp, "max_seq_len", positions);
  check_positive(kOp, "head_dim", dim);
  if (!(base > 1) || !std::isfinite(base)) throw ArgumentError(kOp, "base", "be above 1", std::to_string(base));
  std::vector<double> values;
  values.reserve(static_cast<size_t>(positions * dim));
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t column = 0; column < dim; ++column) {
      const double exponent = static_cast<double>(column / 2 * 2) / static_cast<double>(dim);
      const double angle = static_cast<double>(p) * std::pow(base, -exponent);
      values.push_back(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return vector_of(values, {positions, dim}, device);
}

void pope(const char* op, const Array& q, const Array& k, const Array& encoding, int64_t start) {
  check_ndim(op, "encoding", encoding, 2);
  check_dtype(op, "encoding", encoding, DType::float32);
  for (const auto& [argument, x] : {std::pair{"q", &q}, std::pair{"k", &k}}) {
    check_ndim(op, argument, *x, 3);
    check_floating(op, argument, *x);
    check_beside(op, argument, *x, "encoding", encoding);
    if (encoding.shape()[1] != x->shape()[2])
      throw ShapeError(op, "encoding", "have " + std::to_string(x->shape()[2]) + " columns", encoding.shape().str());
    if (start < 0 || start > encoding.shape()[0] - x->shape()[0])
      throw OutOfRangeError(std::string(op) + ": " + std::to_string(x->shape()[0]) + " tokens from position " +
                            std::to_string(start) + " are out of range for " + std::to_string(encoding.shape()[0]));
    if (has_internal_overlap(*x))
      throw ArgumentError(std::string(op) + ": " + argument +
                          " reaches some of its memory twice and cannot be written");
    if (may_share_memory(*x, encoding))
      throw ArgumentError(std::string(op) + ": " + argument + " and encoding share memory");
  }
  if (!lie_apart(q, k)) throw ArgumentError(std::string(op) + ": q and k share memory");
  add_rows(op, q, encoding, start);
  add_rows(op, k, encoding, start);
}

Array alibi_slopes(int64_t heads, Device device) {
  check_positive("alibi_init_slopes", "num_heads", heads);
  std::vector<double> values;
  for (int64_t h = 1; h <= heads; ++h)
    values.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads)));
  return vector_of(values, {heads}, device);
}

Array alibi_bias(int64_t length, const Array& slopes, bool causal) {
  constexpr const char* kOp = "alibi_compute_bias";
  const int64_t heads = slopes.size();
  const Array factors = by_heads(kOp, slopes, heads);
  const Array out = Array::empty({heads, length, length}, DType::float32, slopes.device());
  Temporaries temporaries(kOp);
  const Array distance = distances(length, length, 0, slopes.device(), temporaries);
  multiply(factors, distance, &out);
  if (!causal) return out;
  const Array later = temporaries.empty(distance.shape(), DType::boolean, slopes.device());
  greater(distance, 0, &later);
  return where(later, -1e9, out, &out);
}

void alibi_add(const Array& scores, const Array& slopes, int64_t start) {
  constexpr const char* kOp = "alibi_add_bias";
  check_ndim(kOp, "scores", scores, 4);
  check_dtype(kOp, "scores", scores, DType::float32);
  check_beside(kOp, "slopes", slopes, "scores", scores);
  const Array factors = by_heads(kOp, slopes, scores.shape()[1]);
  Temporaries temporaries(kOp);
  const Array distance = distances(scores.shape()[2], scores.shape()[3], start, scores.device(), temporaries);
  const Array bias =
      temporaries.empty({scores.shape()[1], scores.shape()[2], scores.shape()[3]}, DType::float32, scores.device());
  multiply(factors, distance, &bias);
  add_inplace(scores, bias);
}

Array irope_scale(const char* op, const Array& q, const Array& positions, double attn_scale, double floor_scale,
                  const Array* out) {
  check_ndim(op, "Q", q, 3);
  check_floating(op, "Q", q);
  if (positions.dtype() != DType::int32 && positions.dtype() != DType::int64)
    unsupported_dtype(op, "positions", positions.dtype(), "have dtype int32 or int64");
  check_beside(op, "positions", positions, "Q", q);
  check_shape(op, "positions", positions, {q.shape()[0]});
  if (!(floor_scale > 0)) throw ArgumentError(op, "floor_scale", "be positive", number_text(floor_scale));
  const Array target = result(op, out, q.shape(), q.dtype(), q.device());
  if (q.size() == 0) return target;
  Temporaries temporaries(op);
  const Array factor = temporaries.empty(positions.shape(), DType::float64, q.device());
  cast(op, positions, DType::float64, &factor);
  add(factor, 1.0, &factor);
  divide(factor, floor_scale, &factor);
  floor(factor, &factor);
  log1p(factor, &factor);
  multiply(factor, attn_scale, &factor);
  add(factor, 1.0, &factor);
  const DType wide = promote(op, q.dtype(), DType::float32);
  const Array rounded = temporaries.empty(positions.shape(), wide, q.device());
  cast(op, factor, wide, &rounded);
  const Array product = q.dtype() == wide ? target : temporaries.empty(q.shape(), wide, q.device());
  multiply(q, rounded.expand_dims(1).expand_dims(2), &product);
  return q.dtype() == wide ? target : cast(op, product, q.dtype(), &target);
}

}  // namespace gpukit
