// Pretend SMs and green contexts of the host table. Their streams run like all others; they remember where they belong.
#include <algorithm>
#include <cstring>

#include "gpukit/driver/host_state.h"

namespace gpukit::driver::host {

namespace {

constexpr int kGrain = 8;

// What a resource of this table says about itself in the part no program reads.
struct SmRange {
  uint64_t split;  // 0: all SMs of the device, not split
  int device, first, count;
};

CUdevResource resource_of(const SmRange& range) {
  CUdevResource resource{};
  if (range.count == 0) return resource;
  resource.type = CU_DEV_RESOURCE_TYPE_SM;
  resource.sm_count = static_cast<unsigned>(range.count);
  std::memcpy(resource.internal, &range, sizeof range);
  return resource;
}

SmRange range_of(const CUdevResource& resource) {
  SmRange range;
  std::memcpy(&range, resource.internal, sizeof range);
  return range;
}

CUresult get_resource(CUdevice device, CUdevResource* resource, int type) {
  if (resource == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  if (CUresult code = check_device(device)) return code;
  if (state().sms == 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  *resource = resource_of({0, device, 0, state().sms});
  return CUDA_SUCCESS;
}

CUresult split(CUdevResource* groups, unsigned* count, const CUdevResource* input, CUdevResource* remainder,
               unsigned flags, unsigned min_count) {
  if (count == nullptr || input == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (input->type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  if (min_count > input->sm_count) return CUDA_ERROR_INVALID_VALUE;
  SmRange all = range_of(*input);
  if (all.split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  int each = std::max(kGrain, (static_cast<int>(min_count) + kGrain - 1) / kGrain * kGrain);
  auto possible = static_cast<unsigned>(all.count / each);
  *count = groups == nullptr ? possible : std::min(*count, possible);
  std::lock_guard lock(state().mutex);
  uint64_t id = groups == nullptr ? 0 : state().next_split++;
  for (unsigned i = 0; groups != nullptr && i < *count; ++i)
    groups[i] = resource_of({id, all.device, static_cast<int>(i) * each, each});
  int taken = static_cast<int>(*count) * each;
  if (remainder != nullptr) *remainder = resource_of({id, all.device, taken, all.count - taken});
  return CUDA_SUCCESS;
}

CUresult describe(CUdevResourceDesc* description, CUdevResource* resources, unsigned count) {
  if (description == nullptr || resources == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  std::vector<int> sms;
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    SmRange range = range_of(resources[i]), first = range_of(resources[0]);
    bool same = range.split == first.split && range.device == first.device;
    if (!same || (count > 1 && range.split == 0)) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    for (int sm = range.first; sm < range.first + range.count; ++sm) sms.push_back(sm);
  }
  std::sort(sms.begin(), sms.end());
  if (std::adjacent_find(sms.begin(), sms.end()) != sms.end()) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  auto made = std::make_shared<const SmSet>(SmSet{range_of(resources[0]).device, std::move(sms)});
  std::lock_guard lock(state().mutex);
  *description = reinterpret_cast<CUdevResourceDesc>(const_cast<SmSet*>(made.get()));
  state().descriptions.emplace(made.get(), made);
  return CUDA_SUCCESS;
}

CUresult green_create(CUgreenCtx* handle, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  if (handle == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  CUcontext primary = nullptr;
  if (CUresult code = host_table().cuDevicePrimaryCtxRetain(&primary, device)) return code;
  {
    std::lock_guard lock(state().mutex);
    std::shared_ptr<const SmSet> set = find(state().descriptions, description);
    if (set != nullptr && set->device == device) {
      auto green = std::make_shared<Green>(Green{set, false});
      *handle = reinterpret_cast<CUgreenCtx>(green.get());
      state().greens.emplace(green.get(), green);
      return CUDA_SUCCESS;
    }
  }
  host_table().cuDevicePrimaryCtxRelease(device);
  return CUDA_ERROR_INVALID_VALUE;
}

// Streams that are left can only be destroyed, and their captures are lost.
CUresult green_destroy(CUgreenCtx handle) {
  std::shared_ptr<Green> green;
  {
    std::lock_guard lock(state().mutex);
    green = find(state().greens, handle);
    if (green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    green->destroyed = true;
    for (auto& [key, stream] : state().streams) {
      if (stream->green == green && stream->capture != nullptr) stream->capture->invalidated = true;
    }
    state().greens.erase(handle);
  }
  return host_table().cuDevicePrimaryCtxRelease(green->sms->device);
}

CUresult green_stream_create(CUstream* handle, CUgreenCtx green_handle, unsigned flags, int priority) {
  if (handle == nullptr || flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto stream = std::make_shared<Stream>();
  stream->priority = std::clamp(priority, -5, 0);
  std::lock_guard lock(state().mutex);
  stream->green = find(state().greens, green_handle);
  if (stream->green == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stream->context = state().contexts[stream->green->sms->device].get();
  *handle = reinterpret_cast<CUstream>(stream.get());
  state().streams.emplace(stream.get(), stream);
  return CUDA_SUCCESS;
}

}  // namespace

void fill_green_entries(CudaTable& table) {
  table.cuDeviceGetDevResource = get_resource;
  table.cuDevSmResourceSplitByCount = split;
  table.cuDevResourceGenerateDesc = describe;
  table.cuGreenCtxCreate = green_create;
  table.cuGreenCtxDestroy = green_destroy;
  table.cuGreenCtxStreamCreate = green_stream_create;
}

}  // namespace gpukit::driver::host

namespace gpukit::driver {

void set_host_sms(int count) {
  std::lock_guard lock(host::state().mutex);
  host::state().sms = std::max(count, 0);
}

CUgreenCtx host_stream_green(CUstream stream) {
  std::lock_guard lock(host::state().mutex);
  std::shared_ptr<host::Stream> found = host::find(host::state().streams, stream);
  return found == nullptr ? nullptr : reinterpret_cast<CUgreenCtx>(found->green.get());
}

std::vector<int> host_green_sms(CUgreenCtx green) {
  std::lock_guard lock(host::state().mutex);
  std::shared_ptr<host::Green> found = host::find(host::state().greens, green);
  return found == nullptr ? std::vector<int>() : found->sms->numbers;
}

}  // namespace gpukit::driver
