#include "gpukit/ops/common/map_cpu.h"

#include <algorithm>

#include "gpukit/ops/common/trace.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

void map_rows(const char* name, const Array& out, std::initializer_list<ElementInput> inputs, RowFunction row) {
  if (Trace* trace = current_trace()) [[unlikely]]
    return trace->add(out, inputs, row);
  if (out.size() == 0) return;
  struct Work {
    StridedSpace space;
    int itemsizes[kMaxOperands] = {};
    ElementBytes scalars[kMaxOperands];
    RowFunction row;
  } work;
  memory::Use uses[kMaxOperands] = {write(out)};
  const Array* arrays[kMaxOperands - 1] = {};
  const int count = static_cast<int>(inputs.size());
  work.row = row;
  work.itemsizes[0] = itemsize(out.dtype());
  for (int i = 0; i < count; ++i) {
    const ElementInput& input = inputs.begin()[i];
    arrays[i] = input.array;
    work.scalars[i + 1] = input.scalar;
    if (input.array == nullptr) continue;
    uses[i + 1] = read(*input.array);
    work.itemsizes[i + 1] = itemsize(input.array->dtype());
  }
  work.space = count == 1   ? strided_space(out, {arrays[0]})
               : count == 2 ? strided_space(out, {arrays[0], arrays[1]})
                            : strided_space(out, {arrays[0], arrays[1], arrays[2]});

  runtime::run_host(name, out.device(), std::span<const memory::Use>(uses, count + 1), [work](void* const* p) {
    const StridedSpace& space = work.space;
    const int last = std::max(space.rank - 1, 0);
    for_each_row(space, [&](int64_t n, const int64_t* at) {
      Row run{.size = n, .p = {}, .step = {}};
      for (int i = 0; i < space.num_operands; ++i) {
        const bool scalar = i > 0 && work.itemsizes[i] == 0;
        run.p[i] = scalar ? const_cast<unsigned char*>(work.scalars[i].bytes)
                          : static_cast<unsigned char*>(p[i]) + at[i] * work.itemsizes[i];
        run.step[i] = space.rank == 0 ? 1 : space.strides[i][last];
      }
      work.row(run);
    });
  });
}

}  // namespace gpukit::cpu
