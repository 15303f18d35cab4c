#include "gpukit/driver/cuda.h"

#include <cstdlib>
#include <vector>

#include "gpukit/base/env.h"
#include "gpukit/driver/dynlib.h"
#include "gpukit/driver/library_search.h"

namespace gpukit::driver {

namespace {

#if defined(_WIN32)
constexpr const char* kDriverNames[] = {"nvcuda.dll"};
#elif defined(__APPLE__)
constexpr std::span<const char* const> kDriverNames;
#else
constexpr const char* kDriverNames[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
#endif

constexpr const char* kNotDetected = "CUDA driver not detected: ";

using GetProcAddress = CUresult (*)(const char* symbol, void** function, int version, uint64_t flags, int* status);

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Launches on many streams share hardware queues; the driver reads this once, when it starts.
void set_max_connections() {
  if (env::get("CUDA_DEVICE_MAX_CONNECTIONS")) return;
#if defined(_WIN32)
  _putenv_s("CUDA_DEVICE_MAX_CONNECTIONS", "32");
#else
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
#endif
}

const CudaDriver& driver() {
  static const CudaDriver* instance = [] {
    set_max_connections();
    return new CudaDriver(open_cuda_driver(kDriverNames));
  }();
  return *instance;
}

}  // namespace

std::string fill_cuda_table(const std::function<void*(const char*)>& symbol, CudaTable* table, int* version) {
  table->cuDriverGetVersion = reinterpret_cast<decltype(table->cuDriverGetVersion)>(symbol("cuDriverGetVersion"));
  if (table->cuDriverGetVersion == nullptr) return "has no cuDriverGetVersion";
  if (CUresult code = table->cuDriverGetVersion(version))
    return "cuDriverGetVersion failed with code " + std::to_string(code);
  if (*version < kMinDriverVersion) {
    return "serves CUDA " + version_text(*version) + ", needed is " + version_text(kMinDriverVersion) +
           " (driver 525) or newer";
  }
  // Asked for the version whose signature we declare: a newer driver may give the plain name another signature.
  auto get_proc_address = reinterpret_cast<GetProcAddress>(symbol("cuGetProcAddress_v2"));
  auto find = [&](const char* name, int wanted, const char* exported) -> void* {
    void* function = nullptr;
    int status = 0;
    if (get_proc_address != nullptr &&
        get_proc_address(name, &function, wanted, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) == CUDA_SUCCESS &&
        function != nullptr) {
      return function;
    }
    return symbol(exported);
  };
#define GPUKIT_CUDA_FIND(name, wanted, exported, parameters)                            \
  table->name = reinterpret_cast<decltype(table->name)>(find(#name, wanted, exported)); \
  if (table->name == nullptr) return "has no " #name;
  GPUKIT_CUDA_FUNCTIONS(GPUKIT_CUDA_FIND)
#undef GPUKIT_CUDA_FIND
#define GPUKIT_CUDA_FIND_OPTIONAL(name, wanted, exported, parameters) \
  table->name = *version < wanted ? nullptr : reinterpret_cast<decltype(table->name)>(find(#name, wanted, exported));
  GPUKIT_CUDA_OPTIONAL_FUNCTIONS(GPUKIT_CUDA_FIND_OPTIONAL)
#undef GPUKIT_CUDA_FIND_OPTIONAL
  return {};
}

CudaDriver open_cuda_driver(std::span<const char* const> names) {
  CudaDriver driver;
  std::vector<LibraryAttempt> attempts;
  for (const char* name : names) {
    std::string reason;
    Dynlib library = Dynlib::open(name, &reason);
    if (library)
      reason =
          fill_cuda_table([&](const char* symbol) { return library.symbol(symbol); }, &driver.table, &driver.version);
    if (library && reason.empty()) {
      driver.usable = true;
      driver.path = library.path();
      driver.report = driver.path + ", CUDA " + version_text(driver.version);
      library.leak();
      return driver;
    }
    attempts.push_back({library ? library.path() : name, reason});
  }
  driver.table = {};
  driver.version = 0;
  driver.report = kNotDetected + (names.empty() ? "this system has no CUDA" : str(attempts));
  return driver;
}

const CudaTable* cuda_table() { return driver().usable ? &driver().table : nullptr; }
std::string cuda_load_report() { return driver().report; }
std::string cuda_library_path() { return driver().path; }
int cuda_driver_version() { return driver().version; }

}  // namespace gpukit::driver
