#include "gpukit/runtime/capabilities.h"

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"

namespace gpukit::runtime {
namespace {

struct KernelFacts {
  const char* name;
  int min_sm;
  bool tensor_cores;
};

constexpr KernelFacts kFacts[kNumKernelTypes] = {{"FP32_FMA", 60, false}, {"TF32_MMA", 80, true},
                                                 {"FP16_MMA", 70, true},  {"BF16_MMA", 80, true},
                                                 {"L2_NAIVE", 60, false}, {"TILED_SMEM", 60, false}};

const KernelFacts& facts(KernelType type) { return kFacts[static_cast<int>(type)]; }

}  // namespace

const char* name(KernelType type) { return facts(type).name; }
bool uses_tensor_cores(KernelType type) { return facts(type).tensor_cores; }
int min_sm_version(KernelType type) { return facts(type).min_sm; }

DeviceCapabilities::DeviceCapabilities(int version)
    : name(version == 0 ? "CPU" : "SM " + std::to_string(version)), sm_version(version) {
  if (version < 0)
    throw ArgumentError("DeviceCapabilities", "sm_version", "be 0 or more, 90 for SM 9.0", std::to_string(version));
}

DeviceCapabilities DeviceCapabilities::of(Device device) {
  const driver::DeviceProperties& found = properties(device);
  DeviceCapabilities result(found.sm_major * 10 + found.sm_minor);
  result.device_id = device.index;
  result.name = found.name;
  result.total_memory = found.total_memory;
  result.l2_cache_size = found.l2_bytes;
  if (found.shared_per_block > 0) result.shared_mem_per_block = found.shared_per_block;
  result.max_threads_per_block = found.max_threads_per_block;
  result.sm_count = found.sm_count;
  result.warp_size = found.warp_size;
  return result;
}

KernelType DeviceCapabilities::best_matmul_kernel(bool use_tf32, bool dtype_is_fp32, bool large_matrix) const {
  if (dtype_is_fp32) {
    if (use_tf32 && tensorcore()) return KernelType::tf32_mma;
  } else if (tensorcore_bf16()) {
    return KernelType::bf16_mma;
  } else if (tensorcore_fp16()) {
    return KernelType::fp16_mma;
  }
  return large_matrix ? KernelType::tiled_smem : KernelType::l2_naive;
}

}  // namespace gpukit::runtime
