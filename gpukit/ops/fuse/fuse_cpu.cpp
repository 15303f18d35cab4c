#include <algorithm>
#include <cstring>
#include <memory>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/custom/program.h"
#include "gpukit/ops/fuse/fused.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

/// What the intermediate values of a block may take: they stay in a core's first cache.
constexpr int64_t kScratchBytes = 24 << 10;
constexpr int64_t kMostElements = 2048;

/// Where a value lies while a block is computed.
struct Place {
  int operand = -1;  // of the loop: a leaf, or a result that is written where it goes
  int slot = -1;     // else of the scratch
};

struct Work {
  FusedGraph graph;
  custom::Space space;                      // leaves, then results
  std::vector<int> itemsizes;               // of the operands
  std::vector<Place> places;                // of the values
  std::vector<std::pair<int, int>> copies;  // results written after the block: value, operand
  int num_slots = 0, slot_bytes = 1;        // of an element
  int64_t block = kMostElements;

  void run(void* const* p) const;
  void run_row(unsigned char* scratch, int64_t count, unsigned char* const* operands) const;
};

void copy_row(unsigned char* to, int64_t to_step, const unsigned char* from, int64_t from_step, int item,
              int64_t count) {
  if (to_step == 1 && from_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count * item));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * to_step * item, from + i * from_step * item, static_cast<size_t>(item));
}

void Work::run_row(unsigned char* scratch, int64_t count, unsigned char* const* operands) const {
  const int x = space.shape.rank() - 1;
  auto address = [&](const Place& place) {
    return place.operand >= 0 ? operands[place.operand] : scratch + place.slot * block * slot_bytes;
  };
  auto step = [&](const Place& place) {
    return place.operand >= 0 ? space.strides[static_cast<size_t>(place.operand)][x] : 1;
  };
  for (const TraceNode& node : graph.nodes) {
    Row row{.size = count, .p = {}, .step = {}};
    const Place& own = places[static_cast<size_t>(node.value)];
    row.p[0] = address(own);
    row.step[0] = step(own);
    for (int i = 0; i < node.num_inputs; ++i) {
      if (node.inputs[i] < 0) {
        row.p[i + 1] = const_cast<unsigned char*>(node.scalars[i].bytes);
        continue;
      }
      const Place& place = places[static_cast<size_t>(node.inputs[i])];
      row.p[i + 1] = address(place);
      row.step[i + 1] = step(place);
    }
    node.row(row);
  }
  for (const auto& [value, operand] : copies) {
    const Place& from = places[static_cast<size_t>(value)];
    copy_row(operands[operand], space.strides[static_cast<size_t>(operand)][x], address(from), step(from),
             itemsizes[static_cast<size_t>(operand)], count);
  }
}

void Work::run(void* const* p) const {
  const int x = space.shape.rank() - 1;
  const int64_t width = space.shape[x];
  const size_t num_operands = space.strides.size();
  constexpr int64_t kGrain = 16384;
  parallel_for(space.size(), kGrain, [&](int64_t begin, int64_t end) {
    std::vector<ElementBytes> scratch(static_cast<size_t>(
        (num_slots * block * slot_bytes + int64_t{sizeof(ElementBytes)} - 1) / int64_t{sizeof(ElementBytes)}));
    std::vector<unsigned char*> operands(num_operands);
    while (begin < end) {
      const int64_t column = begin % width;
      const int64_t count = std::min({width - column, end - begin, block});
      int64_t at[kMaxRank] = {}, rest = begin / width;
      for (int axis = x - 1; axis >= 0; --axis) {
        at[axis] = rest % space.shape[axis];
        rest /= space.shape[axis];
      }
      at[x] = column;
      for (size_t i = 0; i < num_operands; ++i) {
        int64_t offset = 0;
        for (int axis = 0; axis <= x; ++axis) offset += at[axis] * space.strides[i][axis];
        operands[i] = static_cast<unsigned char*>(p[i]) + offset * itemsizes[i];
      }
      run_row(reinterpret_cast<unsigned char*>(scratch.data()), count, operands.data());
      begin += count;
    }
  });
}

/// Gives each value its place: results go where they belong unless an argument lies there too, the others share slots.
void place_values(Work& work, bool results_apart) {
  const FusedGraph& graph = work.graph;
  const int leaves = graph.num_leaves();
  work.places.resize(graph.dtypes.size());
  for (int i = 0; i < leaves; ++i) work.places[static_cast<size_t>(i)].operand = i;
  for (size_t i = 0; i < graph.results.size(); ++i) {
    const int value = graph.results[i], operand = leaves + static_cast<int>(i);
    Place& place = work.places[static_cast<size_t>(value)];
    if (place.operand < 0 && results_apart)
      place.operand = operand;
    else
      work.copies.emplace_back(value, operand);
  }
  const std::vector<int> last = graph.last_uses();
  std::vector<int> free_slots;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    Place& own = work.places[static_cast<size_t>(node.value)];
    if (own.operand < 0) {
      if (free_slots.empty()) free_slots.push_back(work.num_slots++);
      own.slot = free_slots.back();
      free_slots.pop_back();
      work.slot_bytes = std::max(work.slot_bytes, itemsize(graph.dtypes[static_cast<size_t>(node.value)]));
    }
    // Values that nothing reads from here on leave their slots, each once.
    for (int i = 0; i < node.num_inputs; ++i) {
      const int value = node.inputs[i];
      if (value < 0 || last[static_cast<size_t>(value)] != static_cast<int>(n)) continue;
      const int slot = work.places[static_cast<size_t>(value)].slot;
      if (slot >= 0 && std::find(free_slots.begin(), free_slots.end(), slot) == free_slots.end())
        free_slots.push_back(slot);
    }
  }
}

}  // namespace

void run_fused(const FusedGraph& graph, std::span<const Array> leaves, std::span<const Array> outs) {
  auto work = std::make_shared<Work>();
  work->graph = graph;
  work->space.shape = graph.shape;
  std::vector<memory::Use> uses;
  bool results_apart = true;
  auto add = [&](const Array& array, bool is_result) {
    work->space.strides.push_back(custom::broadcast_strides(&array, graph.shape));
    work->itemsizes.push_back(itemsize(array.dtype()));
    uses.push_back(is_result ? write(array) : read(array));
  };
  for (const Array& leaf : leaves) add(leaf, false);
  for (const Array& out : outs) {
    add(out, true);
    for (const Array& leaf : leaves) results_apart = results_apart && !may_share_memory(out, leaf);
  }
  work->space.merge_axes();
  place_values(*work, results_apart);
  const int64_t bytes = std::max<int64_t>(int64_t{work->num_slots} * work->slot_bytes, 1);
  work->block = std::clamp<int64_t>(kScratchBytes / bytes / 64 * 64, 64, kMostElements);
  runtime::run_host("fused function", outs[0].device(), uses, [work](void* const* p) { work->run(p); });
}

}  // namespace gpukit::cpu
