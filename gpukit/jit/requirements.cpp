#include "gpukit/jit/requirements.h"

#include "gpukit/base/error.h"
#include "gpukit/driver/cuda.h"
#include "gpukit/jit/user_kernel.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/session.h"

namespace gpukit::jit {
namespace {

constexpr Device kFirstGpu{DeviceKind::cuda, 0};

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

bool can_compile_and_launch() {
  try {
    // Where the CPU was chosen, new arrays are not on a GPU.
    const Device device = runtime::current_session().device.value_or(runtime::configured_device());
    if (device.kind != DeviceKind::cuda || !kernels_unavailable_reason().empty()) return false;
    const driver::DeviceProperties& properties = runtime::properties(kFirstGpu);
    return unsupported_arch("sm_" + std::to_string(properties.sm_major * 10 + properties.sm_minor)).empty();
  } catch (const Error&) {
    return false;
  }
}

std::pair<bool, std::string> check_driver_compatibility() {
  if (!runtime::cuda_available()) return {false, runtime::cuda_unavailable_reason()};
  const int version = driver::cuda_driver_version();
  try {
    const driver::DeviceProperties& properties = runtime::properties(kFirstGpu);
    const int sm = properties.sm_major * 10 + properties.sm_minor;
    const int needed = sm >= 100 ? kMinBlackwellDriverVersion : kMinDriverVersion;
    if (version < needed) {
      return {false, "the driver supports CUDA " + version_text(version) + "; SM " + std::to_string(sm) + " needs " +
                         version_text(needed) + " or later: update the NVIDIA driver"};
    }
    return {true, "driver CUDA " + version_text(version) + ", " + properties.name + " (SM " + std::to_string(sm) + ")"};
  } catch (const Error& e) {
    return {false, e.what()};
  }
}

void warm_up_compiler() {
  std::string reason;
  if (!compiler_available(&reason)) throw NvrtcError(kNvrtcNotLoaded, reason);
  UserKernel kernel("__global__ void gpukit_warm_up(int* x) { if (x != nullptr) *x = 1; }\n", "gpukit_warm_up", {}, 32);
  kernel.prepare(kFirstGpu);
}

}  // namespace gpukit::jit
