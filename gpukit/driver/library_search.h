// Where NVIDIA's libraries may be. A place holds one consistent set: NVRTC, its builtins and cuBLASLt of one CUDA
// major. Order: already in the process, wheels in site-packages, CONDA_PREFIX, the system's loader, CUDA_PATH and
// CUDA_HOME.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpukit::driver {

enum class NvidiaLibrary : uint8_t { nvrtc, cublaslt };

/// Something that was tried and why it did not serve.
struct LibraryAttempt {
  std::string path;
  std::string reason;
};

/// `tried a (reason), b (reason)`; `nothing to try` for an empty list.
std::string str(std::span<const LibraryAttempt> attempts);

struct LibraryCandidate {
  std::string place;  // the same text for every library of one set: "site-packages /x/nvidia/cu13", "CUDA_PATH /y", ...
  std::string path;   // a file that exists, or a bare name
  int major = 0;
  bool loaded = false;  // only if the process has it already
};

/// Where Python packages are installed, searched in this order. The Python package calls it once when it is imported.
void set_site_packages(std::vector<std::string> folders);
std::vector<std::string> site_package_folders();
/// Grows with each set_site_packages, so that a failed search can be repeated.
uint64_t site_packages_version();

/// Everything worth trying for `library`, in order, newest CUDA major first within a place. Files that a place should
/// have but has not are added to `missing`.
std::vector<LibraryCandidate> library_candidates(NvidiaLibrary library, std::vector<LibraryAttempt>* missing);

/// `libnvrtc.so.12`, `nvrtc64_120_0.dll`, ...
std::string library_file_name(NvidiaLibrary library, int major);
/// `libnvrtc-builtins.so.12.9`, `nvrtc-builtins64_129.dll`.
std::string nvrtc_builtins_name(int major, int minor);

}  // namespace gpukit::driver
