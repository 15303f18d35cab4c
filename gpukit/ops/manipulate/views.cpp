#include <algorithm>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/manipulate/manipulate.h"

namespace gpukit {

namespace {

/// Normalised, each named once.
Dims unique_axes(const char* op, const Dims& axes, int rank) {
  Dims normal;
  for (int64_t axis : axes) {
    const int at = normalize_axis(op, axis, rank);
    if (std::find(normal.begin(), normal.end(), at) != normal.end())
      throw ShapeError(op, "axis", "name each axis once", axes.str());
    normal.push_back(at);
  }
  return normal;
}

/// More views than anyone means: what asks for them is a mistake, and would fill the memory with empty ones.
constexpr int64_t kMaxParts = 1 << 20;

void check_parts(const char* op, const char* argument, int64_t count) {
  if (count > kMaxParts)
    throw ArgumentError(op, argument, "give at most " + std::to_string(kMaxParts) + " views", std::to_string(count));
}

}  // namespace

Array permute_dims(const Array& x, const Dims& axes) { return x.permute(axes); }

Array moveaxis(const Array& x, const Dims& source, const Dims& destination) {
  const Dims from = unique_axes("moveaxis", source, x.ndim()), to = unique_axes("moveaxis", destination, x.ndim());
  if (from.rank() != to.rank())
    throw ShapeError("moveaxis", "destination", "name as many axes as source (" + std::to_string(from.rank()) + ")",
                     destination.str());
  Dims order = Dims::filled(x.ndim(), -1);
  for (int i = 0; i < from.rank(); ++i) order[static_cast<int>(to[i])] = from[i];
  int next = 0;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (std::find(from.begin(), from.end(), axis) != from.end()) continue;
    while (order[next] >= 0) ++next;
    order[next] = axis;
  }
  return x.permute(order);
}

Array swapaxes(const Array& x, int64_t axis1, int64_t axis2) {
  Dims order;
  for (int axis = 0; axis < x.ndim(); ++axis) order.push_back(axis);
  std::swap(order[normalize_axis("swapaxes", axis1, x.ndim())], order[normalize_axis("swapaxes", axis2, x.ndim())]);
  return x.permute(order);
}

Array squeeze(const Array& x, const std::optional<Dims>& axes) {
  if (!axes.has_value()) return x.squeeze();
  Dims named = unique_axes("squeeze", *axes, x.ndim());
  std::sort(named.begin(), named.end());
  Array view = x;
  for (int i = named.rank() - 1; i >= 0; --i) view = view.squeeze(static_cast<int>(named[i]));
  return view;
}

Array expand_dims(const Array& x, const Dims& axes) {
  const int rank = x.ndim() + axes.rank();
  if (rank > kMaxRank)
    throw ShapeError("expand_dims", "axis", "give at most " + std::to_string(kMaxRank) + " dimensions",
                     std::to_string(rank));
  Dims named = unique_axes("expand_dims", axes, rank);
  std::sort(named.begin(), named.end());
  Array view = x;
  for (int64_t axis : named) view = view.expand_dims(static_cast<int>(axis));
  return view;
}

Array broadcast_to(const Array& x, const Dims& shape) { return x.broadcast_to(shape); }

Array expand(const Array& x, const Dims& shape) {
  const int added = shape.rank() - x.ndim();
  if (added < 0)
    throw ShapeError("expand", "shape", "have at least " + std::to_string(x.ndim()) + " dimensions", shape.str());
  Dims full = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] != -1) continue;
    if (axis < added) throw ShapeError("expand", "shape", "have no -1 on a new axis", shape.str());
    full[axis] = x.shape()[axis - added];
  }
  return x.broadcast_to(full);
}

std::vector<Array> broadcast_arrays(std::span<const Array> arrays) {
  Dims shape;
  for (const Array& a : arrays) shape = broadcast_shapes("broadcast_arrays", shape, a.shape());
  std::vector<Array> views;
  for (const Array& a : arrays) views.push_back(a.broadcast_to(shape));
  return views;
}

Array flip(const Array& x, const std::optional<Dims>& axes) {
  Array view = x;
  auto turn = [&](int axis) { view = view.slice(axis, view.shape()[axis] - 1, -1, -1); };
  if (axes.has_value()) {
    for (int64_t axis : unique_axes("flip", *axes, x.ndim())) turn(static_cast<int>(axis));
  } else {
    for (int axis = 0; axis < x.ndim(); ++axis) turn(axis);
  }
  return view;
}

std::vector<Array> split(const Array& x, int64_t sections, int64_t axis) {
  const int at = normalize_axis("split", axis, x.ndim());
  const int64_t size = x.shape()[at];
  if (sections <= 0) throw ArgumentError("split", "sections", "be positive", std::to_string(sections));
  if (size % sections != 0)
    throw ShapeError("split", "sections", "divide axis " + std::to_string(at) + " of size " + std::to_string(size),
                     std::to_string(sections));
  check_parts("split", "sections", sections);
  std::vector<Array> parts;
  const int64_t length = size / sections;
  for (int64_t i = 0; i < sections; ++i) parts.push_back(x.narrow(at, i * length, length));
  return parts;
}

std::vector<Array> split_at(const Array& x, std::span<const int64_t> indices, int64_t axis) {
  const int at = normalize_axis("split", axis, x.ndim());
  const int64_t size = x.shape()[at];
  auto bound = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  std::vector<Array> parts;
  int64_t start = 0;
  for (int64_t index : indices) {
    const int64_t stop = bound(index);
    parts.push_back(x.narrow(at, start, std::max<int64_t>(stop - start, 0)));
    start = stop;
  }
  parts.push_back(x.narrow(at, start, size - start));
  return parts;
}

std::vector<Array> unstack(const Array& x, int64_t axis) {
  const int at = normalize_axis("unstack", axis, x.ndim());
  check_parts("unstack", "axis", x.shape()[at]);
  std::vector<Array> parts;
  for (int64_t i = 0; i < x.shape()[at]; ++i) parts.push_back(x.select(at, i));
  return parts;
}

Array reshape(const Array& x, const Dims& shape, std::optional<bool> copy) {
  const Dims full = fill_in_size("reshape", shape, x.size());
  if (copy == true) return gpukit::copy(x).reshape_view(full);
  if (x.can_view(full)) return x.reshape_view(full);
  if (copy == false)
    throw ShapeError("reshape", "shape",
                     "fit the strides " + x.strides().str() + " of shape " + x.shape().str() + " when copy=False",
                     shape.str());
  return contiguous(x).reshape_view(full);
}

Array reshape(const Array& x, const Dims& shape, Temporaries& into) {
  const Dims full = fill_in_size(into.op(), shape, x.size());
  return x.can_view(full) ? x.reshape_view(full) : contiguous(x, into).reshape_view(full);
}

Array ravel(const Array& x) { return reshape(x, {x.size()}); }
Array flatten(const Array& x) { return reshape(x, {x.size()}, true); }

}  // namespace gpukit
