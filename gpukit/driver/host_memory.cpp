#include "gpukit/driver/host_memory.h"

#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#endif

namespace gpukit::driver::host {

#if defined(_WIN32)

void* allocate_aligned(size_t bytes) noexcept { return _aligned_malloc(bytes, kAlignment); }
void release_aligned(void* memory) noexcept { _aligned_free(memory); }

#else

void* allocate_aligned(size_t bytes) noexcept {
  void* memory = nullptr;
  return posix_memalign(&memory, kAlignment, bytes) == 0 ? memory : nullptr;
}

void release_aligned(void* memory) noexcept { std::free(memory); }

#endif

}  // namespace gpukit::driver::host
