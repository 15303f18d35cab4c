#include <algorithm>
#include <cstring>
#include <memory>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/indexing/indexed_move.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

constexpr int64_t kGrain = 16384;
constexpr int64_t kShortestRow = 512;  // a piece of a row below this costs more than it shares

/// What the loops need of a move, without its arrays.
struct Loop {
  MoveAxes axes;
  int num_indices;
  IndexKind kinds[kMaxRank];
  int64_t axis_sizes[kMaxRank], axis_strides[kMaxRank];
  int32_t fault_op;
  runtime::FaultWord* fault;
  int last;           // the innermost axis; without axes the first, whose steps are 0
  bool by_rows;       // no index depends on the innermost axis
  int64_t positions;  // points of the ordered axes

  Loop(const IndexedMove& move, const MoveAxes& a)
      : axes(a),
        num_indices(move.num_indices),
        fault_op(runtime::fault_code(move.op)),
        fault(runtime::fault_word(move.indexed.device())),
        last(std::max(a.rank - 1, 0)),
        by_rows(true),
        positions(1) {
    for (int axis = 0; axis < a.num_ordered; ++axis) positions *= a.shape[axis];
    for (int j = 0; j < num_indices; ++j) {
      const IndexArgument& index = move.indices[static_cast<size_t>(j)];
      kinds[j] = index_kind(index.values.dtype());
      axis_sizes[j] = index.axis_size;
      axis_strides[j] = index.axis_stride;
      by_rows = by_rows && a.index_strides[j][last] == 0;
    }
  }
};

struct Offsets {
  int64_t plain = 0, indexed = 0;
  int64_t index[kMaxRank] = {};

  void step(const Loop& loop, int axis, int64_t count) {
    plain += count * loop.axes.plain_strides[axis];
    indexed += count * loop.axes.indexed_strides[axis];
    for (int j = 0; j < loop.num_indices; ++j) index[j] += count * loop.axes.index_strides[j][axis];
  }
};

/// Offset the indices lead to, or kSkippedOffset after noting the first bad one.
int64_t index_offset(const Loop& loop, void* const* indices, const int64_t* at) {
  int64_t offset = 0;
  for (int j = 0; j < loop.num_indices; ++j) {
    const int64_t value = loop.kinds[j] == IndexKind::int32 ? static_cast<const int32_t*>(indices[j])[at[j]]
                                                            : static_cast<const int64_t*>(indices[j])[at[j]];
    const int64_t position = wrap_index(value, loop.axis_sizes[j], loop.kinds[j]);
    if (position < 0) {
      runtime::note_fault(loop.fault, loop.fault_op, value, loop.axis_sizes[j]);
      return kSkippedOffset;
    }
    offset += position * loop.axis_strides[j];
  }
  return offset;
}

/// Visits positions [begin, end) of axes [first, first_after) in runs along the last of them: run(start, count).
template <typename Run>
void for_each_run(const Loop& loop, int first, int first_after, int64_t begin, int64_t end, const Offsets& base,
                  Run&& run) {
  const int last = first_after - 1;
  if (first > last) {
    if (begin < end) run(base, int64_t{1});
    return;
  }
  const int64_t width = loop.axes.shape[last];
  while (begin < end) {
    Offsets at = base;
    const int64_t column = begin % width;
    int64_t rest = begin / width;
    at.step(loop, last, column);
    for (int axis = last - 1; axis >= first; --axis) {
      at.step(loop, axis, rest % loop.axes.shape[axis]);
      rest /= loop.axes.shape[axis];
    }
    const int64_t count = width - column < end - begin ? width - column : end - begin;
    run(at, count);
    begin += count;
  }
}

struct alignas(16) Wide {
  unsigned char bytes[16];
};

template <typename F>
void visit_width(int bytes, F&& f) {
  switch (bytes) {
    case 1: f.template operator()<uint8_t>(); break;
    case 2: f.template operator()<uint16_t>(); break;
    case 4: f.template operator()<uint32_t>(); break;
    case 8: f.template operator()<uint64_t>(); break;
    default: f.template operator()<Wide>(); break;
  }
}

template <typename T>
void move_run(T* target, int64_t target_step, const T* source, int64_t source_step, int64_t count) {
  if (target_step == 1 && source_step == 1) {
    std::memcpy(target, source, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) target[i * target_step] = source[i * source_step];
}

/// One index array, its values of type I: visit(plain offset, indexed offset or kSkippedOffset) for `count` steps of
/// `axis`.
template <typename I, typename Visit>
void walk_index(const Loop& loop, int axis, const I* index, const Offsets& at, int64_t count, Visit&& visit) {
  const int64_t plain_step = loop.axes.plain_strides[axis], indexed_step = loop.axes.indexed_strides[axis];
  const int64_t index_step = loop.axes.index_strides[0][axis];
  const int64_t size = loop.axis_sizes[0], stride = loop.axis_strides[0];
  index += at.index[0];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = wrap_index(index[i * index_step], size, loop.kinds[0]);
    if (position < 0) [[unlikely]] {
      runtime::note_fault(loop.fault, loop.fault_op, index[i * index_step], size);
      visit(at.plain + i * plain_step, kSkippedOffset);
    } else {
      visit(at.plain + i * plain_step, at.indexed + i * indexed_step + position * stride);
    }
  }
}

/// The same for any number of index arrays.
template <typename Visit>
void walk(const Loop& loop, int axis, void* const* indices, Offsets at, int64_t count, Visit&& visit) {
  if (loop.num_indices == 1 && loop.kinds[0] == IndexKind::int32)
    return walk_index(loop, axis, static_cast<const int32_t*>(indices[0]), at, count, visit);
  if (loop.num_indices == 1) return walk_index(loop, axis, static_cast<const int64_t*>(indices[0]), at, count, visit);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t offset = index_offset(loop, indices, at.index);
    visit(at.plain, offset == kSkippedOffset ? kSkippedOffset : at.indexed + offset);
    at.step(loop, axis, 1);
  }
}

constexpr int64_t kChunk = 256;  // indices that are looked at before they are used

/// Whether none of `n` signed indices is out of range, and none counts from the end.
template <typename I>
GPUKIT_ALWAYS_INLINE bool are_places(const I* index, int64_t index_step, int64_t size, int64_t n) {
  uint64_t bad = 0;
  for (int64_t j = 0; j < n; ++j)
    bad |= static_cast<uint64_t>(int64_t{index[j * index_step]}) >= static_cast<uint64_t>(size) ? 1 : 0;
  return bad == 0;
}

/// plain[i] = indexed[index i] for `count` elements, in chunks: all indices of one are checked, then none. Gives how
/// many were moved before a chunk with an index that is no place.
template <typename T, typename I>
struct TakeRun {
  GPUKIT_ALWAYS_INLINE static void run(T* out, int64_t out_step, const T* x, int64_t x_step, int64_t stride,
                                       const I* index, int64_t index_step, int64_t size, int64_t count, int64_t* done) {
    for (int64_t i = 0, n = 0; i < count; *done = i += n) {
      n = count - i < kChunk ? count - i : kChunk;
      if (!are_places(index + i * index_step, index_step, size, n)) return;
      if (out_step == 1 && x_step == 0 && stride == 1 && index_step == 1)
        for (int64_t j = i; j < i + n; ++j) out[j] = x[index[j]];
      else
        for (int64_t j = i; j < i + n; ++j) out[j * out_step] = x[j * x_step + index[j * index_step] * stride];
    }
  }
};

/// The other way: indexed[index i] = plain[i], one after the other.
template <typename T, typename I>
struct PutRun {
  GPUKIT_ALWAYS_INLINE static void run(const T* values, int64_t values_step, T* x, int64_t x_step, int64_t stride,
                                       const I* index, int64_t index_step, int64_t size, int64_t count, int64_t* done) {
    for (int64_t i = 0, n = 0; i < count; *done = i += n) {
      n = count - i < kChunk ? count - i : kChunk;
      if (!are_places(index + i * index_step, index_step, size, n)) return;
      for (int64_t j = i; j < i + n; ++j) x[j * x_step + index[j * index_step] * stride] = values[j * values_step];
    }
  }
};

/// As much of a run along `axis` as has one array of indices that are places: how many elements.
template <template <typename, typename> typename Run, typename T, typename Plain, typename Indexed>
int64_t run_places(const Loop& loop, int axis, Plain* plain, Indexed* indexed, void* const* indices, const Offsets& at,
                   int64_t count) {
  if (loop.num_indices != 1) return 0;
  int64_t done = 0;
  const auto run = [&]<typename I>(const I* index) {
    run_wide<Run<T, I>>(plain + at.plain, loop.axes.plain_strides[axis], indexed + at.indexed,
                        loop.axes.indexed_strides[axis], loop.axis_strides[0], index + at.index[0],
                        loop.axes.index_strides[0][axis], loop.axis_sizes[0], count, &done);
  };
  if (loop.kinds[0] == IndexKind::int32)
    run(static_cast<const int32_t*>(indices[0]));
  else if (loop.kinds[0] == IndexKind::int64)
    run(static_cast<const int64_t*>(indices[0]));
  return done;
}

template <typename T>
void get_run(const Loop& loop, T* out, const T* x, void* const* indices, const Offsets& at, int64_t count) {
  const int last = loop.last;
  const int64_t plain_step = loop.axes.plain_strides[last], indexed_step = loop.axes.indexed_strides[last];
  if (!loop.by_rows) {
    Offsets rest = at;
    const int64_t done = run_places<TakeRun, T>(loop, last, out, x, indices, at, count);
    if (done == count) return;
    rest.step(loop, last, done);
    walk(loop, last, indices, rest, count - done,
         [&](int64_t to, int64_t from) { out[to] = from != kSkippedOffset ? x[from] : T{}; });
    return;
  }
  const int64_t offset = index_offset(loop, indices, at.index);
  if (offset != kSkippedOffset)
    move_run(out + at.plain, plain_step, x + at.indexed + offset, indexed_step, count);
  else
    for (int64_t i = 0; i < count; ++i) out[at.plain + i * plain_step] = T{};
}

/// Lines [begin, end) whose rows share an index: position by position, a piece of a row at a time.
template <typename T>
void set_rows(const Loop& loop, T* x, const T* values, void* const* indices, int64_t begin, int64_t end) {
  const int ordered = loop.axes.num_ordered, last = loop.last;
  const int inner = std::max(ordered, 1) - 1;
  for_each_run(loop, 0, ordered, 0, loop.positions, Offsets{}, [&](Offsets base, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      for_each_run(loop, ordered, loop.axes.rank, begin, end, base, [&](const Offsets& at, int64_t width) {
        const int64_t offset = index_offset(loop, indices, at.index);
        if (offset == kSkippedOffset) return;
        move_run(x + at.indexed + offset, loop.axes.indexed_strides[last], values + at.plain,
                 loop.axes.plain_strides[last], width);
      });
      base.step(loop, inner, 1);
    }
  });
}

/// Lines [begin, end), each with all its positions.
template <typename T>
void set_lines(const Loop& loop, T* x, const T* values, void* const* indices, int64_t begin, int64_t end) {
  const int ordered = loop.axes.num_ordered, last = loop.last;
  auto set = [&](int axis, Offsets at, int64_t count) {
    const int64_t done = run_places<PutRun, T>(loop, axis, values, x, indices, at, count);
    if (done == count) return;
    at.step(loop, axis, done);
    walk(loop, axis, indices, at, count - done, [&](int64_t from, int64_t to) {
      if (to != kSkippedOffset) x[to] = values[from];
    });
  };
  for_each_run(loop, ordered, loop.axes.rank, begin, end, Offsets{}, [&](Offsets line, int64_t count) {
    if (ordered == 0) return set(last, line, count);
    const int inner = std::max(ordered, 1) - 1;
    for (int64_t i = 0; i < count; ++i) {
      for_each_run(loop, 0, ordered, 0, loop.positions, line,
                   [&](const Offsets& at, int64_t width) { set(inner, at, width); });
      line.step(loop, last, 1);
    }
  });
}

/// plain and indexed first, then the index arrays.
struct Uses {
  std::array<memory::Use, 2 + kMaxRank> list;
  size_t count = 2;
  Uses(const memory::Use& plain, const memory::Use& indexed, const IndexedMove& move) {
    list[0] = plain;
    list[1] = indexed;
    const auto num_indices = std::min(static_cast<size_t>(move.num_indices), move.indices.size());
    for (size_t j = 0; j < num_indices; ++j) list[2 + j] = read(move.indices[j].values);
    count += num_indices;
  }
  operator std::span<const memory::Use>() const { return {list.data(), count}; }
};

}  // namespace

void indexed_get(const IndexedMove& move, const Array& out) {
  const auto shared = std::make_shared<const Loop>(move, move_axes(move, out.strides(), false));
  const int bytes = itemsize(out.dtype());
  runtime::run_host(move.op, out.device(), Uses(write(out), read(move.indexed), move), [shared, bytes](void* const* p) {
    const Loop& loop = *shared;
    visit_width(bytes, [&]<typename T>() {
      parallel_for(loop.axes.size, kGrain, [&](int64_t begin, int64_t end) {
        for_each_run(loop, 0, loop.axes.rank, begin, end, Offsets{}, [&](const Offsets& at, int64_t count) {
          get_run(loop, static_cast<T*>(p[0]), static_cast<const T*>(p[1]), p + 2, at, count);
        });
      });
    });
  });
}

// Threads share the axes that are not ordered; each walks all ordered positions in order, so the last one stays.
void indexed_set(const IndexedMove& move, const Array* values, const ElementBytes& element) {
  const Dims none = Dims::filled(move.shape.rank(), 0);
  const auto shared =
      std::make_shared<const Loop>(move, move_axes(move, values != nullptr ? values->strides() : none, true));
  const int bytes = itemsize(move.indexed.dtype());
  const memory::Use plain = values != nullptr ? read(*values) : memory::Use{};
  runtime::run_host(
      move.op, move.indexed.device(), Uses(plain, write(move.indexed), move), [shared, bytes, element](void* const* p) {
        const Loop& loop = *shared;
        const bool rows = loop.by_rows && loop.axes.rank > loop.axes.num_ordered;
        const int64_t each = kGrain / (loop.positions < kGrain ? loop.positions : kGrain);
        const int64_t grain = rows && each < kShortestRow ? kShortestRow : each;
        visit_width(bytes, [&]<typename T>() {
          const T* source = p[0] != nullptr ? static_cast<const T*>(p[0]) : reinterpret_cast<const T*>(element.bytes);
          parallel_for(loop.axes.size / loop.positions, grain, [&](int64_t begin, int64_t end) {
            auto* x = static_cast<T*>(p[1]);
            rows ? set_rows(loop, x, source, p + 2, begin, end) : set_lines(loop, x, source, p + 2, begin, end);
          });
        });
      });
}

}  // namespace gpukit::cpu
