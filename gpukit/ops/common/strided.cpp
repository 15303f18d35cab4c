#include "gpukit/ops/common/strided.h"

#include <algorithm>
#include <cstdlib>

namespace gpukit {

namespace {

/// Axis of `space` moved from `from` to `to`, all operands alike.
void move_axis(StridedSpace& space, int from, int to) {
  auto rotate = [&](int64_t* values) {
    if (from < to)
      std::rotate(values + from, values + from + 1, values + to + 1);
    else
      std::rotate(values + to, values + from, values + from + 1);
  };
  rotate(space.shape);
  for (int i = 0; i < space.num_operands; ++i) rotate(space.strides[i]);
}

bool can_merge(const StridedSpace& space, int outer) {
  for (int i = 0; i < space.num_operands; ++i)
    if (space.strides[i][outer] != space.strides[i][outer + 1] * space.shape[outer + 1]) return false;
  return true;
}

}  // namespace

StridedSpace strided_space(const Array& out, std::initializer_list<const Array*> inputs) {
  StridedSpace space;
  space.size = out.size();
  space.num_operands = 1 + static_cast<int>(inputs.size());

  for (int axis = 0; axis < out.ndim(); ++axis) {
    const int64_t extent = out.shape()[axis];
    if (extent == 1) continue;
    const int at = space.rank++;
    space.shape[at] = extent;
    space.strides[0][at] = out.strides()[axis];
    int operand = 1;
    for (const Array* input : inputs) {
      const int own = input == nullptr ? -1 : axis - (out.ndim() - input->ndim());
      const bool broadcast = own < 0 || input->shape()[own] == 1;
      space.strides[operand++][at] = broadcast ? 0 : input->strides()[own];
    }
  }

  // Insertion sort by the output's step, largest first; equal steps keep their order.
  for (int i = 1; i < space.rank; ++i) {
    int to = i;
    while (to > 0 && std::abs(space.strides[0][to - 1]) < std::abs(space.strides[0][i])) --to;
    if (to != i) move_axis(space, i, to);
  }

  for (int axis = space.rank - 2; axis >= 0; --axis) {
    if (!can_merge(space, axis)) continue;
    space.shape[axis + 1] *= space.shape[axis];
    move_axis(space, axis, space.rank - 1);
    --space.rank;
  }
  return space;
}

}  // namespace gpukit
