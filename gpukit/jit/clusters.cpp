#include "gpukit/jit/clusters.h"

#include "gpukit/base/direct_cache.h"
#include "gpukit/driver/clusters.h"
#include "gpukit/runtime/device.h"

namespace gpukit::jit {

namespace {

struct Key {
  driver::FunctionHandle function;
  unsigned blocks, threads, shared_bytes;
  bool operator==(const Key&) const = default;
};

}  // namespace

int clusters_at_once(const Kernel& kernel, Device device, unsigned blocks, unsigned threads, unsigned shared_bytes) {
  constexpr unsigned kPortableBlocks = 8;
  thread_local DirectCache<Key, int, 32> cache;
  const Key key{kernel.function(device), blocks, threads, shared_bytes};
  const uint64_t hash =
      mix_hash(mix_hash(blocks, reinterpret_cast<uintptr_t>(key.function)), uint64_t{threads} << 32 | shared_bytes);
  return cache.get(key, hash, [&] {
    const driver::Context& context = runtime::open_device(device).context;
    context.make_current();
    kernel.allow_shared(device, shared_bytes);
    if (blocks > kPortableBlocks) driver::allow_large_clusters(context.api(), key.function);
    return driver::clusters_at_once(context.api(), key.function, {{blocks, 1, 1}, {threads, 1, 1}, shared_bytes});
  });
}

}  // namespace gpukit::jit
