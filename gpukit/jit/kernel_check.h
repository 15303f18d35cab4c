// Looking at every built-in kernel without a GPU: compile reports for tests, and the bundle that wheels carry.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpukit/jit/module.h"

namespace gpukit::jit {

struct KernelReport {
  bool cached = false;  // known from an earlier run
  int num_kernels = 0;
  int max_registers = 0;
  int64_t spill_bytes = 0;  // stores and loads of registers that did not fit
  int64_t stack_bytes = 0;  // local memory
  bool serialized = false;  // ptxas could not overlap wgmma instructions
  int sm = 0;               // the image's header
  int abi_version = 0;
  int ptx_version = 0;  // 88 for PTX 8.8
  std::string log;
};

/// Reads the compiler's log and the headers of the image.
KernelReport report_of(const Image& image);

/// A module is compiled for `arch` (`80`, `90a`) unless it is limited to other chips.
bool applies(const Module& module, const std::string& arch);

/// Compiles with the assembler's statistics on; the result is kept in the disk cache by content. Throws NvrtcError.
KernelReport check_module(const Module& module, const std::string& arch);

struct BundleReport {
  int64_t entries = 0, bytes = 0;
};
/// Compiles every built-in module for every arch that applies, and as PTX for the lowest, and writes the bundle.
/// `progress(done, total)` is called by one thread at a time. Throws NvrtcError, FileError.
/// `only` limits it to sources whose name contains the text.
BundleReport build_bundle(const std::string& path, const std::vector<std::string>& archs, int num_threads,
                          const std::string& only, const std::function<void(int64_t, int64_t)>& progress);

}  // namespace gpukit::jit
