#include "gpukit/driver/nvrtc.h"

#include <algorithm>
#include <mutex>

#include "gpukit/base/env.h"
#include "gpukit/base/files.h"
#include "gpukit/driver/cuda.h"
#include "gpukit/driver/dynlib.h"

namespace gpukit::driver {

namespace {

constexpr const char* kNotAvailable = "NVRTC JIT compiler not available: ";

std::string fill(const Dynlib& library, NvrtcTable* table) {
#define GPUKIT_NVRTC_FIND(name)                                                 \
  table->name = reinterpret_cast<decltype(table->name)>(library.symbol(#name)); \
  if (table->name == nullptr) return "has no " #name;
  GPUKIT_NVRTC_FIND(nvrtcVersion)
  GPUKIT_NVRTC_FIND(nvrtcGetNumSupportedArchs)
  GPUKIT_NVRTC_FIND(nvrtcGetSupportedArchs)
  GPUKIT_NVRTC_FIND(nvrtcGetErrorString)
  GPUKIT_NVRTC_FIND(nvrtcCreateProgram)
  GPUKIT_NVRTC_FIND(nvrtcDestroyProgram)
  GPUKIT_NVRTC_FIND(nvrtcAddNameExpression)
  GPUKIT_NVRTC_FIND(nvrtcCompileProgram)
  GPUKIT_NVRTC_FIND(nvrtcGetLoweredName)
  GPUKIT_NVRTC_FIND(nvrtcGetCUBINSize)
  GPUKIT_NVRTC_FIND(nvrtcGetCUBIN)
  GPUKIT_NVRTC_FIND(nvrtcGetPTXSize)
  GPUKIT_NVRTC_FIND(nvrtcGetPTX)
  GPUKIT_NVRTC_FIND(nvrtcGetProgramLogSize)
  GPUKIT_NVRTC_FIND(nvrtcGetProgramLog)
#undef GPUKIT_NVRTC_FIND
  return {};
}

// NVRTC opens its builtins by bare name at the first compilation; loading them first makes that find the right file.
std::string open_builtins(const std::string& nvrtc_path, NvrtcVersion version) {
  std::string name = nvrtc_builtins_name(version.major, version.minor);
  Dynlib builtins = Dynlib::find_loaded(name);
  std::string reason;
  size_t slash = nvrtc_path.find_last_of("/\\");
  if (!builtins && slash != std::string::npos) builtins = Dynlib::open(nvrtc_path.substr(0, slash + 1) + name, &reason);
  if (!builtins) builtins = Dynlib::open(name, nullptr);
  if (!builtins) return name + " is not beside it" + (reason.empty() ? "" : ": " + reason);
  builtins.leak();
  return {};
}

std::vector<int> supported_archs(const NvrtcTable& table) {
  int count = 0;
  if (table.nvrtcGetNumSupportedArchs(&count) != 0 || count <= 0) return {};
  std::vector<int> archs(static_cast<size_t>(count));
  if (table.nvrtcGetSupportedArchs(archs.data()) != 0) return {};
  std::sort(archs.begin(), archs.end());
  return archs;
}

bool knows_a_chip(const std::vector<int>& archs, const std::vector<int>& chips) {
  return chips.empty() || std::any_of(chips.begin(), chips.end(),
                                      [&](int chip) { return std::binary_search(archs.begin(), archs.end(), chip); });
}

// Empty when the candidate serves; then `found` is complete.
std::string try_candidate(const LibraryCandidate& candidate, const NvrtcSearch& search, NvrtcLibrary* found) {
  std::string reason;
  Dynlib library = candidate.loaded ? Dynlib::find_loaded(candidate.path) : Dynlib::open(candidate.path, &reason);
  if (!library) return candidate.loaded ? "not loaded in this process" : reason;
  NvrtcLibrary made;
  if (reason = fill(library, &made.table); !reason.empty()) return reason;
  if (made.table.nvrtcVersion(&made.version.major, &made.version.minor) != 0) return "does not tell its version";
  if (search.driver_major != 0 && made.version.major > search.driver_major) {
    return "CUDA " + std::to_string(made.version.major) + " is newer than the driver's " +
           std::to_string(search.driver_major);
  }
  made.archs = supported_archs(made.table);
  if (!knows_a_chip(made.archs, search.chips)) return "does not know SM " + std::to_string(search.chips.front());
  if (reason = open_builtins(library.path(), made.version); !reason.empty()) return reason;
  made.path = library.path();
  made.place = candidate.place;
  made.usable = true;
  library.leak();
  *found = std::move(made);
  return {};
}

std::vector<int> chips_present() {
  const CudaTable* cuda = cuda_table();
  int count = 0;
  if (cuda == nullptr || cuda->cuInit(0) != CUDA_SUCCESS || cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS) return {};
  std::vector<int> chips;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    int major = 0, minor = 0;
    if (cuda->cuDeviceGet(&device, i) != CUDA_SUCCESS) continue;
    if (cuda->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS)
      continue;
    if (cuda->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS)
      continue;
    chips.push_back(major * 10 + minor);
  }
  return chips;
}

NvrtcSearch search_this_machine() {
  NvrtcSearch search;
  env::NvrtcChoice choice = env::nvrtc();
  search.off = choice.off;
  search.only = choice.path;
  search.driver_major = cuda_driver_version() / 1000;
  search.chips = chips_present();
  if (!search.off && search.only.empty()) search.candidates = library_candidates(NvidiaLibrary::nvrtc, &search.missing);
  return search;
}

struct Cached {
  std::mutex mutex;
  const NvrtcLibrary* library = nullptr;  // never deleted once usable: callers hold its table
  uint64_t site_version = 0;
};

const NvrtcLibrary& library() {
  static Cached* cached = new Cached;
  std::lock_guard lock(cached->mutex);
  uint64_t site_version = site_packages_version();
  if (cached->library == nullptr || (!cached->library->usable && cached->site_version != site_version)) {
    auto* opened = new NvrtcLibrary(open_nvrtc(search_this_machine()));
    cached->library = opened;
    cached->site_version = site_version;
  }
  return *cached->library;
}

}  // namespace

NvrtcLibrary open_nvrtc(const NvrtcSearch& search) {
  NvrtcLibrary found;
  if (search.off) {
    found.reason = std::string(kNotAvailable) + "PYGPUKIT_NVRTC is off";
    return found;
  }
  std::vector<LibraryCandidate> candidates = search.candidates;
  if (!search.only.empty()) candidates = {{"PYGPUKIT_NVRTC", search.only, 0, false}};
  std::vector<LibraryAttempt> attempts = search.missing;
  for (const LibraryCandidate& candidate : candidates) {
    std::string reason = try_candidate(candidate, search, &found);
    if (reason.empty()) return found;
    attempts.push_back({candidate.path, reason});
  }
  const char* package = search.driver_major >= 13 ? "nvidia-cuda-nvrtc" : "nvidia-cuda-nvrtc-cu12";
  found.reason = kNotAvailable + str(attempts) + "; to get it: pip install " + package;
  return found;
}

const NvrtcTable* nvrtc(std::string* reason) {
  const NvrtcLibrary& found = library();
  if (!found.usable && reason != nullptr) *reason = found.reason;
  return found.usable ? &found.table : nullptr;
}

NvrtcVersion nvrtc_version() { return library().version; }
std::string nvrtc_path() { return library().path; }
std::string nvrtc_place() { return library().place; }
std::vector<int> nvrtc_archs() { return library().archs; }

}  // namespace gpukit::driver
