#include <algorithm>
#include <string>

#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/manipulate/write_result.h"

namespace gpukit {

namespace {

/// Copies `source` to `target`, moved by shifts[axis] along each axis from `axis` on: two slices per shifted axis.
void roll_axes(const Array& target, const Array& source, const Dims& shifts, int axis) {
  if (source.size() == 0) return;
  while (axis < shifts.rank() && shifts[axis] == 0) ++axis;
  if (axis == shifts.rank()) {
    copy_into(target, source);
    return;
  }
  const int64_t size = source.shape()[axis], shift = shifts[axis];
  roll_axes(target.narrow(axis, shift, size - shift), source.narrow(axis, 0, size - shift), shifts, axis + 1);
  roll_axes(target.narrow(axis, 0, shift), source.narrow(axis, size - shift, shift), shifts, axis + 1);
}

/// One axis of a padded array: `before` and `size` elements of the middle.
struct Span {
  int64_t before, size;
};

void pad_edge(const Array& target, int axis, Span span) {
  const int64_t total = target.shape()[axis], after = total - span.before - span.size;
  auto spread = [&](int64_t start, int64_t count, int64_t from) {
    if (count == 0) return;
    const Array part = target.narrow(axis, start, count);
    copy_into(part, target.narrow(axis, from, 1).broadcast_to(part.shape()));
  };
  spread(0, span.before, span.before);
  spread(total - after, after, total - after - 1);
}

/// Mirrors about the border elements. What is wider than that repeats every two periods, in ever longer copies.
void pad_reflect(const Array& target, int axis, Span span) {
  const int64_t period = span.size - 1, total = target.shape()[axis];
  int64_t low = span.before, high = span.before + span.size;
  while (low > 0) {
    const int64_t whole = (high - low) / (2 * period) * (2 * period);
    const int64_t count = std::min(low, whole > 0 ? whole : period);
    copy_into(target.narrow(axis, low - count, count),
              whole > 0 ? target.narrow(axis, low - count + whole, count) : target.slice(axis, low + count, low, -1));
    low -= count;
  }
  while (high < total) {
    const int64_t whole = (high - low) / (2 * period) * (2 * period);
    const int64_t count = std::min(total - high, whole > 0 ? whole : period);
    copy_into(target.narrow(axis, high, count), whole > 0 ? target.narrow(axis, high - whole, count)
                                                          : target.slice(axis, high - 2, high - 2 - count, -1));
    high += count;
  }
}

}  // namespace

Array roll(const Array& x, const Dims& shifts, const std::optional<Dims>& axes, const Array* out) {
  if (!axes.has_value()) {
    if (shifts.rank() != 1) throw ShapeError("roll", "shift", "be one number when no axis is given", shifts.str());
    if (x.ndim() != 1) {
      const Array target = result("roll", out, x.shape(), x.dtype(), x.device());
      const Dims flat{x.size()};
      Temporaries temporaries("roll");
      const Array source = reshape(x, flat, temporaries);
      if (target.can_view(flat)) {
        const Array whole = target.reshape_view(flat);
        roll(source, shifts, Dims{0}, &whole);
      } else {
        const Array rolled = temporaries.empty(flat, x.dtype(), x.device());
        roll(source, shifts, Dims{0}, &rolled);
        copy_into(target, rolled.reshape_view(x.shape()));
      }
      return target;
    }
  }
  const Dims named = axes.value_or(Dims{0});
  if (shifts.rank() != named.rank() && shifts.rank() != 1)
    throw ShapeError("roll", "shift", "have one number per axis (" + std::to_string(named.rank()) + ")", shifts.str());
  Dims total = Dims::filled(x.ndim(), 0);
  for (int i = 0; i < named.rank(); ++i) {
    const int axis = normalize_axis("roll", named[i], x.ndim());
    const int64_t size = std::max<int64_t>(x.shape()[axis], 1);
    total[axis] = ((total[axis] + shifts[shifts.rank() == 1 ? 0 : i] % size) % size + size) % size;
  }
  return write_result("roll", out, x.shape(), x.dtype(), {&x, 1},
                      [&](const Array& target) { roll_axes(target, x, total, 0); });
}

Array pad(const Array& x, std::span<const std::pair<int64_t, int64_t>> widths, PadMode mode, const Scalar& value,
          const Array* out) {
  if (static_cast<int>(widths.size()) != x.ndim())
    throw ShapeError("pad", "pad_width", "have one pair per axis (" + std::to_string(x.ndim()) + ")",
                     std::to_string(widths.size()));
  Dims shape = x.shape();
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const auto [before, after] = widths[static_cast<size_t>(axis)];
    if (before < 0 || after < 0)
      throw ArgumentError("pad", "pad_width", "not be negative", std::to_string(std::min(before, after)));
    const int64_t added = checked_sum("pad", before, after);
    if (mode != PadMode::constant && x.shape()[axis] == 0 && added > 0)
      throw ShapeError("pad", "x", "have elements along axis " + std::to_string(axis) + " to pad from",
                       x.shape().str());
    shape[axis] = checked_sum("pad", shape[axis], added);
  }
  if (mode == PadMode::constant) to_element("pad", value, x.dtype());
  return write_result("pad", out, shape, x.dtype(), {&x, 1}, [&](const Array& target) {
    Array middle = target;
    for (int axis = 0; axis < x.ndim(); ++axis)
      middle = middle.narrow(axis, widths[static_cast<size_t>(axis)].first, x.shape()[axis]);
    if (middle.size() != 0) copy_into(middle, x);
    // Borders axis by axis: over the full width of earlier axes, over the middle of later ones.
    for (int axis = 0; axis < x.ndim(); ++axis) {
      const auto [before, after] = widths[static_cast<size_t>(axis)];
      if (before + after == 0) continue;
      Array part = target;
      for (int later = axis + 1; later < x.ndim(); ++later)
        part = part.narrow(later, widths[static_cast<size_t>(later)].first, x.shape()[later]);
      if (part.size() == 0) continue;
      const Span span{before, x.shape()[axis]};
      if (mode == PadMode::constant) {
        if (before > 0) fill(part.narrow(axis, 0, before), value);
        if (after > 0) fill(part.narrow(axis, before + span.size, after), value);
      } else if (mode == PadMode::edge || span.size == 1) {
        pad_edge(part, axis, span);
      } else {
        pad_reflect(part, axis, span);
      }
    }
  });
}

Array concat_axis0(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype())
    throw DTypeError("concat_axis0", "b", std::string("have the same dtype as a (") + name(a.dtype()) + ")",
                     name(b.dtype()));
  const Array both[] = {a, b};
  return concat(both, 0);
}

Array repeat_interleave_axis1(const Array& input, int64_t repeats) {
  check_ndim("repeat_interleave_axis1", "input", input, 3);
  return repeat(input, repeats, 1);
}

Array transpose_copy(const char* op, const Array& input, const Dims& axes, const Array* out) {
  check_ndim(op, "input", input, axes.rank());
  const Array view = input.permute(axes);
  return write_result(op, out, view.shape(), view.dtype(), {&input, 1}, [&](const Array& target) {
    if (target.size() != 0) copy_into(target, view);
  });
}

Array reshape_copy(const Array& input, const std::optional<Dims>& new_shape, const Array* out) {
  if (!new_shape.has_value() && out == nullptr)
    throw ArgumentError("reshape_copy", "new_shape", "be given when out is not", "None");
  const Dims wanted = new_shape.has_value() ? *new_shape : out->shape();
  Temporaries temporaries("reshape_copy");
  const Array source = reshape(input, wanted, temporaries);
  return write_result("reshape_copy", out, source.shape(), input.dtype(), {&source, 1}, [&](const Array& target) {
    if (target.size() != 0) copy_into(target, source);
  });
}

}  // namespace gpukit
