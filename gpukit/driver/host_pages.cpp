// Pages and addresses apart, on the host table: the CUDA driver's rules over memory that can be mapped twice.
#include <algorithm>
#include <bit>

#include "gpukit/driver/host_state.h"

namespace gpukit::driver::host {

namespace {

using Mappings = std::map<CUdeviceptr, Mapping>;

bool whole_pages(size_t bytes) { return bytes != 0 && bytes % kPageBytes == 0; }
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// For calls that change something. Needs the lock.
CUresult ready() {
  if (!state().initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!pages_supported()) return CUDA_ERROR_NOT_SUPPORTED;
  return refuse_while_capturing();
}

CUresult check_properties(const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return check_device(properties->location.id);
}

CUresult granularity(size_t* bytes, const CUmemAllocationProp* properties, int option) {
  if (bytes == nullptr || option < CU_MEM_ALLOC_GRANULARITY_MINIMUM || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_properties(properties)) return code;
  if (!pages_supported()) return CUDA_ERROR_NOT_SUPPORTED;
  *bytes = kPageBytes;
  return CUDA_SUCCESS;
}

CUresult create(CUmemHandle* handle, size_t bytes, const CUmemAllocationProp* properties, unsigned long long flags) {
  if (handle == nullptr || flags != 0 || !whole_pages(bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = ready()) return code;
  if (CUresult code = check_properties(properties)) return code;
  Pages made;
  made.device = properties->location.id;
  if (!charge(made.device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!create_block(bytes, &made.block)) {
    uncharge(made.device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = state().next_pages++;
  state().pages.emplace(*handle, made);
  return CUDA_SUCCESS;
}

void drop_if_unused(CUmemHandle handle) {
  auto found = state().pages.find(handle);
  const Pages& pages = found->second;
  if (!pages.released || pages.mappings > 0) return;
  release_block(pages.block);
  uncharge(pages.device, pages.block.bytes);
  state().pages.erase(found);
}

// The pages of a handle that was not released; null for a bad one.
Pages* find_pages(CUmemHandle handle) {
  auto found = state().pages.find(handle);
  return found == state().pages.end() || found->second.released ? nullptr : &found->second;
}

CUresult release(CUmemHandle handle) {
  std::lock_guard lock(state().mutex);
  if (CUresult code = ready()) return code;
  Pages* pages = find_pages(handle);
  if (pages == nullptr) return CUDA_ERROR_INVALID_VALUE;
  pages->released = true;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

CUresult reserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long flags) {
  if (address == nullptr || flags != 0 || !whole_pages(bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (alignment != 0 && !std::has_single_bit(alignment)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = ready()) return code;
  void* got = reserve_addresses(bytes, std::max(alignment, kPageBytes));
  if (got == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(got);
  state().ranges.emplace(*address, bytes);
  return CUDA_SUCCESS;
}

// Whether anything is mapped in a range inside a reservation.
bool any_mapped(CUdeviceptr address, size_t bytes) {
  auto after = state().mappings.lower_bound(address + bytes);
  if (after == state().mappings.begin()) return false;
  auto& [start, mapping] = *std::prev(after);
  return start + mapping.bytes > address;
}

CUresult free_range(CUdeviceptr address, size_t bytes) {
  std::lock_guard lock(state().mutex);
  if (CUresult code = ready()) return code;
  auto found = state().ranges.find(address);
  if (found == state().ranges.end() || found->second != bytes || any_mapped(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  release_addresses(pointer(address), bytes);
  state().ranges.erase(found);
  return CUDA_SUCCESS;
}

bool reserved(CUdeviceptr address, size_t bytes) {
  auto after = state().ranges.upper_bound(address);
  if (after == state().ranges.begin()) return false;
  auto [start, length] = *std::prev(after);
  CUdeviceptr offset = address - start;
  return offset < length && bytes <= length - offset;
}

// The system maps them when access is given: until then they are as unreadable as a bare reservation.
CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemHandle handle, unsigned long long flags) {
  if (flags != 0 || offset != 0 || address % kPageBytes != 0 || !whole_pages(bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = ready()) return code;
  Pages* pages = find_pages(handle);
  if (pages == nullptr || bytes > pages->block.bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!reserved(address, bytes) || any_mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  state().mappings.emplace(address, Mapping{bytes, handle, PageAccess::none});
  ++pages->mappings;
  return CUDA_SUCCESS;
}

// The mappings that fill a range exactly, from `first` up to `last`; false when one is cut or something is missing.
bool find_whole(CUdeviceptr address, size_t bytes, Mappings::iterator* first, Mappings::iterator* last) {
  *first = *last = state().mappings.find(address);
  CUdeviceptr next = address, end = address + bytes;
  while (next < end) {
    if (*last == state().mappings.end() || (*last)->first != next) return false;
    next += (*last)->second.bytes;
    ++*last;
  }
  return bytes != 0 && next == end;
}

CUresult unmap(CUdeviceptr address, size_t bytes) {
  std::lock_guard lock(state().mutex);
  if (CUresult code = ready()) return code;
  Mappings::iterator first, last;
  if (!find_whole(address, bytes, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  bool shown = false;
  for (auto it = first; it != last; ++it) shown = shown || it->second.access != PageAccess::none;
  if (shown && !hide_block(pointer(address), bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  while (first != last) {
    CUmemHandle handle = first->second.pages;
    first = state().mappings.erase(first);
    --state().pages.at(handle).mappings;
    drop_if_unused(handle);
  }
  return CUDA_SUCCESS;
}

CUresult access_of(const CUmemAccessDesc& description, PageAccess* access) {
  if (description.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  switch (description.flags) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE: *access = PageAccess::none; break;
    case CU_MEM_ACCESS_FLAGS_PROT_READ: *access = PageAccess::read; break;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE: *access = PageAccess::read_write; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return check_device(description.location.id);
}

// All devices of this table are the same CPU, so the last description is the one that counts.
CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions, size_t count) {
  if (descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = ready()) return code;
  PageAccess access = PageAccess::none;
  for (size_t i = 0; i < count; ++i) {
    if (CUresult code = access_of(descriptions[i], &access)) return code;
  }
  Mappings::iterator first, last;
  if (!find_whole(address, bytes, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  for (; first != last; ++first) {
    auto& [start, mapping] = *first;
    if (mapping.access == access) continue;
    if (!show_block(pointer(start), mapping.bytes, state().pages.at(mapping.pages).block, access))
      return CUDA_ERROR_OUT_OF_MEMORY;
    mapping.access = access;
  }
  return CUDA_SUCCESS;
}

}  // namespace

void separate_pages() {
  leave_files();
  std::unordered_map<CUmemHandle, PageBlock> parents;
  for (auto& [handle, pages] : state().pages) {
    parents.emplace(handle, pages.block);
    if (!copy_block(parents[handle], &pages.block)) pages.block.file = -1;
  }
  for (auto& [start, mapping] : state().mappings) {
    if (mapping.access == PageAccess::none) continue;
    const PageBlock& block = state().pages.at(mapping.pages).block;
    if (block.file < 0 || !show_block(pointer(start), mapping.bytes, block, mapping.access))
      show_private(pointer(start), mapping.bytes, parents[mapping.pages]);
  }
  for (auto& [handle, block] : parents) forget_block(block);
}

void fill_page_entries(CudaTable& table) {
  table.cuMemGetAllocationGranularity = granularity;
  table.cuMemCreate = create;
  table.cuMemRelease = release;
  table.cuMemAddressReserve = reserve;
  table.cuMemAddressFree = free_range;
  table.cuMemMap = map;
  table.cuMemUnmap = unmap;
  table.cuMemSetAccess = set_access;
}

}  // namespace gpukit::driver::host
