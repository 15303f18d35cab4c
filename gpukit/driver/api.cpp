#include "gpukit/driver/api.h"

#include <cstdio>
#include <cstring>

#include "gpukit/base/error.h"
#include "gpukit/driver/table.h"

namespace gpukit::driver {

std::string Api::error_name(int code) const {
  const char* name = nullptr;
  if (table_->cuGetErrorName(code, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "CUDA_ERROR_" + std::to_string(code);
}

void Api::fail(int code, const char* call) const { throw CudaError(call, code, error_name(code)); }

void Api::init() const { check(table_->cuInit(0), "cuInit"); }

int Api::driver_version() const {
  int version = 0;
  check(table_->cuDriverGetVersion(&version), "cuDriverGetVersion");
  return version;
}

int Api::device_count() const {
  int count = 0;
  check(table_->cuDeviceGetCount(&count), "cuDeviceGetCount");
  return count;
}

namespace {

/// CUtensorMapDataType: what is copied; types of the same width are the same to the copy engine.
int box_type(const BoxLayout& layout) {
  if (layout.to_tf32) return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  switch (itemsize(layout.dtype)) {
    case 1: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case 2: return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case 4: return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT64;
  }
}

std::string uuid_text(const char* kind, const CUuuid& uuid) {
  char text[64];
  unsigned char b[16];
  std::memcpy(b, uuid.bytes, sizeof b);
  std::snprintf(text, sizeof text, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", kind,
                b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return text;
}

}  // namespace

DeviceProperties Api::properties(int ordinal) const {
  DeviceProperties p;
  CUdevice device = 0;
  check(table_->cuDeviceGet(&device, ordinal), "cuDeviceGet");
  char text[256] = {};
  check(table_->cuDeviceGetName(text, sizeof text - 1, device), "cuDeviceGetName");
  p.name = text;
  CUuuid uuid{};
  int code = table_->cuDeviceGetUuid(&uuid, device);
  if (code == CUDA_SUCCESS) {
    // A MIG instance has an identity of its own.
    p.uuid = uuid_text(p.name.find(" MIG ") == std::string::npos ? "GPU" : "MIG", uuid);
  } else if (code != CUDA_ERROR_NOT_SUPPORTED) {
    fail(code, "cuDeviceGetUuid");
  }
  char bus[32] = {};
  code = table_->cuDeviceGetPCIBusId(bus, sizeof bus - 1, device);
  if (code == CUDA_SUCCESS) {
    p.pci_bus = bus;
  } else if (code != CUDA_ERROR_NOT_SUPPORTED) {
    fail(code, "cuDeviceGetPCIBusId");
  }
  size_t bytes = 0;
  check(table_->cuDeviceTotalMem(&bytes, device), "cuDeviceTotalMem");
  p.total_memory = static_cast<int64_t>(bytes);
  auto attribute = [&](int which) {
    int value = 0;
    check(table_->cuDeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  p.sm_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.sm_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  p.sm_count = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  p.max_threads_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  p.max_threads_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  p.warp_size = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  p.shared_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  p.shared_per_block_optin = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  p.shared_per_sm = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p.registers_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  p.l2_bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  p.clock_khz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  p.memory_clock_khz = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  p.memory_bus_bits = attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  p.copy_engines = attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  p.max_grid[0] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  p.max_grid[1] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  p.max_grid[2] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  p.vmm = attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0;
  p.cooperative = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 0;
  return p;
}

ContextHandle Api::retain_primary(int ordinal) const {
  CUdevice device = 0;
  check(table_->cuDeviceGet(&device, ordinal), "cuDeviceGet");
  ContextHandle context = nullptr;
  check(table_->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  return context;
}

void Api::release_primary(int ordinal) const noexcept {
  CUdevice device = 0;
  if (table_->cuDeviceGet(&device, ordinal) == CUDA_SUCCESS) table_->cuDevicePrimaryCtxRelease(device);
}

void Api::make_current(ContextHandle context) const {
  ContextHandle current = nullptr;
  check(table_->cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current != context) check(table_->cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

void Api::synchronize_context() const { check(table_->cuCtxSynchronize(), "cuCtxSynchronize"); }

Address Api::allocate(size_t bytes) const {
  Address address = 0;
  check(table_->cuMemAlloc(&address, bytes), "cuMemAlloc");
  return address;
}

int Api::release(Address address) const noexcept { return table_->cuMemFree(address); }

void Api::memory_info(size_t* free_bytes, size_t* total_bytes) const {
  check(table_->cuMemGetInfo(free_bytes, total_bytes), "cuMemGetInfo");
}

void* Api::allocate_pinned(size_t bytes) const {
  void* memory = nullptr;
  check(table_->cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP), "cuMemHostAlloc");
  return memory;
}

void Api::release_pinned(void* memory) const noexcept { table_->cuMemFreeHost(memory); }

bool Api::is_page_locked(const void* memory) const noexcept {
  unsigned type = 0;
  auto address = reinterpret_cast<CUdeviceptr>(memory);
  return table_->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_HOST;
}

void Api::copy_async(void* dst_host, Address dst, const void* src_host, Address src, size_t bytes, CopyKind kind,
                     StreamHandle stream) const {
  switch (kind) {
    case CopyKind::host_to_device:
      return check(table_->cuMemcpyHtoDAsync(dst, src_host, bytes, stream), "cuMemcpyHtoDAsync");
    case CopyKind::device_to_host:
      return check(table_->cuMemcpyDtoHAsync(dst_host, src, bytes, stream), "cuMemcpyDtoHAsync");
    case CopyKind::device_to_device:
      return check(table_->cuMemcpyDtoDAsync(dst, src, bytes, stream), "cuMemcpyDtoDAsync");
  }
}

void Api::fill_async(Address dst, int value_bytes, uint32_t value, size_t count, StreamHandle stream) const {
  switch (value_bytes) {
    case 1:
      return check(table_->cuMemsetD8Async(dst, static_cast<unsigned char>(value), count, stream), "cuMemsetD8Async");
    case 2:
      return check(table_->cuMemsetD16Async(dst, static_cast<unsigned short>(value), count, stream),
                   "cuMemsetD16Async");
    case 4: return check(table_->cuMemsetD32Async(dst, value, count, stream), "cuMemsetD32Async");
    default: throw ArgumentError("fill", "value_bytes", "be 1, 2 or 4", std::to_string(value_bytes));
  }
}

StreamHandle Api::create_stream(int priority) const {
  StreamHandle stream = nullptr;
  check(table_->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, priority), "cuStreamCreateWithPriority");
  return stream;
}

void Api::destroy_stream(StreamHandle stream) const noexcept { table_->cuStreamDestroy(stream); }

void Api::synchronize_stream(StreamHandle stream) const {
  check(table_->cuStreamSynchronize(stream), "cuStreamSynchronize");
}

bool Api::query_stream(StreamHandle stream) const {
  int code = table_->cuStreamQuery(stream);
  if (code == CUDA_ERROR_NOT_READY) return false;
  check(code, "cuStreamQuery");
  return true;
}

void Api::wait_event(StreamHandle stream, EventHandle event) const {
  check(table_->cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
}

void Api::launch_host(StreamHandle stream, void (*function)(void*), void* argument) const {
  check(table_->cuLaunchHostFunc(stream, function, argument), "cuLaunchHostFunc");
}

EventHandle Api::create_event(bool timing, bool blocking) const {
  EventHandle event = nullptr;
  unsigned flags = (timing ? 0 : CU_EVENT_DISABLE_TIMING) | (blocking ? CU_EVENT_BLOCKING_SYNC : 0);
  check(table_->cuEventCreate(&event, flags), "cuEventCreate");
  return event;
}

void Api::destroy_event(EventHandle event) const noexcept { table_->cuEventDestroy(event); }

void Api::record_event(EventHandle event, StreamHandle stream) const {
  check(table_->cuEventRecord(event, stream), "cuEventRecord");
}

void Api::synchronize_event(EventHandle event) const { check(table_->cuEventSynchronize(event), "cuEventSynchronize"); }

bool Api::query_event(EventHandle event) const {
  int code = table_->cuEventQuery(event);
  if (code == CUDA_ERROR_NOT_READY) return false;
  check(code, "cuEventQuery");
  return true;
}

float Api::elapsed_ms(EventHandle start, EventHandle stop) const {
  float milliseconds = 0;
  check(table_->cuEventElapsedTime(&milliseconds, start, stop), "cuEventElapsedTime");
  return milliseconds;
}

void Api::begin_capture(StreamHandle stream) const {
  check(table_->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "cuStreamBeginCapture");
}

GraphHandle Api::end_capture(StreamHandle stream) const {
  GraphHandle graph = nullptr;
  check(table_->cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  return graph;
}

CaptureInfo Api::capture_info(StreamHandle stream) const {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  CaptureInfo info;
  check(table_->cuStreamGetCaptureInfo(stream, &status, &info.id, nullptr, nullptr, nullptr), "cuStreamGetCaptureInfo");
  info.status = static_cast<CaptureStatus>(status);
  if (info.status == CaptureStatus::none) info.id = 0;
  return info;
}

int Api::relax_capture() const {
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  check(table_->cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
  return mode;
}

void Api::restore_capture(int mode) const noexcept { table_->cuThreadExchangeStreamCaptureMode(&mode); }

GraphExecHandle Api::instantiate(GraphHandle graph) const {
  GraphExecHandle exec = nullptr;
  check(table_->cuGraphInstantiateWithFlags(&exec, graph, 0), "cuGraphInstantiateWithFlags");
  return exec;
}

void Api::launch_graph(GraphExecHandle graph, StreamHandle stream) const {
  check(table_->cuGraphLaunch(graph, stream), "cuGraphLaunch");
}

size_t Api::graph_nodes(GraphHandle graph) const {
  size_t count = 0;
  check(table_->cuGraphGetNodes(graph, nullptr, &count), "cuGraphGetNodes");
  return count;
}

void Api::destroy_graph(GraphHandle graph) const noexcept { table_->cuGraphDestroy(graph); }
void Api::destroy_graph_exec(GraphExecHandle graph) const noexcept { table_->cuGraphExecDestroy(graph); }

LibraryHandle Api::load_library(const void* image) const {
  LibraryHandle library = nullptr;
  check(table_->cuLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0), "cuLibraryLoadData");
  return library;
}

void Api::unload_library(LibraryHandle library) const noexcept { table_->cuLibraryUnload(library); }

FunctionHandle Api::get_function(LibraryHandle library, const char* lowered_name) const {
  CUkernel kernel = nullptr;
  check(table_->cuLibraryGetKernel(&kernel, library, lowered_name), "cuLibraryGetKernel");
  FunctionHandle function = nullptr;
  check(table_->cuKernelGetFunction(&function, kernel), "cuKernelGetFunction");
  return function;
}

FunctionAttributes Api::attributes(FunctionHandle function) const {
  auto attribute = [&](int which) {
    int value = 0;
    check(table_->cuFuncGetAttribute(&value, which, function), "cuFuncGetAttribute");
    return value;
  };
  FunctionAttributes a;
  a.max_threads = attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  a.registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  a.shared_bytes = attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  a.local_bytes = attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  a.constant_bytes = attribute(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  return a;
}

void Api::set_max_dynamic_shared(FunctionHandle function, int bytes) const {
  check(table_->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes),
        "cuFuncSetAttribute");
}

int Api::suggested_block_size(FunctionHandle function, size_t dynamic_shared) const {
  int grid = 0, block = 0;
  check(table_->cuOccupancyMaxPotentialBlockSize(&grid, &block, function, nullptr, dynamic_shared, 0),
        "cuOccupancyMaxPotentialBlockSize");
  return block;
}

BoxMap Api::make_box_map(const BoxLayout& layout, Address address) const {
  BoxMap map;
  constexpr int kMaxRank = BoxLayout::kMaxRank;
  uint64_t shape[kMaxRank], strides[kMaxRank - 1];
  unsigned box[kMaxRank], steps[kMaxRank];
  for (int i = 0; i < kMaxRank; ++i) {
    shape[i] = static_cast<uint64_t>(layout.shape[i]);
    box[i] = static_cast<unsigned>(layout.box[i]);
    steps[i] = 1;
    if (i > 0) strides[i - 1] = static_cast<uint64_t>(layout.strides[i - 1]);
  }
  check(table_->cuTensorMapEncodeTiled(&map, box_type(layout), static_cast<unsigned>(layout.rank),
                                       reinterpret_cast<void*>(address), shape, strides, box, steps,
                                       CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<int>(layout.swizzle),
                                       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "cuTensorMapEncodeTiled");
  return map;
}

int Api::launch(FunctionHandle function, const LaunchShape& shape, StreamHandle stream,
                void** arguments) const noexcept {
  if (shape.overlaps && table_->cuLaunchKernelEx != nullptr) {
    CUlaunchAttribute overlap = {
        .id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .padding = 0, .value = {1}};
    const CUlaunchConfig config = {.grid = {shape.grid[0], shape.grid[1], shape.grid[2]},
                                   .block = {shape.block[0], shape.block[1], shape.block[2]},
                                   .shared_bytes = shape.shared_bytes,
                                   .stream = stream,
                                   .attributes = &overlap,
                                   .attribute_count = 1};
    return table_->cuLaunchKernelEx(&config, function, arguments, nullptr);
  }
  return table_->cuLaunchKernel(function, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
                                shape.block[2], shape.shared_bytes, stream, arguments, nullptr);
}

bool is_sticky(int code) {
  switch (code) {
    case 4:    // DEINITIALIZED
    case 214:  // ECC_UNCORRECTABLE
    case 220:  // NVLINK_UNCORRECTABLE
    case 226:  // CONTAINED
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 709:  // CONTEXT_IS_DESTROYED
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
    case 721:  // TENSOR_MEMORY_LEAK
    case 810:  // MPS_CLIENT_TERMINATED
    case 911:  // EXTERNAL_DEVICE
      return true;
    default: return false;
  }
}

}  // namespace gpukit::driver
