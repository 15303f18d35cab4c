// Pages, address ranges, page-locking and green contexts behind FakeDriver. None of them is deferred.
#include <iterator>
#include <mutex>

#include "gpukit/driver/host_table.h"
#include "tests/support/fake_state.h"

namespace gpukit::testing {

using namespace gpukit::driver;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

// An entry of the host table whose success changes a count.
template <auto Member, int Live::*Kind, int Change>
struct Counted;

template <typename... Arguments, CUresult (*CudaTable::*Member)(Arguments...), int Live::*Kind, int Change>
struct Counted<Member, Kind, Change> {
  static CUresult call(Arguments... arguments) {
    Lock lock(fake_state().mutex);
    return counted((host_table().*Member)(arguments...), Kind, Change);
  }
};

CUresult map(CUdeviceptr address, size_t bytes, size_t offset, CUmemHandle handle, unsigned long long flags) {
  Lock lock(fake_state().mutex);
  CUresult code = host_table().cuMemMap(address, bytes, offset, handle, flags);
  if (code == CUDA_SUCCESS) fake_state().mapped.insert(address);
  return counted(code, &Live::mappings, 1);
}

// One call may take several mappings away.
CUresult unmap(CUdeviceptr address, size_t bytes) {
  Lock lock(fake_state().mutex);
  CUresult code = host_table().cuMemUnmap(address, bytes);
  if (code != CUDA_SUCCESS) return code;
  auto& mapped = fake_state().mapped;
  auto first = mapped.lower_bound(address), last = mapped.lower_bound(address + bytes);
  fake_state().live.mappings -= static_cast<int>(std::distance(first, last));
  mapped.erase(first, last);
  return code;
}

}  // namespace

void fill_page_entries(CudaTable& behind) {
  behind.cuMemHostRegister = Counted<&CudaTable::cuMemHostRegister, &Live::registrations, 1>::call;
  behind.cuMemHostUnregister = Counted<&CudaTable::cuMemHostUnregister, &Live::registrations, -1>::call;
  behind.cuMemCreate = Counted<&CudaTable::cuMemCreate, &Live::pages, 1>::call;
  behind.cuMemRelease = Counted<&CudaTable::cuMemRelease, &Live::pages, -1>::call;
  behind.cuMemAddressReserve = Counted<&CudaTable::cuMemAddressReserve, &Live::ranges, 1>::call;
  behind.cuMemAddressFree = Counted<&CudaTable::cuMemAddressFree, &Live::ranges, -1>::call;
  behind.cuMemMap = map;
  behind.cuMemUnmap = unmap;
  behind.cuGreenCtxCreate = Counted<&CudaTable::cuGreenCtxCreate, &Live::green, 1>::call;
  behind.cuGreenCtxDestroy = Counted<&CudaTable::cuGreenCtxDestroy, &Live::green, -1>::call;
}

}  // namespace gpukit::testing
