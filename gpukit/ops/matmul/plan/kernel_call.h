// A kernel of a plan and how it is launched: what the launch uses is what explain prints.
#pragma once

#include <string>

#include "gpukit/jit/kernel.h"
#include "gpukit/jit/launch.h"

namespace gpukit::cuda {

struct KernelCall {
  const jit::Kernel* kernel;
  jit::LaunchConfig config;

  /// e.g. "gpukit::nvfp4_gemv<gpukit::bfloat16, 16> (nvfp4_gemv.cuh), 132 blocks of 512 threads, 90 KiB of shared
  /// memory"
  std::string str() const;
};

}  // namespace gpukit::cuda
