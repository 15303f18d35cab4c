// The environment variables of the library. All are read once, at the first use of any; a value that is not valid
// raises ArgumentError with the valid ones whenever that variable is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/base/device.h"
#include "gpukit/base/log.h"

namespace gpukit::env {

enum class Determinism : uint8_t { not_guaranteed, run_to_run, batch_invariant };

/// PYGPUKIT_DEVICE. `explicit_index` is false for plain `cuda`.
struct DeviceChoice {
  Device device;
  bool explicit_index = false;
};
std::optional<DeviceChoice> device();

/// PYGPUKIT_NVRTC: `off`, or the path of a library; empty path when unset.
struct NvrtcChoice {
  bool off = false;
  std::string path;
};
NvrtcChoice nvrtc();

/// PYGPUKIT_CACHE_DIR; empty when unset.
std::string cache_dir();
/// PYGPUKIT_CACHE_MAX_MB, 1024 when unset.
int64_t cache_max_mb();
/// False for PYGPUKIT_CACHE=off.
bool cache_enabled();

/// PYGPUKIT_ALLOW_TF32 and not PYGPUKIT_NO_TF32.
bool allow_tf32();
bool no_cublaslt();
/// PYGPUKIT_PREFER_CUBLASLT and not PYGPUKIT_NO_CUBLASLT.
bool prefer_cublaslt();
/// PYGPUKIT_DETERMINISM, run_to_run when unset.
Determinism determinism();
const char* name(Determinism level);
/// PYGPUKIT_LOG; nullopt when unset.
std::optional<LogLevel> log_level();
bool launch_blocking();
bool memory_debug();
/// PYGPUKIT_NUM_THREADS, 0 when unset.
int num_threads();
bool require_gpu();
std::string assets();
bool require_assets();

/// Every variable of the table above, in its order. For `info`.
struct Variable {
  const char* name;
  const char* meaning;
  const char* valid;
  std::optional<std::string> value;  // nullopt: not set
};
std::vector<Variable> list();

/// Throws ArgumentError for the first variable whose value is not valid. Opening a device calls it, so that a typo in a
/// variable that is read late, or where nothing may be thrown, is found early.
void check();

/// Any other variable (HOME, CUDA_PATH, ...), read now. An empty value counts as unset.
std::optional<std::string> get(const char* name);

/// For tests: the next use reads the environment again.
void reread();

}  // namespace gpukit::env
