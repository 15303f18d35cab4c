// Compilation by NVRTC, and the key that names a result.
#pragma once

#include <string>
#include <vector>

#include "gpukit/jit/embedded.h"
#include "gpukit/jit/image.h"

namespace gpukit::jit {

struct CompileRequest {
  std::string name;                        // for messages: the kernel or the source file
  std::string file = "kernel.cu";          // what the compiler calls the program
  std::string source;                      // the program
  std::vector<const EmbeddedFile*> files;  // what it may include
  std::string arch;                        // `sm_90a`: a cubin; `compute_80`: PTX
  std::vector<std::string> options;        // in order, without the arch
  std::vector<std::string> expressions;    // names of the kernels, templates with their arguments
  bool keep_ptx = false;
};

struct CompilerVersion {
  int major = 0, minor = 0;
};

/// SHA-256 over format version, compiler version, arch, options, expressions, program and files, each length-prefixed.
Key key_of(const CompileRequest& request, CompilerVersion compiler);

/// NVRTC could be loaded. `reason` says what was looked for and where when it could not.
bool compiler_available(std::string* reason = nullptr);
/// Throws NvrtcError (code 1000) starting `NVRTC JIT compiler not available`.
CompilerVersion compiler_version();
/// Empty when this NVRTC can make code for `arch`, else why not.
std::string unsupported_arch(const std::string& arch);

/// Throws NvrtcError with the code, and the whole log of the compiler.
Image compile(const CompileRequest& request);

/// What built-in kernels are compiled with, apart from the arch.
const std::vector<std::string>& builtin_options();

/// NvrtcErrorCode's names: `Compilation`, `NotLoaded`, ...
const char* error_code_name(int code);
inline constexpr int kNvrtcCompilation = 6;
inline constexpr int kNvrtcInternalError = 11;
inline constexpr int kNvrtcNotLoaded = 1000;
inline constexpr int kNvrtcPtxLoadFailed = 1001;
inline constexpr int kNvrtcFunctionNotFound = 1002;
inline constexpr int kNvrtcLaunchFailed = 1003;

}  // namespace gpukit::jit
