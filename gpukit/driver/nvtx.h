// NVIDIA's tools extension: names for profilers. Optional; without the library nothing happens.
#pragma once

#include <string>

namespace gpukit::driver {

struct NvtxTable {
  int (*push)(const char* name) = nullptr;
  int (*pop)() = nullptr;
  void (*mark)(const char* name) = nullptr;
};

struct NvtxLibrary {
  const NvtxTable* table = nullptr;  // null: absent
  std::string path;
  std::string reason;  // why it is absent, with what was tried
};

/// Looked for at first use: in the process, NVIDIA's wheels, the system's loader, CUDA_PATH and CUDA_HOME.
const NvtxLibrary& nvtx();
/// For tests: used instead of what is found; null puts that back. Not thread-safe.
void replace_nvtx(const NvtxTable* table);

}  // namespace gpukit::driver
