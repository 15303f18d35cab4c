#include "gpukit/ops/indexing/index.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/indexing/indexed_move.h"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/ops/indexing/set_values.h"

namespace gpukit {

namespace {

/// An array of the index and the first of the axes of the view it stands for.
struct ArrayItem {
  Array values;
  int axis = 0;
};

/// The view after integers, slices and new axes, and what is left to do with arrays.
struct Parsed {
  Array view;
  std::vector<ArrayItem> arrays;
  bool side_by_side = true;  // arrays and integers form one block in the list
  int position = 0;          // axes of the view before the block
};

bool is_mask(const Array& a) { return a.dtype() == DType::boolean; }

/// Axes of x an item stands for.
int axes_of(const IndexItem& item) {
  if (const Array* array = std::get_if<Array>(&item)) return is_mask(*array) ? array->ndim() : 1;
  return std::holds_alternative<int64_t>(item) || std::holds_alternative<IndexSlice>(item) ? 1 : 0;
}

bool is_array_like(const IndexItem& item) {
  return std::holds_alternative<Array>(item) || std::holds_alternative<bool>(item);
}

Array slice_axis(const char* op, const Array& view, int axis, const IndexSlice& slice) {
  const int64_t size = view.shape()[axis], step = slice.step.value_or(1);
  if (step == 0) throw ArgumentError(op, "step", "be non-zero", "0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  auto bound = [&](std::optional<int64_t> value, int64_t missing) {
    if (!value.has_value()) return missing;
    return std::clamp(*value < 0 ? *value + size : *value, low, high);
  };
  const int64_t start = bound(slice.start, step > 0 ? low : high), stop = bound(slice.stop, step > 0 ? high : low);
  // Steps beyond the axis all mean one element; the clamp keeps the size arithmetic in range.
  return view.slice(axis, start, stop, std::clamp(step, -size - 1, size + 1));
}

/// A 0-d mask stands on a new axis of size 1: index 0 taken once or not at all.
Array zero_d_mask(const Array& x, bool value, Temporaries& into) {
  const Array index = into.empty({value ? 1 : 0}, DType::int64, x.device());
  if (value) fill(index, Scalar(0));
  return index;
}

/// The view that the mask is for: an axis of a mask may have no elements, and selects nothing then.
Array under_mask(const char* op, Array view, int axis, const Array& mask) {
  for (int i = 0; i < mask.ndim(); ++i) {
    if (mask.shape()[i] == view.shape()[axis + i]) continue;
    if (mask.shape()[i] != 0)
      throw OutOfRangeError(std::string(op) + ": a mask of shape " + mask.shape().str() + " does not fit axis " +
                            std::to_string(axis + i) + " of size " + std::to_string(view.shape()[axis + i]));
    view = view.slice(axis + i, 0, 0, 1);
  }
  return view;
}

Parsed parse(const char* op, const Array& x, std::span<const IndexItem> items, Temporaries& into) {
  int needed = 0, num_ellipses = 0;
  bool has_array = false;
  for (const IndexItem& item : items) {
    needed += axes_of(item);
    num_ellipses += std::holds_alternative<IndexEllipsis>(item);
    has_array = has_array || is_array_like(item);
  }
  if (num_ellipses > 1) throw OutOfRangeError(std::string(op) + ": an index has at most one ellipsis");
  if (needed > x.ndim())
    throw OutOfRangeError(std::string(op) + ": too many indices: x has " + std::to_string(x.ndim()) + " axes, got " +
                          std::to_string(needed));

  Parsed parsed;
  parsed.view = x;
  enum { before, inside, after } block = before;
  int axis = 0;
  for (const IndexItem& item : items) {
    const bool in_block = has_array && (is_array_like(item) || std::holds_alternative<int64_t>(item));
    if (in_block) {
      if (block == before) parsed.position = axis;
      if (block == after) parsed.side_by_side = false;
      block = inside;
    } else if (block == inside) {
      block = after;
    }
    if (const int64_t* value = std::get_if<int64_t>(&item)) {
      const int64_t size = parsed.view.shape()[axis];
      if (*value < -size || *value >= size) throw OutOfRangeError(op, *value, size);
      parsed.view = parsed.view.select(axis, *value);
    } else if (const IndexSlice* slice = std::get_if<IndexSlice>(&item)) {
      parsed.view = slice_axis(op, parsed.view, axis++, *slice);
    } else if (std::holds_alternative<IndexEllipsis>(item)) {
      axis += x.ndim() - needed;
    } else if (std::holds_alternative<IndexNewAxis>(item)) {
      parsed.view = parsed.view.expand_dims(axis++);
    } else if (const bool* flag = std::get_if<bool>(&item)) {
      parsed.view = parsed.view.expand_dims(axis);
      parsed.arrays.push_back({zero_d_mask(x, *flag, into), axis++});
    } else {
      const Array& array = std::get<Array>(item);
      check_same_device(op, x, array);
      if (!is_mask(array)) {
        parsed.arrays.push_back({index_values(op, array, into), axis++});
      } else if (array.ndim() == 0) {
        parsed.view = parsed.view.expand_dims(axis);
        parsed.arrays.push_back({array.expand_dims(0), axis++});
      } else {
        parsed.view = under_mask(op, parsed.view, axis, array);
        parsed.arrays.push_back({array, axis});
        axis += array.ndim();
      }
    }
  }
  return parsed;
}

/// One axis of the view with its integer index.
struct AxisIndex {
  Array values;
  int axis;
};

/// Masks become integer indices. A mask over several axes that are one piece of memory becomes one index into that
/// piece.
std::vector<AxisIndex> integer_indices(Parsed* parsed) {
  std::vector<AxisIndex> indices;
  int removed = 0;  // axes merged so far, all before the ones still to come
  for (const ArrayItem& item : parsed->arrays) {
    const int axis = item.axis - removed;
    if (!is_mask(item.values)) {
      indices.push_back({item.values, axis});
      continue;
    }
    const int rank = item.values.ndim();
    Dims merged;
    for (int i = 0; i < parsed->view.ndim(); ++i) {
      if (i > axis && i < axis + rank)
        merged[axis] *= parsed->view.shape()[i];
      else
        merged.push_back(parsed->view.shape()[i]);
    }
    if (rank > 1 && parsed->view.can_view(merged)) {
      parsed->view = parsed->view.reshape_view(merged);
      const Array flat = contiguous(item.values).reshape_view({item.values.size()});
      indices.push_back({nonzero_coordinates(flat).select(0, 0), axis});
      removed += rank - 1;
      continue;
    }
    const Array coordinates = nonzero_coordinates(item.values);
    for (int i = 0; i < rank; ++i) indices.push_back({coordinates.select(0, i), axis + i});
  }
  return indices;
}

/// The result's axes: the view's own in order, and those of the broadcast indices at the block's place.
IndexedMove make_move(const char* op, Parsed* parsed, bool unique) {
  const std::vector<AxisIndex> indices = integer_indices(parsed);
  const Array& view = parsed->view;
  IndexedMove move;
  move.op = op;
  move.indexed = view;
  Dims common;
  unsigned indexed_axes = 0;
  for (const AxisIndex& index : indices) {
    common = broadcast_shapes(op, common, index.values.shape());
    indexed_axes |= 1u << index.axis;
  }
  Dims index_strides[kMaxRank];
  const int block = parsed->side_by_side ? parsed->position : 0;
  auto append_block = [&] {
    move.ordered_begin = move.shape.rank();
    for (int i = 0; i < common.rank(); ++i) {
      move.shape.push_back(common[i]);
      move.indexed_strides.push_back(0);
    }
    move.ordered_end = unique ? move.ordered_begin : move.shape.rank();
  };
  bool placed = false;
  for (int axis = 0; axis < view.ndim(); ++axis) {
    if (!placed && axis >= block) {
      append_block();
      placed = true;
    }
    if ((indexed_axes >> axis) & 1u) continue;
    move.shape.push_back(view.shape()[axis]);
    move.indexed_strides.push_back(view.strides()[axis]);
  }
  if (!placed) append_block();
  for (size_t j = 0; j < indices.size(); ++j) {
    const Array spread = indices[j].values.broadcast_to(common);
    index_strides[j] = Dims::filled(move.shape.rank(), 0);
    for (int i = 0; i < common.rank(); ++i) index_strides[j][move.ordered_begin + i] = spread.strides()[i];
    move.add(spread, index_strides[j], view.shape()[indices[j].axis], view.strides()[indices[j].axis]);
  }
  return move;
}

bool same_view(const Array& a, const Array& b) {
  return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes() && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

void set_view(const Array& view, const Operand& value) {
  if (has_internal_overlap(view))
    throw ArgumentError("setitem", "x", "not reach one element twice",
                        "a broadcast view of strides " + view.strides().str());
  if (!value.is_array()) {
    to_element("setitem", value.scalar, view.dtype());
    fill(view, value.scalar);
    return;
  }
  const Array given = drop_leading_axes(*value.array, view.ndim());
  if (same_view(view, given)) return;
  check_same_device("setitem", view, given);
  if (broadcast_shapes("setitem", given.shape(), view.shape()) != view.shape())
    throw ShapeError("setitem", "value", "broadcast to shape " + view.shape().str(), given.shape().str());
  copy_into(view, given);
}

/// view[mask] = one value, with no wait and in place: no position moves.
void masked_fill(const Array& view, const ArrayItem& item, const Operand& value) {
  Array mask = item.values;
  for (int axis = item.axis + mask.ndim(); axis < view.ndim(); ++axis) mask = mask.expand_dims(mask.ndim());
  Temporaries temporaries("setitem");
  Array element;
  if (value.is_array()) {
    check_same_device("setitem", view, *value.array);
    element = astype(value.array->reshape_view({}), view.dtype(), temporaries);
    if (may_share_memory(element, view)) element = copy(element, temporaries);
  } else if (view.dtype() != promote_scalar("setitem", view.dtype(), value.scalar.kind)) {
    element = temporaries.empty({}, view.dtype(), view.device());
    fill(element, value.scalar);
  }
  where(mask, element.defined() ? Operand(element) : value, view, &view);
}

}  // namespace

Array get_item(const Array& x, std::span<const IndexItem> items) {
  Temporaries temporaries("getitem");
  Parsed parsed = parse("getitem", x, items, temporaries);
  if (parsed.arrays.empty()) return parsed.view;
  const IndexedMove move = make_move("getitem", &parsed, false);
  const Array out = Array::empty(move.shape, x.dtype(), x.device());
  indexed_get(move, out);
  return out;
}

void set_item(const Array& x, std::span<const IndexItem> items, const Operand& value) {
  Temporaries temporaries("setitem");
  Parsed parsed = parse("setitem", x, items, temporaries);
  if (parsed.arrays.empty()) {
    set_view(parsed.view, value);
    return;
  }
  const bool one_mask = parsed.arrays.size() == 1 && is_mask(parsed.arrays[0].values);
  const bool one_value = !value.is_array() || value.array->size() == 1;
  if (one_mask && one_value && !is_storage_only(x.dtype())) {
    masked_fill(parsed.view, parsed.arrays[0], value);
    return;
  }
  IndexedMove move = make_move("setitem", &parsed, one_mask);
  set_values(&move, value);
}

}  // namespace gpukit
