// What kernels a chip can run.
#pragma once

#include <cstdint>
#include <string>

#include "gpukit/base/device.h"

namespace gpukit::runtime {

/// A way to compute a matrix product.
enum class KernelType : uint8_t { fp32_fma, tf32_mma, fp16_mma, bf16_mma, l2_naive, tiled_smem };
inline constexpr int kNumKernelTypes = 6;

/// FP32_FMA, ...
const char* name(KernelType type);
bool uses_tensor_cores(KernelType type);
/// The oldest chip that has what the kernel needs, e.g. 80.
int min_sm_version(KernelType type);

/// From the SM version alone (90 for compute capability 9.0; 0 is the CPU), or of a device.
struct DeviceCapabilities {
  explicit DeviceCapabilities(int sm_version = 86);
  /// Throws DeviceError.
  static DeviceCapabilities of(Device device);

  int device_id = 0;
  std::string name;
  int sm_version = 0;
  int64_t total_memory = 0, l2_cache_size = 0;
  int64_t shared_mem_per_block = 49152;
  int max_threads_per_block = 1024;
  int sm_count = 0;
  int warp_size = 32;

  bool tensorcore() const { return sm_version >= 80; }  // TF32
  bool tensorcore_fp16() const { return sm_version >= 70; }
  bool tensorcore_bf16() const { return sm_version >= 80; }
  bool async_copy() const { return sm_version >= 80; }
  bool supports_kernel(KernelType type) const { return sm_version >= min_sm_version(type); }
  /// float32 is exact unless TF32 is asked for.
  KernelType best_matmul_kernel(bool use_tf32, bool dtype_is_fp32, bool large_matrix) const;
};

}  // namespace gpukit::runtime
