#include "gpukit/ops/manipulate/arrange.h"

#include <string>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/manipulate/manipulate.h"

namespace gpukit {

namespace {

Array triangle(const char* op, const Array& x, int64_t k, bool lower) {
  if (x.ndim() < 2) throw ShapeError(op, "x", "have at least two dimensions", x.shape().str());
  const Array rows = arange(0, Scalar(x.shape(-2)), 1, DType::int64, x.device()).expand_dims(1);
  const Array columns = arange(0, Scalar(x.shape(-1)), 1, DType::int64, x.device());
  const Array diagonal = add(rows, k);
  const Array kept = lower ? less_equal(columns, diagonal) : greater_equal(columns, diagonal);
  return where(kept, x, zeros({}, x.dtype(), x.device()));
}

/// The k-th diagonal of a matrix that has one, as a view.
Array diagonal_view(const Array& x, int64_t k) {
  const int64_t row = k < 0 ? -k : 0, column = k > 0 ? k : 0;
  const int64_t rows = x.shape(0) - row, columns = x.shape(1) - column;
  const int64_t length = rows < columns ? rows : columns;
  const int64_t first = row * x.strides()[0] + column * x.strides()[1];
  return Array(x.storage(), x.dtype(), {length}, {x.strides()[0] + x.strides()[1]},
               x.offset_bytes() + first * itemsize(x.dtype()));
}

}  // namespace

Array tril(const Array& x, int64_t k) { return triangle("tril", x, k, true); }
Array triu(const Array& x, int64_t k) { return triangle("triu", x, k, false); }

Array diag(const Array& x, int64_t k) {
  if (x.ndim() == 2) {
    if (k <= -x.shape(0) || k >= x.shape(1)) return Array::empty({0}, x.dtype(), x.device());
    return copy(diagonal_view(x, k));
  }
  check_ndim("diag", "x", x, 1);
  const int64_t size = checked_sum("diag", x.size(), k < 0 ? -k : k);
  const Array matrix = zeros({size, size}, x.dtype(), x.device());
  if (x.size() > 0) copy_into(diagonal_view(matrix, k), x);
  return matrix;
}

std::vector<Array> meshgrid(std::span<const Array> arrays, bool by_rows) {
  constexpr const char* kOp = "meshgrid";
  const int rank = static_cast<int>(arrays.size());
  Dims shape = Dims::filled(rank, 1);  // throws for too many
  const auto place = [&](int i) { return !by_rows && rank > 1 && i < 2 ? 1 - i : i; };
  for (int i = 0; i < rank; ++i) {
    if (arrays[i].ndim() > 1) check_ndim(kOp, "arrays", arrays[i], 1);
    check_dtype(kOp, "arrays", arrays[i], arrays[0].dtype());
    check_same_device(kOp, arrays[0], arrays[i]);
    shape[place(i)] = arrays[i].size();
  }
  std::vector<Array> grids;
  for (int i = 0; i < rank; ++i) {
    Dims along = Dims::filled(rank, 1);
    along[place(i)] = arrays[i].size();
    grids.push_back(copy(reshape(arrays[i], along).broadcast_to(shape)));
  }
  return grids;
}

Array hstack(std::span<const Array> arrays) {
  std::vector<Array> parts;
  for (const Array& a : arrays) parts.push_back(a.ndim() == 0 ? a.expand_dims(0) : a);
  return concat(parts, !parts.empty() && parts[0].ndim() == 1 ? 0 : 1);
}

Array vstack(std::span<const Array> arrays) {
  std::vector<Array> parts;
  for (const Array& a : arrays) parts.push_back(a.ndim() < 2 ? reshape(a, {1, a.size()}) : a);
  return concat(parts, 0);
}

Array at_least(const Array& x, int rank) {
  Array view = x;
  if (view.ndim() == 0) view = view.expand_dims(0);
  if (view.ndim() < 2 && rank >= 2) view = view.expand_dims(0);
  if (view.ndim() < 3 && rank >= 3) view = view.expand_dims(2);
  return view;
}

Array dstack(std::span<const Array> arrays) {
  std::vector<Array> parts;
  for (const Array& a : arrays) parts.push_back(at_least(a, 3));
  return concat(parts, 2);
}

std::vector<Array> array_split(const Array& x, int64_t sections, int64_t axis) {
  if (sections < 1)
    throw ArgumentError("array_split", "indices_or_sections", "be at least 1", std::to_string(sections));
  const int along = normalize_axis("array_split", axis, x.ndim());
  const int64_t length = x.shape(along) / sections, longer = x.shape(along) % sections;
  std::vector<Array> parts;
  int64_t begin = 0;
  for (int64_t i = 0; i < sections; ++i) {
    const int64_t size = length + (i < longer ? 1 : 0);
    parts.push_back(x.narrow(along, begin, size));
    begin += size;
  }
  return parts;
}

}  // namespace gpukit
