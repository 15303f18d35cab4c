// One launch of a compiled kernel, block after block, on the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulator/machine.h"

namespace emulator {

struct Shape {
  Index grid, block;
  unsigned shared_bytes = 0;
  bool early = false;  // see shadow.h
};

struct Options {
  uint64_t seed = 1;    // of the order of threads and blocks, 0: as they are numbered
  bool strict = false;  // see shadow.h
  bool early = false;   // every launch is
  int late = -1;        // the warpgroup of each block that runs when no other thread can
};

using Entry = void (*)(void** arguments);

/// Memory that kernels may touch.
struct Range {
  uintptr_t begin, end;
};

/// Empty, or what the kernel did wrong. `ranges` are sorted. Launches of other threads wait.
std::string launch(const char* name, Entry entry, const Shape& shape, void** arguments, std::vector<Range> ranges,
                   const Options& options);

/// Memory of the emulator or of compiled code, which kernels may touch unchecked.
void leave_unchecked(Range range);

}  // namespace emulator
