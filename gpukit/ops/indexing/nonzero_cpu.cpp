#include <algorithm>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/indexing/indexed_space.cuh"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

struct CountFlags {
  GPUKIT_ALWAYS_INLINE static void run(int64_t* count, const uint8_t* flags, int64_t n) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) found += flags[i] != 0 ? 1 : 0;
    *count = found;
  }
};

/// Writes the places of those of `n` flags that are set, and one more that means nothing. Gives how many are.
int64_t find_flags(int64_t* places, const uint8_t* flags, int64_t first, int64_t n) {
  int64_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    places[found] = first + i;
    found += flags[i] != 0 ? 1 : 0;
  }
  return found;
}

}  // namespace

void count_flags(const Array& counts, const Array& flags) {
  const int64_t size = flags.size(), num_blocks = counts.size() - 1;
  runtime::run_host("nonzero", flags.device(), {write(counts), read(flags)}, [=](void* const* p) {
    auto* count = static_cast<int64_t*>(p[0]);
    const auto* flag = static_cast<const uint8_t*>(p[1]);
    parallel_for(num_blocks, 16, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kFlagsPerBlock;
        const int64_t last = first + kFlagsPerBlock < size ? first + kFlagsPerBlock : size;
        run_wide<CountFlags>(count + block, flag + first, last - first);
      }
    });
    int64_t before = 0;
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int64_t found = count[block];
      count[block] = before;
      before += found;
    }
    count[num_blocks] = before;
  });
}

void write_coordinates(const Array& coordinates, const Array& flags, const Array& counts) {
  const int64_t size = flags.size(), num_blocks = counts.size() - 1, num_true = coordinates.shape(1);
  const Dims shape = flags.shape();
  runtime::run_host("nonzero", flags.device(), {write(coordinates), read(flags), read(counts)}, [=](void* const* p) {
    auto* out = static_cast<int64_t*>(p[0]);
    const auto* flag = static_cast<const uint8_t*>(p[1]);
    const auto* before = static_cast<const int64_t*>(p[2]);
    parallel_for(num_blocks, 16, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kFlagsPerBlock;
        const int64_t last = first + kFlagsPerBlock < size ? first + kFlagsPerBlock : size;
        int64_t places[kFlagsPerBlock + 1], at = before[block];
        const int64_t found = find_flags(places, flag + first, first, last - first);
        if (shape.rank() == 1) {
          std::copy_n(places, found, out + at);
          continue;
        }
        for (int64_t i = 0; i < found; ++i, ++at) {
          int64_t rest = places[i];
          for (int axis = shape.rank() - 1; axis > 0; --axis) {
            out[axis * num_true + at] = rest % shape[axis];
            rest /= shape[axis];
          }
          out[at] = rest;
        }
      }
    });
  });
}

}  // namespace gpukit::cpu
