// Blocks without memory: what stands for a value while a function is traced.
#pragma once

#include <memory>
#include <span>

#include "gpukit/memory/storage.h"

namespace gpukit::memory {

/// `bytes` of no memory on the context's device. `bytes` above 0.
std::shared_ptr<Storage> make_stand_in(driver::Context& context, size_t bytes);
inline bool is_stand_in(const Storage& storage) {
  return storage.foreign() && storage.address() == 0 && storage.bytes() != 0;
}
/// For those who submit work, before they do: throws Error naming `what` when one of the uses has no memory.
void refuse_stand_ins(const char* what, std::span<const Use> uses);

}  // namespace gpukit::memory
