// The CUDA driver of the machine, opened at run time.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "gpukit/driver/table.h"

namespace gpukit::driver {

/// CUDA 12.0, driver 525.
inline constexpr int kMinDriverVersion = 12000;

/// The driver's entry points, or null when there is none that serves. The first call opens the library; nothing before
/// it does.
const CudaTable* cuda_table();
/// Without a driver: `CUDA driver not detected: ` and every path tried with its reason. With one: its path and version.
std::string cuda_load_report();
/// File of the driver library, empty without one.
std::string cuda_library_path();
/// 12040 for CUDA 12.4; 0 without a driver.
int cuda_driver_version();

/// What opening the driver gave. The process-wide functions above use one made from the system's names.
struct CudaDriver {
  CudaTable table;
  bool usable = false;
  int version = 0;
  std::string path;
  std::string report;
};

/// Tries each name or path in turn. The library stays open for good when it serves.
CudaDriver open_cuda_driver(std::span<const char* const> names);
/// Fills table and version from a library's symbols. Returns the reason when it does not serve, else an empty string.
std::string fill_cuda_table(const std::function<void*(const char*)>& symbol, CudaTable* table, int* version);

}  // namespace gpukit::driver
