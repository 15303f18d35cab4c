#include "gpukit/ops/matmul/plan/kernel_call.h"

#include "gpukit/jit/module.h"

namespace gpukit::cuda {

std::string KernelCall::str() const {
  const std::string& source = kernel->module()->source();
  std::string blocks = std::to_string(config.grid_x);
  if (config.grid_y > 1) blocks += " x " + std::to_string(config.grid_y);
  std::string text = std::string(kernel->name()) + " (" + source.substr(source.rfind('/') + 1) + "), " + blocks +
                     " blocks of " + std::to_string(config.block_x) + " threads";
  if (config.shared_bytes > 0) text += ", " + std::to_string(config.shared_bytes) + " bytes of shared memory";
  return text;
}

}  // namespace gpukit::cuda
