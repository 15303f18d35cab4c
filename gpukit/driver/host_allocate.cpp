// Allocations and page-locked memory of the host table.
#include <algorithm>
#include <iterator>

#include "gpukit/base/files.h"
#include "gpukit/driver/host_memory.h"
#include "gpukit/driver/host_state.h"

namespace gpukit::driver::host {

namespace {

size_t machine_memory() {
  int64_t free_bytes = 0, total_bytes = 0;
  files::host_memory(&free_bytes, &total_bytes);
  return static_cast<size_t>(total_bytes);
}

// The system may promise more than it has; this refuses what can never be there.
bool could_exist(size_t bytes) {
  size_t total = machine_memory();
  return total == 0 || bytes <= total;
}

}  // namespace

size_t total_memory() { return state().memory_limit != 0 ? state().memory_limit : machine_memory(); }

bool charge(int device, size_t bytes) {
  if (!could_exist(bytes)) return false;
  size_t& used = state().used[device];
  size_t limit = state().memory_limit;
  if (limit != 0 && (used > limit || bytes > limit - used)) return false;
  used += bytes;
  return true;
}

void uncharge(int device, size_t bytes) { state().used[device] -= bytes; }

namespace {

CUresult memory_allocate(CUdeviceptr* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  Context* context = nullptr;
  if (CUresult code = live_context(&context)) return code;
  if (CUresult code = refuse_while_capturing()) return code;
  if (!charge(context->ordinal, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  void* memory = allocate_aligned(bytes);
  if (memory == nullptr) {
    uncharge(context->ordinal, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = reinterpret_cast<CUdeviceptr>(memory);
  state().memory.emplace(*address, Allocation{bytes, context->ordinal});
  return CUDA_SUCCESS;
}

CUresult memory_free(CUdeviceptr address) {
  if (address == 0) return CUDA_SUCCESS;
  std::lock_guard lock(state().mutex);
  if (CUresult code = refuse_while_capturing()) return code;
  auto found = state().memory.find(address);
  if (found == state().memory.end()) return CUDA_ERROR_INVALID_VALUE;
  uncharge(found->second.device, found->second.bytes);
  state().memory.erase(found);
  release_aligned(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}

CUresult memory_get_info(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  Context* context = nullptr;
  if (CUresult code = live_context(&context)) return code;
  if (size_t limit = state().memory_limit) {
    *free_bytes = limit - std::min(limit, state().used[context->ordinal]);
    *total_bytes = limit;
    return CUDA_SUCCESS;
  }
  int64_t available = 0, total = 0;
  files::host_memory(&available, &total);
  *free_bytes = static_cast<size_t>(available);
  *total_bytes = static_cast<size_t>(total);
  return CUDA_SUCCESS;
}

CUresult pinned_allocate(void** memory, size_t bytes, unsigned) {
  if (memory == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  Context* context = nullptr;
  if (CUresult code = live_context(&context)) return code;
  if (CUresult code = refuse_while_capturing()) return code;
  if (!could_exist(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = allocate_aligned(bytes);
  if (*memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  state().pinned.emplace(reinterpret_cast<CUdeviceptr>(*memory), Pinned{bytes, false});
  return CUDA_SUCCESS;
}

CUresult unpin(void* memory, bool registered, CUresult unknown) {
  std::lock_guard lock(state().mutex);
  if (CUresult code = refuse_while_capturing()) return code;
  auto found = state().pinned.find(reinterpret_cast<CUdeviceptr>(memory));
  if (found == state().pinned.end() || found->second.registered != registered) return unknown;
  state().pinned.erase(found);
  return CUDA_SUCCESS;
}

CUresult pinned_free(void* memory) {
  if (CUresult code = unpin(memory, false, CUDA_ERROR_INVALID_VALUE)) return code;
  release_aligned(memory);
  return CUDA_SUCCESS;
}

CUresult host_register(void* memory, size_t bytes, unsigned) {
  auto first = reinterpret_cast<CUdeviceptr>(memory);
  if (memory == nullptr || bytes == 0 || bytes > UINT64_MAX - first) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  Context* context = nullptr;
  if (CUresult code = live_context(&context)) return code;
  if (CUresult code = refuse_while_capturing()) return code;
  auto& pinned = state().pinned;
  auto after = pinned.lower_bound(first + bytes);  // the first one wholly behind
  if (after != pinned.begin()) {
    auto [start, before] = *std::prev(after);
    if (start + before.bytes > first) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  pinned.emplace(first, Pinned{bytes, true});
  return CUDA_SUCCESS;
}

CUresult host_unregister(void* memory) { return unpin(memory, true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED); }

// Memory that did not come from here is the program's own, which the real driver does not know either.
CUresult pointer_get_attribute(void* value, int attribute, CUdeviceptr address) {
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  auto after = state().pinned.upper_bound(address);
  if (after == state().pinned.begin()) return CUDA_ERROR_INVALID_VALUE;
  auto [first, block] = *std::prev(after);
  if (address - first >= block.bytes) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<unsigned*>(value) = CU_MEMORYTYPE_HOST;
  return CUDA_SUCCESS;
}

}  // namespace

void fill_memory_entries(CudaTable& table) {
  table.cuMemAlloc = memory_allocate;
  table.cuMemFree = memory_free;
  table.cuMemGetInfo = memory_get_info;
  table.cuMemHostAlloc = pinned_allocate;
  table.cuMemFreeHost = pinned_free;
  table.cuMemHostRegister = host_register;
  table.cuMemHostUnregister = host_unregister;
  table.cuPointerGetAttribute = pointer_get_attribute;
}

}  // namespace gpukit::driver::host

namespace gpukit::driver {

void discard_host_memory(CUdeviceptr address, size_t bytes) noexcept {
  host::discard(reinterpret_cast<void*>(address), bytes);
}

void set_host_memory_limit(size_t bytes) {
  std::lock_guard lock(host::state().mutex);
  host::state().memory_limit = bytes;
}

}  // namespace gpukit::driver
