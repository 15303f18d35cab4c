// Options of nvcc, as users write them, for NVRTC.
#pragma once

#include <string>
#include <vector>

namespace gpukit::jit {

/// Options that NVRTC has go through as they are. Of those it lacks, nvcc's spellings are translated (`-Xptxas -O1,-v`,
/// `-std c++17`, `-res-usage`), and what concerns the host's compiler, the linker or nvcc itself is passed over
/// (`-O3`, `-Xcompiler -fPIC`, `-gencode ...`) and, when `passed_over` is given, listed there. The rest is left for
/// NVRTC to refuse.
std::vector<std::string> nvrtc_options(const std::vector<std::string>& given,
                                       std::vector<std::string>* passed_over = nullptr);

}  // namespace gpukit::jit
