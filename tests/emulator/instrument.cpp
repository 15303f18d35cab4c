// What the host compiler calls in kernels compiled with -fsanitize=thread and -fsanitize=alignment,bounds.
#include <cstdint>
#include <cstring>

#include "tests/emulator/machine.h"

using emulator::Access;

namespace {

struct Position {
  const char* file;
  uint32_t line, column;
};
struct MismatchData {
  Position position;
  const void* type;
  unsigned char log_alignment, kind;
};
struct BoundsData {
  Position position;
};

}  // namespace

#define EMULATED __attribute__((visibility("default")))

extern "C" {

#define GPUKIT_EMULATED_ACCESS(size)                                                               \
  EMULATED void __tsan_read##size(void* p) { emulator_access(p, size, Access::read); }             \
  EMULATED void __tsan_write##size(void* p) { emulator_access(p, size, Access::write); }           \
  EMULATED void __tsan_read_write##size(void* p) {                                                 \
    emulator_access(p, size, Access::read);                                                        \
    emulator_access(p, size, Access::write);                                                       \
  }                                                                                                \
  EMULATED void __tsan_unaligned_read##size(void* p) { emulator_access(p, size, Access::read); }   \
  EMULATED void __tsan_unaligned_write##size(void* p) { emulator_access(p, size, Access::write); } \
  EMULATED void __tsan_unaligned_read_write##size(void* p) {                                       \
    emulator_access(p, size, Access::read);                                                        \
    emulator_access(p, size, Access::write);                                                       \
  }                                                                                                \
  EMULATED void __tsan_volatile_read##size(void* p) { emulator_access(p, size, Access::read); }    \
  EMULATED void __tsan_volatile_write##size(void* p) { emulator_access(p, size, Access::write); }
GPUKIT_EMULATED_ACCESS(1)
GPUKIT_EMULATED_ACCESS(2)
GPUKIT_EMULATED_ACCESS(4)
GPUKIT_EMULATED_ACCESS(8)
GPUKIT_EMULATED_ACCESS(16)
#undef GPUKIT_EMULATED_ACCESS

EMULATED void __tsan_read_range(void* p, size_t bytes) { emulator_access(p, bytes, Access::read); }
EMULATED void __tsan_write_range(void* p, size_t bytes) { emulator_access(p, bytes, Access::write); }
EMULATED void __tsan_vptr_update(void**, void*) {}
EMULATED void __tsan_vptr_read(void**) {}
EMULATED void __tsan_func_entry(void*) {}
EMULATED void __tsan_func_exit() {}
EMULATED void __tsan_init() {}
EMULATED void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  emulator_access(from, bytes, Access::read);
  emulator_access(to, bytes, Access::write);
  return std::memcpy(to, from, bytes);
}
EMULATED void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  emulator_access(from, bytes, Access::read);
  emulator_access(to, bytes, Access::write);
  return std::memmove(to, from, bytes);
}
EMULATED void* __tsan_memset(void* to, int value, size_t bytes) {
  emulator_access(to, bytes, Access::write);
  return std::memset(to, value, bytes);
}

EMULATED void __ubsan_handle_type_mismatch_v1(MismatchData* data, void* p) {
  if (p == nullptr) emulator_fail("null pointer at %s:%u", data->position.file, data->position.line);
  emulator_fail("address %p is not a multiple of %d at %s:%u", p, 1 << data->log_alignment, data->position.file,
                data->position.line);
}
EMULATED void __ubsan_handle_out_of_bounds(BoundsData* data, void* index) {
  emulator_fail("index %ld is outside of its array at %s:%u", static_cast<long>(reinterpret_cast<intptr_t>(index)),
                data->position.file, data->position.line);
}

}  // extern "C"
