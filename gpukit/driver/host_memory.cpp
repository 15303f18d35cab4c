#include "gpukit/driver/host_memory.h"

#include <cstdint>
#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace gpukit::driver::host {

#if defined(_WIN32)

void* allocate_aligned(size_t bytes) noexcept { return _aligned_malloc(bytes, kAlignment); }
void release_aligned(void* memory) noexcept { _aligned_free(memory); }
void discard(void*, size_t) noexcept {}

#else

void* allocate_aligned(size_t bytes) noexcept {
  void* memory = nullptr;
  return posix_memalign(&memory, kAlignment, bytes) == 0 ? memory : nullptr;
}

void release_aligned(void* memory) noexcept { std::free(memory); }

void discard(void* memory, size_t bytes) noexcept {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const auto last = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

#endif

}  // namespace gpukit::driver::host
