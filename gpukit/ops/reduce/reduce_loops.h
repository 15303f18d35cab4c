// CPU loops of the reductions: the tree of reduce.h over rows and columns of any strides.
//
// An Op has `Element`, `Acc`, `load(element, index)`, static `merge(earlier, later)`, `finish(out, offset, acc)` and
// `kAnyOrder`: merge is associative, so a plain loop gives what the tree gives. It may have `whole_leaf(x)`, the tree
// over kLeaf neighbours, `add_dense(acc, x, begin, n, first)`, which merges n neighbours into acc or begins it, or
// `walk_columns(x, stride, first, last, columns, accs)`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/reduce/reduce_plan.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

inline constexpr int kLeaf = 256;           // elements of one leaf of the walk
inline constexpr int64_t kPiece = 1 << 15;  // elements one thread takes of a long row, at least
inline constexpr int kMaxPieces = 1024;
inline constexpr int kTile = 64;  // columns walked together
inline constexpr int kTilePieces = 64;
inline constexpr int kLevels = 64;
inline constexpr int64_t kLook = 1 << 14;  // elements between two looks whether the work is still wanted

inline int64_t offset_of(const ReduceAxis* axes, int rank, int64_t index, int64_t ReduceAxis::*stride) {
  int64_t offset = 0;
  for (int i = rank - 1; i > 0; --i) {
    offset += index % axes[i].size * (axes[i].*stride);
    index /= axes[i].size;
  }
  return offset + index * (axes[0].*stride);
}

/// The tree over v[0, n), which it overwrites. The other half of the space is scratch, so that loops vectorise.
template <typename Op>
typename Op::Acc tree(typename Op::Acc* v, typename Op::Acc* scratch, int64_t n) {
  using Acc = typename Op::Acc;
  while (n > 1) {
    const int64_t pairs = n / 2;
    const Acc* __restrict from = v;
    Acc* __restrict to = scratch;
    for (int64_t j = 0; j < pairs; ++j) to[j] = Op::merge(from[2 * j], from[2 * j + 1]);
    if (n & 1) to[pairs] = from[n - 1];
    std::swap(v, scratch);
    n = pairs + (n & 1);
  }
  return v[0];
}

/// Nodes of equal size met one after another.
template <typename Acc, typename Merge>
class Pending {
 public:
  explicit Pending(Merge merge) : merge_(merge) {}
  void push(Acc v) {
    int level = 0;
    for (int64_t n = count_; n & 1; n >>= 1) v = merge_(slots_[level++], v);
    slots_[level] = v;
    ++count_;
  }
  Acc result() const {
    int level = 0;
    while (!(count_ >> level & 1)) ++level;
    Acc v = slots_[level];
    for (++level; count_ >> level != 0; ++level)
      if (count_ >> level & 1) v = merge_(slots_[level], v);
    return v;
  }

 private:
  Merge merge_;
  int64_t count_ = 0;
  Acc slots_[kLevels];
};

/// Elements [begin, begin + n) of one row, n at most kLeaf.
template <typename Op>
typename Op::Acc leaf(const Op& op, const typename Op::Element* row, const ReduceLayout& layout, int64_t begin,
                      int64_t n) {
  using Acc = typename Op::Acc;
  const int last = layout.reduced_rank - 1;
  const int64_t stride = layout.reduced[last].in;
  if (last == 0 && Op::kAnyOrder) {
    const typename Op::Element* x = row + begin * stride;
    Acc v = op.load(x[0], begin);
    for (int64_t j = 1; j < n; ++j) v = Op::merge(v, op.load(x[j * stride], begin + j));
    return v;
  }
  Acc space[2][kLeaf];
  if (last == 0 && stride == 1) {
    const typename Op::Element* x = row + begin;
    for (int64_t j = 0; j < n / 2; ++j)
      space[0][j] = Op::merge(op.load(x[2 * j], begin + 2 * j), op.load(x[2 * j + 1], begin + 2 * j + 1));
    if (n & 1) space[0][n / 2] = op.load(x[n - 1], begin + n - 1);
    return tree<Op>(space[0], space[1], (n + 1) / 2);
  }
  for (int64_t j = 0; j < n;) {
    const int64_t at = (begin + j) % layout.reduced[last].size;
    const int64_t run = std::min(layout.reduced[last].size - at, n - j);
    const typename Op::Element* x = row + offset_of(layout.reduced, layout.reduced_rank, begin + j, &ReduceAxis::in);
    for (int64_t k = 0; k < run; ++k) space[0][j + k] = op.load(x[k * stride], begin + j + k);
    j += run;
  }
  return tree<Op>(space[0], space[1], n);
}

/// kLeaf neighbours by the tree. Each level has a fixed size, which becomes wide registers.
template <typename Op>
struct WholeLeaf {
  using Acc = typename Op::Acc;
  template <int kPairs>
  GPUKIT_ALWAYS_INLINE static Acc level(Acc* v, Acc* other) {
    for (int j = 0; j < kPairs; ++j) other[j] = Op::merge(v[2 * j], v[2 * j + 1]);
    if constexpr (kPairs == 1)
      return other[0];
    else
      return level<kPairs / 2>(other, v);
  }
  GPUKIT_ALWAYS_INLINE static void run(const Op* op, const typename Op::Element* x, int64_t begin, Acc* out) {
    if constexpr (requires { op->whole_leaf(x); }) {
      *out = op->whole_leaf(x);
    } else {
      alignas(64) Acc v[kLeaf / 2];
      alignas(64) Acc other[kLeaf / 4];
      for (int j = 0; j < kLeaf / 2; ++j)
        v[j] = Op::merge(op->load(x[2 * j], begin + 2 * j), op->load(x[2 * j + 1], begin + 2 * j + 1));
      *out = level<kLeaf / 4>(v, other);
    }
  }
};
template <typename Op>
struct AddDense {
  GPUKIT_ALWAYS_INLINE static void run(const Op* op, typename Op::Acc* acc, const typename Op::Element* x,
                                       int64_t begin, int64_t n, bool first) {
    op->add_dense(*acc, x, begin, n, first);
  }
};
inline constexpr int64_t kDenseChunk = 4096;

/// Elements [begin, end) of one row; begin is a multiple of a power of two that is at least the distance to end.
template <typename Op>
typename Op::Acc row_tree(const Op& op, const typename Op::Element* row, const ReduceLayout& layout, int64_t begin,
                          int64_t end) {
  using Acc = typename Op::Acc;
  const bool dense = layout.reduced_rank == 1 && layout.reduced[0].in == 1;
  if constexpr (requires(Acc & acc) { op.add_dense(acc, row, begin, end, true); }) {
    if (dense) {
      Acc acc;
      for (int64_t i = begin; i < end; i += kDenseChunk) {
        run_wide<AddDense<Op>>(&op, &acc, row + i, i, std::min(kDenseChunk, end - i), i == begin);
        if ((i & (kLook - 1)) == 0 && !work_wanted()) break;
      }
      return acc;
    }
  }
  if (end - begin < kLeaf) return leaf(op, row, layout, begin, end - begin);
  const auto merge = [](const Acc& a, const Acc& b) { return Op::merge(a, b); };
  Pending<Acc, decltype(merge)> pending(merge);
  for (int64_t i = begin; i < end; i += kLeaf) {
    if (dense && end - i >= kLeaf) {
      Acc v;
      run_wide<WholeLeaf<Op>>(&op, row + i, i, &v);
      pending.push(v);
    } else {
      pending.push(leaf(op, row, layout, i, std::min<int64_t>(kLeaf, end - i)));
    }
    if ((i & (kLook - 1)) == 0 && !work_wanted()) break;
  }
  return pending.result();
}

template <typename Op>
void reduce_rows(const Op& op, void* out, const typename Op::Element* x, const ReduceLayout& layout) {
  using Acc = typename Op::Acc;
  auto base = [&](int64_t output) { return x + offset_of(layout.kept, layout.kept_rank, output, &ReduceAxis::in); };
  auto place = [&](int64_t output) { return offset_of(layout.kept, layout.kept_rank, output, &ReduceAxis::out); };
  if (layout.outputs >= 8 || layout.length <= kPiece) {
    parallel_for(layout.outputs, std::max<int64_t>(1, kPiece / layout.length), [&](int64_t begin, int64_t end) {
      for (int64_t output = begin; output < end; ++output)
        op.finish(out, place(output), row_tree(op, base(output), layout, 0, layout.length));
    });
    return;
  }
  int64_t piece = kPiece;
  while (ceil_div(layout.length, piece) > kMaxPieces) piece *= 2;
  const int64_t pieces = ceil_div(layout.length, piece);
  for (int64_t output = 0; output < layout.outputs; ++output) {
    Acc space[2][kMaxPieces] = {};
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        space[0][i] = row_tree(op, base(output), layout, i * piece, std::min(layout.length, (i + 1) * piece));
    });
    op.finish(out, place(output), tree<Op>(space[0], space[1], pieces));
  }
}

template <typename Op>
struct Tile {
  typename Op::Acc column[kTile];
  static Tile merge(const Tile& a, const Tile& b) {
    Tile r;
    for (int c = 0; c < kTile; ++c) r.column[c] = Op::merge(a.column[c], b.column[c]);
    return r;
  }
};

/// Rows [first, last) of up to kTile columns that lie side by side, each element through load(element, row, column).
template <typename Op, typename T, typename Load>
Tile<Op> tile_tree(const T* x, int64_t stride, int64_t first, int64_t last, int columns, Load&& load) {
  constexpr int kRows = 8;
  Tile<Op> slots[kLevels];
  int64_t count = 0;
  auto push = [&](Tile<Op>& v, int level) {
    for (int64_t n = count >> level; n & 1; n >>= 1) v = Tile<Op>::merge(slots[level++], v);
    slots[level] = v;
  };
  Tile<Op> v{};
  for (int64_t row = first; row < last;) {
    const T* p = x + row * stride;
    if (row + kRows <= last) {
      for (int c = 0; c < columns; ++c) {
        auto at = [&](int r) { return load(p[r * stride + c], row + r, c); };
        v.column[c] = Op::merge(Op::merge(Op::merge(at(0), at(1)), Op::merge(at(2), at(3))),
                                Op::merge(Op::merge(at(4), at(5)), Op::merge(at(6), at(7))));
      }
      push(v, 3);
      count += kRows;
      row += kRows;
      if ((count & (kLook / kTile - 1)) == 0 && !work_wanted()) break;
    } else {
      for (int c = 0; c < columns; ++c) v.column[c] = load(p[c], row, c);
      push(v, 0);
      ++count;
      ++row;
    }
  }
  int level = 0;
  while (!(count >> level & 1)) ++level;
  v = slots[level];
  for (++level; count >> level != 0; ++level)
    if (count >> level & 1) v = Tile<Op>::merge(slots[level], v);
  return v;
}

template <typename Op>
struct TileLoop {
  GPUKIT_ALWAYS_INLINE static void run(const Op* op, const typename Op::Element* x, int64_t stride, int64_t first,
                                       int64_t last, int columns, Tile<Op>* out) {
    if constexpr (requires { op->walk_columns(x, stride, first, last, columns, out->column); })
      op->walk_columns(x, stride, first, last, columns, out->column);
    else
      *out = tile_tree<Op>(x, stride, first, last, columns,
                           [op](const typename Op::Element& v, int64_t row, int) { return op->load(v, row); });
  }
};

/// One reduced axis, and the last kept axis is contiguous.
template <typename Op>
void reduce_columns(const Op& op, void* out, const typename Op::Element* x, const ReduceLayout& layout) {
  const ReduceAxis& across = layout.kept[layout.kept_rank - 1];
  const int64_t stride = layout.reduced[0].in;
  const int64_t tiles = ceil_div(across.size, kTile);
  const int64_t tasks = layout.outputs / across.size * tiles;
  auto walk = [&op, stride](const typename Op::Element* p, int64_t first, int64_t end, int columns) {
    Tile<Op> v;
    run_wide<TileLoop<Op>>(&op, p, stride, first, end, columns, &v);
    return v;
  };
  auto visit = [&](int64_t task, auto&& make) {
    const int64_t column = task % tiles * kTile;
    const int64_t output = task / tiles * across.size + column;
    const int columns = static_cast<int>(std::min<int64_t>(kTile, across.size - column));
    const Tile<Op> v = make(x + offset_of(layout.kept, layout.kept_rank, output, &ReduceAxis::in), columns);
    const int64_t at = offset_of(layout.kept, layout.kept_rank, output, &ReduceAxis::out);
    for (int c = 0; c < columns; ++c) op.finish(out, at + c * across.out, v.column[c]);
  };
  if (tasks >= 8 || layout.length <= kPiece / kTile) {
    parallel_for(tasks, std::max<int64_t>(1, kPiece / kTile / layout.length), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task)
        visit(task, [&](const typename Op::Element* p, int columns) { return walk(p, 0, layout.length, columns); });
    });
    return;
  }
  const int64_t piece = ceil_power(std::max<int64_t>(ceil_div(layout.length, kTilePieces), kPiece / kTile));
  const int64_t pieces = ceil_div(layout.length, piece);
  for (int64_t task = 0; task < tasks; ++task) {
    visit(task, [&](const typename Op::Element* p, int columns) {
      Tile<Op> nodes[2][kTilePieces];
      parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          nodes[0][i] = walk(p, i * piece, std::min(layout.length, (i + 1) * piece), columns);
      });
      struct Whole {
        using Acc = Tile<Op>;
        static Acc merge(const Acc& a, const Acc& b) { return Acc::merge(a, b); }
      };
      return tree<Whole>(nodes[0], nodes[1], pieces);
    });
  }
}

/// Submits the reduction to the device's stream.
template <typename Op>
void submit_reduce(const char* name, const Op& op, const Array& out, const Array& a, const ReduceLayout& layout) {
  runtime::run_host(name, a.device(), {write(out), read(a)}, [op, layout](void* const* p) {
    const auto* x = static_cast<const typename Op::Element*>(p[1]);
    const ReduceAxis& last = layout.kept[layout.kept_rank - 1];
    if (layout.reduced_rank == 1 && layout.reduced[0].in != 1 && last.in == 1 && last.size >= 8)
      reduce_columns(op, p[0], x, layout);
    else
      reduce_rows(op, p[0], x, layout);
  });
}

}  // namespace gpukit::cpu
