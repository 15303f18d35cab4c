#include <algorithm>
#include <string>

#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/manipulate/write_result.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit {

namespace {

DType common_dtype(const char* op, std::span<const Array> arrays) {
  DType dtype = arrays[0].dtype();
  for (const Array& a : arrays) {
    check_same_device(op, arrays[0], a);
    if (a.dtype() != dtype) dtype = promote(op, dtype, a.dtype());
  }
  return dtype;
}

void check_some(const char* op, std::span<const Array> arrays) {
  if (arrays.empty()) throw ArgumentError(op, "arrays", "hold at least one array", "none");
}

/// [outer, size, inner] around one axis.
struct Around {
  int64_t outer = 1, size = 1, inner = 1;
  Around(const Dims& shape, int axis) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    size = shape[axis];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

Array flat(const Array& x, Temporaries& into) { return x.ndim() == 1 ? x : reshape(x, {x.size()}, into); }

}  // namespace

Array concat(std::span<const Array> arrays, std::optional<int64_t> axis, const Array* out) {
  check_some("concat", arrays);
  Temporaries temporaries("concat");
  std::vector<Array> flattened;
  if (!axis.has_value()) {
    for (const Array& a : arrays) flattened.push_back(flat(a, temporaries));
    arrays = flattened;
  }
  Dims shape = arrays[0].shape();
  const int at = normalize_axis("concat", axis.value_or(0), shape.rank());
  shape[at] = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    Dims others = arrays[i].shape();
    const bool same_rank = others.rank() == shape.rank();
    if (same_rank) {
      shape[at] = checked_sum("concat", shape[at], others[at]);
      others[at] = shape[at];
    }
    if (!same_rank || others != shape)
      throw ShapeError(
          "concat", "arrays[" + std::to_string(i) + "]",
          "have the shape of arrays[0] " + arrays[0].shape().str() + " but for dimension " + std::to_string(at),
          arrays[i].shape().str());
  }
  const DType dtype = common_dtype("concat", arrays);
  return write_result("concat", out, shape, dtype, arrays, [&](const Array& target) {
    int64_t start = 0;
    for (const Array& a : arrays) {
      if (a.size() != 0) copy_into(target.narrow(at, start, a.shape()[at]), a);
      start += a.shape()[at];
    }
  });
}

Array stack(std::span<const Array> arrays, int64_t axis, const Array* out) {
  check_some("stack", arrays);
  for (size_t i = 0; i < arrays.size(); ++i)
    check_shape("stack", ("arrays[" + std::to_string(i) + "]").c_str(), arrays[i], arrays[0].shape());
  const int at = normalize_axis("stack", axis, arrays[0].ndim() + 1);
  Dims shape = arrays[0].shape();
  shape.insert(at, static_cast<int64_t>(arrays.size()));
  const DType dtype = common_dtype("stack", arrays);
  return write_result("stack", out, shape, dtype, arrays, [&](const Array& target) {
    for (size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i].size() != 0) copy_into(target.select(at, static_cast<int64_t>(i)), arrays[i]);
  });
}

Array repeat(const Array& x, int64_t repeats, std::optional<int64_t> axis, const Array* out) {
  if (repeats < 0) throw ArgumentError("repeat", "repeats", "not be negative", std::to_string(repeats));
  Temporaries temporaries("repeat");
  if (!axis.has_value()) return repeat(flat(x, temporaries), repeats, 0, out);
  const int at = normalize_axis("repeat", *axis, x.ndim());
  Dims shape = x.shape();
  shape[at] = checked_product("repeat", shape[at], repeats);
  const Around around(x.shape(), at);
  return write_result("repeat", out, shape, x.dtype(), {&x, 1}, [&](const Array& target) {
    if (target.size() == 0) return;
    const Dims split{around.outer, around.size, repeats, around.inner};
    if (target.can_view(split)) {
      copy_into(target.reshape_view(split),
                reshape(x, {around.outer, around.size, 1, around.inner}, temporaries).broadcast_to(split));
    } else {
      for (int64_t i = 0; i < repeats; ++i) copy_into(target.slice(at, i, shape[at], repeats), x);
    }
  });
}

Array repeat(const Array& x, std::span<const int64_t> repeats, std::optional<int64_t> axis, const Array* out) {
  Temporaries temporaries("repeat");
  if (!axis.has_value()) return repeat(flat(x, temporaries), repeats, 0, out);
  const int at = normalize_axis("repeat", *axis, x.ndim());
  if (repeats.size() == 1) return repeat(x, repeats[0], at, out);
  const int64_t size = x.shape()[at];
  if (static_cast<int64_t>(repeats.size()) != size)
    throw ShapeError("repeat", "repeats", "have one count or one per slice (" + std::to_string(size) + ")",
                     std::to_string(repeats.size()));
  // Slices that follow each other and are wanted equally often are one copy.
  struct Run {
    int64_t first, size, count;
  };
  std::vector<Run> runs;
  Dims shape = x.shape();
  shape[at] = 0;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t count = repeats[static_cast<size_t>(i)];
    if (count < 0) throw ArgumentError("repeat", "repeats", "not be negative", std::to_string(count));
    shape[at] = checked_sum("repeat", shape[at], count);
    if (!runs.empty() && runs.back().count == count)
      ++runs.back().size;
    else
      runs.push_back({i, 1, count});
  }
  // A capture cannot read host memory; else many copies cost more than indices.
  constexpr size_t kFewRuns = 8;
  if (runs.size() <= kFewRuns || runtime::thread_capture() != nullptr) {
    return write_result("repeat", out, shape, x.dtype(), {&x, 1}, [&](const Array& target) {
      int64_t start = 0;
      for (const Run& run : runs) {
        if (run.count == 0) continue;
        const Array into = target.narrow(at, start, run.size * run.count);
        repeat(x.narrow(at, run.first, run.size), run.count, at, &into);
        start += run.size * run.count;
      }
    });
  }
  // The device refuses what does not fit before the host fills as much.
  const Array target = result("repeat", out, shape, x.dtype(), x.device());
  const Array indices = temporaries.empty({shape[at]}, DType::int64, x.device());
  std::vector<int64_t> sources;
  sources.reserve(static_cast<size_t>(shape[at]));
  for (int64_t i = 0; i < size; ++i)
    sources.insert(sources.end(), static_cast<size_t>(repeats[static_cast<size_t>(i)]), i);
  runtime::copy_from_host(write(indices), sources.data(), static_cast<size_t>(indices.nbytes()));
  return take(x, indices, at, &target);
}

namespace {

/// x with one axis repeated as a whole.
Array tile_axis(const Array& x, int axis, int64_t count, Temporaries& into) {
  Dims shape = x.shape();
  shape[axis] *= count;
  const Array grown = into.empty(shape, x.dtype(), x.device());
  const Around around(x.shape(), axis);
  const Dims pieces{around.outer, count, around.size, around.inner};
  copy_into(grown.reshape_view(pieces),
            reshape(x, {around.outer, 1, around.size, around.inner}, into).broadcast_to(pieces));
  return grown;
}

}  // namespace

Array tile(const Array& x, const Dims& repetitions, const Array* out) {
  const int rank = std::max(x.ndim(), repetitions.rank());
  Dims shape, counts, full;
  for (int axis = 0; axis < rank; ++axis) {
    const int own = axis - (rank - x.ndim()), named = axis - (rank - repetitions.rank());
    shape.push_back(own < 0 ? 1 : x.shape()[own]);
    counts.push_back(named < 0 ? 1 : repetitions[named]);
    if (counts[axis] < 0) throw ArgumentError("tile", "repetitions", "not be negative", repetitions.str());
    full.push_back(checked_product("tile", shape[axis], counts[axis]));
  }
  // (count, size) pairs, outermost first: an axis that is not repeated belongs to the one before it.
  std::vector<std::pair<int64_t, int64_t>> groups;
  for (int axis = 0; axis < rank; ++axis) {
    if (!groups.empty() && counts[axis] == 1)
      groups.back().second *= shape[axis];
    else
      groups.emplace_back(counts[axis], shape[axis]);
  }
  return write_result("tile", out, full, x.dtype(), {&x, 1}, [&](const Array& target) {
    if (target.size() == 0) return;
    Temporaries temporaries("tile");
    if (groups.size() > kMaxRank / 2 || !target.is_contiguous()) {
      Array grown = reshape(x, shape, temporaries);
      for (int axis = rank - 1; axis >= 0; --axis)
        if (counts[axis] != 1) grown = tile_axis(grown, axis, counts[axis], temporaries);
      copy_into(target, grown);
      return;
    }
    Dims pieces, once;
    for (const auto& [count, size] : groups) {
      pieces.push_back(count);
      pieces.push_back(size);
      once.push_back(1);
      once.push_back(size);
    }
    copy_into(target.reshape_view(pieces), reshape(x, once, temporaries).broadcast_to(pieces));
  });
}

}  // namespace gpukit
