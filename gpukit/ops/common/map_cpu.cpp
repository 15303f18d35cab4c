#include "gpukit/ops/common/map_cpu.h"

#include <algorithm>

#include "gpukit/ops/common/trace.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

/// Elements that are not worth another thread; of narrow ones as many as make so many bytes.
constexpr int64_t kAlone = 16384, kAloneBytes = 131072;
/// Parts of those that threads take one after the other.
constexpr int64_t kParts = 4;
/// Rows shorter than this are walked across, in tiles that a first-level cache holds.
constexpr int64_t kShortRow = 16, kTileRows = 1024;

/// What is the same wherever a row stands.
struct Operands {
  int count;
  int itemsizes[kMaxOperands] = {};
  ElementBytes scalars[kMaxOperands];
  RowFunction row;

  void* at(void* const* p, int i, int64_t offset) const {
    const bool scalar = i > 0 && itemsizes[i] == 0;
    return scalar ? const_cast<unsigned char*>(scalars[i].bytes)
                  : static_cast<unsigned char*>(p[i]) + offset * itemsizes[i];
  }
  /// Elements that are not worth another thread.
  int64_t alone() const { return std::max(kAlone, kAloneBytes / std::max(itemsizes[0], 1)); }
};

struct Work {
  StridedSpace space;
  Operands operands;
};

/// A space of one axis or none: most calls, and little to keep.
struct Line {
  Operands operands;
  int64_t size, steps[kMaxOperands];

  Line(const StridedSpace& space, const Operands& o) : operands(o), size(space.size) {
    for (int i = 0; i < kMaxOperands; ++i) steps[i] = space.rank == 0 ? 1 : space.strides[i][0];
  }
  void run(void* const* p, int64_t begin, int64_t end) const {
    Row run{.size = end - begin, .p = {}, .step = {}};
    for (int i = 0; i < operands.count; ++i) {
      run.p[i] = operands.at(p, i, begin * steps[i]);
      run.step[i] = steps[i];
    }
    operands.row(run);
  }
};

/// Where the operands stand, in elements.
struct Place {
  int64_t offsets[kMaxOperands] = {};
  void step(const StridedSpace& space, int axis, int64_t count) {
    for (int i = 0; i < space.num_operands; ++i) offsets[i] += count * space.strides[i][axis];
  }
};

/// `n` elements along `axis` from `at`.
void run_row(const Work& work, void* const* p, const Place& at, int axis, int64_t n) {
  Row run{.size = n, .p = {}, .step = {}};
  for (int i = 0; i < work.operands.count; ++i) {
    run.p[i] = work.operands.at(p, i, at.offsets[i]);
    run.step[i] = work.space.strides[i][axis];
  }
  work.operands.row(run);
}

/// Elements [begin, end) in rows along the last axis.
void run_rows(const Work& work, void* const* p, int64_t begin, int64_t end) {
  const StridedSpace& space = work.space;
  const int last = space.rank - 1;
  const int64_t width = space.shape[last];
  int64_t index[kMaxRank] = {};
  Place at;
  int64_t rest = begin;
  for (int axis = last; axis >= 0; --axis) {
    index[axis] = rest % space.shape[axis];
    rest /= space.shape[axis];
    at.step(space, axis, index[axis]);
  }
  while (begin < end) {
    const int64_t n = std::min(width - index[last], end - begin);
    run_row(work, p, at, last, n);
    begin += n;
    at.step(space, last, -index[last]);
    index[last] = 0;
    for (int axis = last - 1; axis >= 0; --axis) {
      at.step(space, axis, 1);
      if (++index[axis] < space.shape[axis]) break;
      at.step(space, axis, -index[axis]);
      index[axis] = 0;
    }
  }
}

/// The two last axes in tiles, each walked along the last but one.
void run_tiles(const Work& work, void* const* p) {
  const StridedSpace& space = work.space;
  const int last = space.rank - 1, along = last - 1;
  const int64_t width = space.shape[last], length = space.shape[along];
  const int64_t tiles = (length + kTileRows - 1) / kTileRows, outer = space.size / (width * length);
  const int64_t grain = std::max<int64_t>(1, kAlone / (std::min(length, kTileRows) * width));
  parallel_for(outer * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % tiles * kTileRows;
      Place at;
      at.step(space, along, first);
      int64_t rest = task / tiles;
      for (int axis = along - 1; axis >= 0; --axis) {
        at.step(space, axis, rest % space.shape[axis]);
        rest /= space.shape[axis];
      }
      for (int64_t column = 0; column < width; ++column) {
        run_row(work, p, at, along, std::min(kTileRows, length - first));
        at.step(space, last, 1);
      }
    }
  });
}

}  // namespace

void map_rows(const char* name, const Array& out, std::initializer_list<ElementInput> inputs, RowFunction row) {
  if (Trace* trace = current_trace()) [[unlikely]]
    return trace->add(out, inputs, row);
  if (out.size() == 0) return;
  Operands operands;
  memory::Use uses[kMaxOperands] = {write(out)};
  const Array* arrays[kMaxOperands - 1] = {};
  const int count = static_cast<int>(inputs.size());
  operands.count = count + 1;
  operands.row = row;
  operands.itemsizes[0] = itemsize(out.dtype());
  for (int i = 0; i < count; ++i) {
    const ElementInput& input = inputs.begin()[i];
    arrays[i] = input.array;
    operands.scalars[i + 1] = input.scalar;
    if (input.array == nullptr) continue;
    uses[i + 1] = read(*input.array);
    operands.itemsizes[i + 1] = itemsize(input.array->dtype());
  }
  const StridedSpace space = count == 1   ? strided_space(out, {arrays[0]})
                             : count == 2 ? strided_space(out, {arrays[0], arrays[1]})
                                          : strided_space(out, {arrays[0], arrays[1], arrays[2]});
  const std::span<const memory::Use> used(uses, count + 1);
  if (space.rank <= 1) {
    runtime::run_host(name, out.device(), used, [line = Line(space, operands)](void* const* p) {
      const int64_t alone = line.operands.alone();
      if (line.size <= alone) return line.run(p, 0, line.size);
      parallel_for(line.size, alone / kParts, [&](int64_t begin, int64_t end) { line.run(p, begin, end); });
    });
    return;
  }
  runtime::run_host(name, out.device(), used, [work = Work{space, operands}](void* const* p) {
    const StridedSpace& s = work.space;
    const int64_t width = s.shape[s.rank - 1], alone = work.operands.alone();
    if (width < kShortRow && s.shape[s.rank - 2] > width) return run_tiles(work, p);
    if (s.size <= alone) return run_rows(work, p, 0, s.size);
    parallel_for(s.size, alone / kParts, [&](int64_t begin, int64_t end) { run_rows(work, p, begin, end); });
  });
}

}  // namespace gpukit::cpu
