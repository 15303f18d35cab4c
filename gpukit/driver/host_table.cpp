#include "gpukit/driver/host_table.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include "gpukit/base/files.h"
#include "gpukit/base/fork.h"
#include "gpukit/driver/host_state.h"

#if !defined(_WIN32)
#include <fcntl.h>
#include <unistd.h>
#endif

namespace gpukit::driver::host {

namespace {

#if !defined(_WIN32)
// A fork can happen while another thread holds a lock; the child has only the forking thread, so no work is running
// there. Pages are shared with the child until it has copied them: the parent waits, so that it does not change them.
int copied[2] = {-1, -1};  // a pipe whose writing end the child closes when it has its pages

void close_end(int& end) {
  if (end >= 0) close(end);
  end = -1;
}

void before_fork() {
  state().mutex.lock();
  if (state().pages.empty() || pipe(copied) != 0) copied[0] = copied[1] = -1;
  for (int end : copied) {
    if (end >= 0) fcntl(end, F_SETFD, FD_CLOEXEC);
  }
}

void after_fork_parent() {
  close_end(copied[1]);
  char byte = 0;
  while (copied[0] >= 0 && read(copied[0], &byte, 1) < 0 && errno == EINTR) {
  }
  close_end(copied[0]);
  state().mutex.unlock();
}

void after_fork_child() {
  State& s = state();
  for (auto& [handle, stream] : s.streams) new (&stream->run) std::mutex;
  for (auto& context : s.contexts) {
    if (context->legacy != nullptr) new (&context->legacy->run) std::mutex;
  }
  for (auto& [handle, exec] : s.execs) new (&exec->run) std::mutex;
  if (!s.pages.empty()) separate_pages();
  close_end(copied[0]);
  close_end(copied[1]);
  s.mutex.unlock();
}
#endif

}  // namespace

State& state() {
  static State* instance = new State;
  return *instance;
}

Context*& current_context() {
  static thread_local Context* current = nullptr;
  return current;
}

CUresult check_device(CUdevice device) {
  if (!state().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return device >= 0 && device < state().device_count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult live_context(Context** context) {
  *context = current_context();
  return *context != nullptr && (*context)->retained > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

namespace {

constexpr int kDriverVersion = 12000;

struct ErrorName {
  CUresult code;
  const char* name;
};

constexpr ErrorName kErrorNames[] = {
    {0, "CUDA_SUCCESS"},
    {1, "CUDA_ERROR_INVALID_VALUE"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
    {3, "CUDA_ERROR_NOT_INITIALIZED"},
    {4, "CUDA_ERROR_DEINITIALIZED"},
    {100, "CUDA_ERROR_NO_DEVICE"},
    {101, "CUDA_ERROR_INVALID_DEVICE"},
    {200, "CUDA_ERROR_INVALID_IMAGE"},
    {201, "CUDA_ERROR_INVALID_CONTEXT"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM"},
    {400, "CUDA_ERROR_INVALID_HANDLE"},
    {401, "CUDA_ERROR_ILLEGAL_STATE"},
    {500, "CUDA_ERROR_NOT_FOUND"},
    {600, "CUDA_ERROR_NOT_READY"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
    {710, "CUDA_ERROR_ASSERT"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {719, "CUDA_ERROR_LAUNCH_FAILED"},
    {801, "CUDA_ERROR_NOT_SUPPORTED"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {907, "CUDA_ERROR_CAPTURED_EVENT"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"},
    {914, "CUDA_ERROR_INVALID_RESOURCE_TYPE"},
    {915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"},
    {917, "CUDA_ERROR_STREAM_DETACHED"},
    {999, "CUDA_ERROR_UNKNOWN"},
};

CUresult get_error_name(CUresult code, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto found =
      std::find_if(std::begin(kErrorNames), std::end(kErrorNames), [&](const ErrorName& e) { return e.code == code; });
  *name = found == std::end(kErrorNames) ? nullptr : found->name;
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult init(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  state().initialized = true;
  return CUDA_SUCCESS;
}

CUresult driver_get_version(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult device_get_count(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (!state().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  *count = state().device_count;
  return CUDA_SUCCESS;
}

CUresult device_get(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_device(ordinal)) return code;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int length, CUdevice device) {
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_device(device)) return code;
  std::strncpy(name, "CPU Simulation", static_cast<size_t>(length) - 1);
  name[length - 1] = '\0';
  return CUDA_SUCCESS;
}

CUresult device_get_uuid(CUuuid*, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult device_get_pci_bus_id(char*, int, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult device_total_memory(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_device(device)) return code;
  *bytes = total_memory();
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, int attribute, CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_device(device)) return code;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = state().sms > 0 ? state().sms : files::available_cpus();
      break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = pages_supported() ? 1 : 0; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = INT32_MAX; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    default: *value = 0; break;
  }
  return CUDA_SUCCESS;
}

CUresult primary_retain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_device(device)) return code;
  auto& contexts = state().contexts;
  while (contexts.size() <= static_cast<size_t>(device)) {
    auto made = std::make_unique<Context>();
    made->ordinal = static_cast<int>(contexts.size());
    made->legacy = std::make_shared<Stream>();
    made->legacy->context = made.get();
    contexts.push_back(std::move(made));
  }
  Context* found = contexts[device].get();
  ++found->retained;
  *context = reinterpret_cast<CUcontext>(found);
  return CUDA_SUCCESS;
}

// The last release makes the context refuse new work but keeps its memory: views of it may be alive on the CPU.
CUresult primary_release(CUdevice device) {
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_device(device)) return code;
  auto& contexts = state().contexts;
  if (contexts.size() <= static_cast<size_t>(device) || contexts[device]->retained == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  --contexts[device]->retained;
  return CUDA_SUCCESS;
}

CUresult context_get_current(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(current_context());
  return CUDA_SUCCESS;
}

CUresult context_set_current(CUcontext context) {
  if (context == nullptr) {
    current_context() = nullptr;
    return CUDA_SUCCESS;
  }
  std::lock_guard lock(state().mutex);
  for (auto& known : state().contexts) {
    if (reinterpret_cast<CUcontext>(known.get()) != context) continue;
    if (known->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    current_context() = known.get();
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_get_device(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  Context* context = nullptr;
  if (CUresult code = live_context(&context)) return code;
  *device = context->ordinal;
  return CUDA_SUCCESS;
}

CUresult context_synchronize() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    std::lock_guard lock(state().mutex);
    Context* context = nullptr;
    if (CUresult code = live_context(&context)) return code;
    if (CUresult code = refuse_while_capturing()) return code;
    streams.push_back(context->legacy);
    for (auto& [handle, stream] : state().streams) {
      if (stream->context == context) streams.push_back(stream);
    }
  }
  for (auto& stream : streams) std::lock_guard wait(stream->run);
  return CUDA_SUCCESS;
}

template <typename... Arguments>
CUresult not_supported(Arguments...) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

void fill_device_entries(CudaTable& table) {
  table.cuGetErrorName = get_error_name;
  table.cuInit = init;
  table.cuDriverGetVersion = driver_get_version;
  table.cuDeviceGetCount = device_get_count;
  table.cuDeviceGet = device_get;
  table.cuDeviceGetName = device_get_name;
  table.cuDeviceGetUuid = device_get_uuid;
  table.cuDeviceGetPCIBusId = device_get_pci_bus_id;
  table.cuDeviceTotalMem = device_total_memory;
  table.cuDeviceGetAttribute = device_get_attribute;
  table.cuDevicePrimaryCtxRetain = primary_retain;
  table.cuDevicePrimaryCtxRelease = primary_release;
  table.cuCtxGetCurrent = context_get_current;
  table.cuCtxSetCurrent = context_set_current;
  table.cuCtxGetDevice = context_get_device;
  table.cuCtxSynchronize = context_synchronize;
  table.cuLibraryLoadData = not_supported;
  table.cuLibraryUnload = not_supported;
  table.cuLibraryGetKernel = not_supported;
  table.cuKernelGetFunction = not_supported;
  table.cuFuncGetAttribute = not_supported;
  table.cuFuncSetAttribute = not_supported;
  table.cuTensorMapEncodeTiled = not_supported;
  table.cuOccupancyMaxPotentialBlockSize = not_supported;
  table.cuLaunchKernel = not_supported;
  table.cuLaunchKernelEx = not_supported;
  table.cuOccupancyMaxActiveClusters = not_supported;
}

}  // namespace gpukit::driver::host

namespace gpukit::driver {

const CudaTable& host_table() {
  static const CudaTable table = [] {
    CudaTable made;
    host::fill_device_entries(made);
    host::fill_memory_entries(made);
    host::fill_page_entries(made);
    host::fill_green_entries(made);
    host::fill_stream_entries(made);
    host::fill_capture_entries(made);
    return made;
  }();
  return table;
}

namespace {
[[maybe_unused]] const bool g_made_at_load = made_at_load<host_table>();
#if !defined(_WIN32)
[[maybe_unused]] const bool g_held_at_fork =
    at_fork(ForkOrder::driver, host::before_fork, host::after_fork_parent, host::after_fork_child);
#endif
}  // namespace

void set_host_device_count(int count) {
  std::lock_guard lock(host::state().mutex);
  host::state().device_count = std::max(count, 1);
}

}  // namespace gpukit::driver
