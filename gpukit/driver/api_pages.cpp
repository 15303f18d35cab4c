// Api: page-locking, pages and addresses apart, green contexts.
#include <algorithm>
#include <cstring>

#include "gpukit/base/error.h"
#include "gpukit/driver/api.h"
#include "gpukit/driver/table.h"

namespace gpukit::driver {

namespace {

static_assert(sizeof(SmGroup::resource) == sizeof(CUdevResource));
static_assert(alignof(SmGroup) >= alignof(CUdevResource));

CUmemLocation current_location(const Api& api) {
  CUdevice device = 0;
  api.check(api.table().cuCtxGetDevice(&device), "cuCtxGetDevice");
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

CUmemAllocationProp page_properties(const Api& api) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = current_location(api);
  return properties;
}

bool has_green_entries(const CudaTable& table) {
  bool all = true;
#define GPUKIT_HAS_ENTRY(name, version, symbol, parameters) all = all && table.name != nullptr;
  GPUKIT_CUDA_OPTIONAL_FUNCTIONS(GPUKIT_HAS_ENTRY)
#undef GPUKIT_HAS_ENTRY
  return all;
}

SmGroup group_of(const CUdevResource& resource) {
  SmGroup group;
  std::memcpy(group.resource, &resource, sizeof resource);
  group.sm_count = resource.type == CU_DEV_RESOURCE_TYPE_SM ? static_cast<int>(resource.sm_count) : 0;
  return group;
}

}  // namespace

void Api::register_host(void* memory, size_t bytes) const {
  check(table_->cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
        "cuMemHostRegister");
}

int Api::unregister_host(void* memory) const noexcept { return table_->cuMemHostUnregister(memory); }

size_t Api::page_granularity() const {
  CUmemAllocationProp properties = page_properties(*this);
  size_t bytes = 0;
  check(table_->cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
        "cuMemGetAllocationGranularity");
  return bytes;
}

PageHandle Api::create_pages(size_t bytes) const {
  CUmemAllocationProp properties = page_properties(*this);
  PageHandle pages = 0;
  check(table_->cuMemCreate(&pages, bytes, &properties, 0), "cuMemCreate");
  return pages;
}

int Api::release_pages(PageHandle pages) const noexcept { return table_->cuMemRelease(pages); }

Address Api::reserve_range(size_t bytes) const {
  Address address = 0;
  check(table_->cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
  return address;
}

int Api::free_range(Address address, size_t bytes) const noexcept { return table_->cuMemAddressFree(address, bytes); }

void Api::map_pages(Address address, size_t bytes, PageHandle pages) const {
  check(table_->cuMemMap(address, bytes, 0, pages, 0), "cuMemMap");
}

int Api::unmap_pages(Address address, size_t bytes) const noexcept { return table_->cuMemUnmap(address, bytes); }

void Api::allow_access(Address address, size_t bytes) const {
  CUmemAccessDesc access{current_location(*this), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  check(table_->cuMemSetAccess(address, bytes, &access, 1), "cuMemSetAccess");
}

bool Api::has_green_contexts(int ordinal) const noexcept {
  CUdevice device = 0;
  CUdevResource all{};
  return has_green_entries(*table_) && table_->cuDeviceGet(&device, ordinal) == CUDA_SUCCESS &&
         table_->cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS && all.sm_count > 0;
}

SmGroups Api::split_sms(int ordinal, int min_count) const {
  if (min_count < 0) throw ArgumentError("split_sms", "min_count", "be 0 or more", std::to_string(min_count));
  if (!has_green_entries(*table_)) fail(CUDA_ERROR_NOT_SUPPORTED, "cuDeviceGetDevResource");
  CUdevice device = 0;
  check(table_->cuDeviceGet(&device, ordinal), "cuDeviceGet");
  CUdevResource all{}, remainder{};
  check(table_->cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM), "cuDeviceGetDevResource");
  auto least = static_cast<unsigned>(min_count);
  unsigned count = 0;
  check(table_->cuDevSmResourceSplitByCount(nullptr, &count, &all, nullptr, 0, least), "cuDevSmResourceSplitByCount");
  std::vector<CUdevResource> made(count);
  check(table_->cuDevSmResourceSplitByCount(made.data(), &count, &all, &remainder, 0, least),
        "cuDevSmResourceSplitByCount");
  made.resize(std::min<size_t>(count, made.size()));
  SmGroups result;
  for (const CUdevResource& resource : made) result.groups.push_back(group_of(resource));
  result.remainder = group_of(remainder);
  return result;
}

GreenHandle Api::create_green_context(std::span<const SmGroup> groups) const {
  if (groups.empty()) throw ArgumentError("create_green_context", "groups", "hold at least one group", "none");
  if (!has_green_entries(*table_)) fail(CUDA_ERROR_NOT_SUPPORTED, "cuGreenCtxCreate");
  std::vector<CUdevResource> resources(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) std::memcpy(&resources[i], groups[i].resource, sizeof resources[i]);
  CUdevResourceDesc description = nullptr;
  check(table_->cuDevResourceGenerateDesc(&description, resources.data(), static_cast<unsigned>(resources.size())),
        "cuDevResourceGenerateDesc");
  GreenHandle green = nullptr;
  int device = current_location(*this).id;
  check(table_->cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM), "cuGreenCtxCreate");
  return green;
}

void Api::destroy_green_context(GreenHandle green) const noexcept { table_->cuGreenCtxDestroy(green); }

StreamHandle Api::create_green_stream(GreenHandle green, int priority) const {
  StreamHandle stream = nullptr;
  check(table_->cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, priority), "cuGreenCtxStreamCreate");
  return stream;
}

}  // namespace gpukit::driver
