// The driver's entry points: the host table, with kernels.
#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/driver/host_state.h"
#include "tests/emulator/compile.h"
#include "tests/emulator/launch.h"
#include "tests/emulator/settings.h"
#include "tests/emulator/tensor_map.h"

using namespace gpukit::driver;

namespace emulator {

const Settings& settings() {
  static const auto* made = [] {
    auto text = [](const char* name, const char* otherwise) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr && *value != '\0' ? value : otherwise);
    };
    Dl_info here;
    dladdr(reinterpret_cast<const void*>(&settings), &here);
    return new Settings{text("GPUKIT_EMULATOR_ROOT", "."),
                        text("GPUKIT_EMULATOR_CACHE", "/tmp"),
                        text("GPUKIT_EMULATOR_CXX", "clang++"),
                        here.dli_fname,
                        {std::strtoull(text("GPUKIT_EMULATOR_SEED", "1").c_str(), nullptr, 10),
                         text("GPUKIT_EMULATOR_STRICT", "0") != "0", text("GPUKIT_EMULATOR_EARLY", "0") != "0",
                         std::atoi(text("GPUKIT_EMULATOR_LATE", "-1").c_str())},
                        std::atoi(text("GPUKIT_EMULATOR_SMS", "4").c_str()),
                        std::atoi(text("GPUKIT_EMULATOR_ARCH", "80").c_str())};
  }();
  return *made;
}

namespace {

constexpr int kSharedBytes = 48 * 1024;
int shared_most() { return (settings().arch >= 90 ? 227 : 163) * 1024; }
constexpr CUresult kInvalidImage = 200, kOutOfResources = 701;

struct Function {
  std::string name;
  Entry entry = nullptr;
  std::vector<unsigned> sizes;
  unsigned shared_limit = kSharedBytes;
};

/// Memory of a loaded file, which its code may touch: constants, tables, keys.
void leave_file_unchecked(const char* path) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* path) {
        if (std::strcmp(info->dlpi_name, static_cast<const char*>(path)) != 0) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          leave_unchecked({begin, begin + segment.p_memsz});
        }
        return 1;
      },
      const_cast<char*>(path));
}

/// What kernels may touch now. Blocks of the memory debug mode end where their guards start.
std::vector<Range> memory_of_kernels() {
  constexpr size_t kGuardBytes = 256;
  constexpr unsigned char kGuard = 0xa5;
  host::State& s = host::state();
  std::lock_guard lock(s.mutex);
  std::vector<Range> ranges;
  for (const auto& [address, allocation] : s.memory) {
    Range range{address, address + allocation.bytes};
    const auto* bytes = reinterpret_cast<const unsigned char*>(address);
    if (allocation.bytes > 2 * kGuardBytes &&
        std::all_of(bytes, bytes + kGuardBytes, [](unsigned char b) { return b == kGuard; }))
      range = {range.begin + kGuardBytes, range.end - kGuardBytes};
    ranges.push_back(range);
  }
  for (const auto& [address, mapping] : s.mappings) ranges.push_back({address, address + mapping.bytes});
  for (const auto& [address, pinned] : s.pinned) ranges.push_back({address, address + pinned.bytes});
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& r : ranges)
    if (!joined.empty() && joined.back().end == r.begin)
      joined.back().end = r.end;
    else
      joined.push_back(r);
  return joined;
}

/// Set by a kernel that failed; the next wait or launch gives it.
std::atomic<bool>& failed() {
  static std::atomic<bool> value{false};
  return value;
}
CUresult take_failure() { return failed().exchange(false) ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS; }

/// A launch with its own copy of the arguments: it may run in replays.
struct KeptLaunch {
  Function* function;
  Shape shape;
  std::vector<std::vector<unsigned char>> arguments;
  void operator()() {
    std::vector<void*> values;
    for (auto& bytes : arguments) values.push_back(bytes.data());
    const std::string error =
        launch(function->name.c_str(), function->entry, shape, values.data(), memory_of_kernels(), settings().options);
    if (error.empty()) return;
    std::fprintf(stderr, "emulated kernel: %s\n", error.c_str());
    failed() = true;
  }
};

CUresult load_library(CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  const auto* text = static_cast<const char*>(image);
  const size_t start = std::strlen(kImageStart);
  if (std::strncmp(text, kImageStart, start) != 0) return kInvalidImage;
  void* handle = dlopen(text + start, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    if (const char* why = dlerror()) std::fprintf(stderr, "emulated driver: %s\n", why);
    return kInvalidImage;
  }
  leave_file_unchecked(text + start);
  *library = reinterpret_cast<CUlibrary>(handle);
  return CUDA_SUCCESS;
}
CUresult unload_library(CUlibrary) { return CUDA_SUCCESS; }
CUresult get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
  void* handle = reinterpret_cast<void*>(library);
  const void* address = dlsym(handle, name);
  auto kernels = reinterpret_cast<Kernels>(dlsym(handle, kKernels));
  if (address == nullptr || kernels == nullptr) return CUDA_ERROR_NOT_FOUND;
  const Kernel* found = kernels();
  while (found->address != address && found->address != nullptr) ++found;
  if (found->address == nullptr) return CUDA_ERROR_NOT_FOUND;
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  auto* function = new Function{status == 0 ? plain : name, found->run, {}, kSharedBytes};
  std::free(plain);
  for (const unsigned* size = found->sizes; *size != 0; ++size) function->sizes.push_back(*size);
  *kernel = reinterpret_cast<CUkernel>(function);
  return CUDA_SUCCESS;
}
CUresult get_function(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult function_attribute(int* value, int attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                : 0;
  return CUDA_SUCCESS;
}
CUresult set_function_attribute(CUfunction function, int attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) return CUDA_SUCCESS;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > shared_most())
    return CUDA_ERROR_INVALID_VALUE;
  reinterpret_cast<Function*>(function)->shared_limit = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}
CUresult suggested_block(int* grid, int* block, CUfunction, CUoccupancyB2DSize, size_t, int) {
  *grid = settings().sms;
  *block = 256;
  return CUDA_SUCCESS;
}

CUresult clusters_at_once(int* clusters, CUfunction, const CUlaunchConfig* config) {
  constexpr int kPortableBlocks = 8;  // these run on any chip
  const int blocks = static_cast<int>(config->grid[0]);
  *clusters = std::max(blocks <= kPortableBlocks ? 1 : 0, settings().sms / blocks);
  return CUDA_SUCCESS;
}

CUresult launch_shape(CUfunction handle, const Shape& shape, CUstream stream, void** arguments, void** extra) {
  auto* function = reinterpret_cast<Function*>(handle);
  const Index grid = shape.grid, block = shape.block;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (extra != nullptr || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
      threads == 0 || threads > 1024 || block.z > 64 || shape.shared_bytes > function->shared_limit)
    return CUDA_ERROR_INVALID_VALUE;
  KeptLaunch kept{function, shape, {}};
  for (size_t i = 0; i < function->sizes.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(arguments[i]);
    kept.arguments.emplace_back(bytes, bytes + function->sizes[i]);
  }
  if (CUresult code = host::submit(stream, std::move(kept))) return code;
  return take_failure();
}
CUresult launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,
                       void** extra) {
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch_shape(function, shape, stream, arguments, extra);
}
CUresult launch_kernel_ex(const CUlaunchConfig* c, CUfunction function, void** arguments, void** extra) {
  Shape shape{{c->grid[0], c->grid[1], c->grid[2]}, {c->block[0], c->block[1], c->block[2]}, c->shared_bytes};
  for (unsigned i = 0; i < c->attribute_count; ++i)
    if (c->attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) shape.early = true;
  return launch_shape(function, shape, c->stream, arguments, extra);
}
CUresult encode_tensor_map(void* to, int type, unsigned rank, void* base, const uint64_t* shape,
                           const uint64_t* strides, const unsigned* box, const unsigned* steps, int interleave,
                           int swizzle, int, int) {
  constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  constexpr int kTf32 = 11, kTf32Flushed = 12;
  TensorMap map{};
  const bool known = type >= 0 && type < static_cast<int>(sizeof kBytes) && rank >= 1 && rank <= TensorMap::kMaxRank &&
                     swizzle >= 0 && swizzle <= 3 && interleave == 0;
  if (!known || reinterpret_cast<uintptr_t>(base) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  map.base = static_cast<unsigned char*>(base);
  map.rank = static_cast<uint8_t>(rank);
  map.element_bytes = kBytes[type];
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.to_tf32 = type == kTf32 || type == kTf32Flushed;
  for (unsigned d = 0; d < rank; ++d) {
    if (shape[d] == 0 || shape[d] > 1ull << 32 || box[d] == 0 || box[d] > 256 || steps[d] != 1)
      return CUDA_ERROR_INVALID_VALUE;
    if (d > 0 && (strides[d - 1] % 16 != 0 || strides[d - 1] >= 1ull << 40)) return CUDA_ERROR_INVALID_VALUE;
    map.shape[d] = shape[d];
    map.box[d] = static_cast<uint16_t>(box[d]);
    if (d > 0) map.strides[d - 1] = strides[d - 1];
  }
  const unsigned width = box[0] * map.element_bytes;
  if (width % 16 != 0 || (swizzle != 0 && width > 16u << swizzle)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(to, &map, sizeof map);
  return CUDA_SUCCESS;
}
CUresult launch_graph(CUgraphExec exec, CUstream stream) {
  const CUresult code = host_table().cuGraphLaunch(exec, stream);
  return code != CUDA_SUCCESS ? code : take_failure();
}
CUresult synchronize(CUstream stream) {
  const CUresult code = host_table().cuStreamSynchronize(stream);
  return code != CUDA_SUCCESS ? code : take_failure();
}

CUresult device_name(char* name, int length, CUdevice) {
  std::snprintf(name, static_cast<size_t>(length), "Emulated GPU");
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, int attribute, CUdevice device) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = settings().arch / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = settings().arch % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = settings().sms; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = kSharedBytes; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = shared_most(); break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = shared_most() + 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 40 << 20; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1410000; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1215000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 5120; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = 0; break;
    default: return host_table().cuDeviceGetAttribute(value, attribute, device);
  }
  return CUDA_SUCCESS;
}

const CudaTable& table() {
  static const CudaTable* made = [] {
    leave_file_unchecked(settings().library.c_str());
    auto* table = new CudaTable(host_table());
    table->cuDeviceGetName = device_name;
    table->cuDeviceGetAttribute = device_attribute;
    table->cuLibraryLoadData = load_library;
    table->cuLibraryUnload = unload_library;
    table->cuLibraryGetKernel = get_kernel;
    table->cuKernelGetFunction = get_function;
    table->cuFuncGetAttribute = function_attribute;
    table->cuFuncSetAttribute = set_function_attribute;
    table->cuOccupancyMaxPotentialBlockSize = suggested_block;
    table->cuLaunchKernel = launch_kernel;
    table->cuLaunchKernelEx = launch_kernel_ex;
    table->cuOccupancyMaxActiveClusters = clusters_at_once;
    table->cuTensorMapEncodeTiled = encode_tensor_map;
    table->cuGraphLaunch = launch_graph;
    table->cuStreamSynchronize = synchronize;
    return table;
  }();
  return *made;
}

}  // namespace
}  // namespace emulator

#define EMULATED extern "C" __attribute__((visibility("default")))

EMULATED CUresult cuDriverGetVersion(int* version) { return host_table().cuDriverGetVersion(version); }

EMULATED CUresult cuGetProcAddress_v2(const char* name, void** function, int, uint64_t, int*) {
  const CudaTable& table = emulator::table();
  *function = nullptr;
#define GPUKIT_EMULATED_ENTRY(entry, version, symbol, parameters) \
  if (std::strcmp(name, #entry) == 0) *function = reinterpret_cast<void*>(table.entry);
  GPUKIT_CUDA_FUNCTIONS(GPUKIT_EMULATED_ENTRY)
  GPUKIT_CUDA_OPTIONAL_FUNCTIONS(GPUKIT_EMULATED_ENTRY)
#undef GPUKIT_EMULATED_ENTRY
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
