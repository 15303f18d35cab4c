// What a machine needs to run and compile kernels, and whether this one has it.
#pragma once

#include <string>
#include <utility>

namespace gpukit::jit {

inline constexpr int kMinDriverVersion = 12000;  // CUDA 12.0, driver 525
inline constexpr int kMinSm = 80;
inline constexpr int kMinBlackwellDriverVersion = 12080;  // CUDA 12.8, driver 570

/// True only where a kernel can be compiled for the first GPU and launched on it.
bool can_compile_and_launch();

/// Whether the driver and the first GPU are served, and one sentence that says so or why not.
std::pair<bool, std::string> check_driver_compatibility();

/// Compiles and loads a trivial kernel, so that the first real one finds the compiler ready. Throws NvrtcError,
/// DeviceError.
void warm_up_compiler();

}  // namespace gpukit::jit
