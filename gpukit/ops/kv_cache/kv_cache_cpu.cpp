#include <algorithm>
#include <cstring>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/kv_cache/kv_cache_impl.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

void store_tokens(const char* op, const StoreParams& params, const Array& cache, const Array& tokens,
                  const Array& slots) {
  const int64_t bytes = itemsize(cache.dtype());
  runtime::FaultWord* const fault = runtime::fault_word(cache.device());
  runtime::run_host(
      op, cache.device(), {write(cache), read(tokens), read(slots)}, [p = params, bytes, fault](void* const* a) {
        const int64_t limit = p.pages * p.page_size;
        // In order: of tokens for one slot the last one stays.
        for (int64_t token = 0; token < p.tokens; ++token) {
          const auto* numbers = static_cast<const int32_t*>(a[2]);
          const int64_t slot = p.sequential != 0 ? numbers[0] + token : numbers[token * p.slot_step];
          if (slot == -1 && p.sequential == 0) continue;
          if (slot < 0 || slot >= limit) {
            runtime::note_fault(fault, p.fault_op, slot, limit);
            continue;
          }
          auto* to =
              static_cast<unsigned char*>(a[0]) + (slot / p.page_size * p.page + slot % p.page_size * p.slot) * bytes;
          const auto* from = static_cast<const unsigned char*>(a[1]) + token * p.from_token * bytes;
          for (int64_t head = 0; head < p.heads; ++head, to += p.head * bytes, from += p.from_head * bytes) {
            if (p.step == 1 && p.from_step == 1) {
              std::memcpy(to, from, static_cast<size_t>(p.dim * bytes));
              continue;
            }
            for (int64_t i = 0; i < p.dim; ++i)
              std::memcpy(to + i * p.step * bytes, from + i * p.from_step * bytes, static_cast<size_t>(bytes));
          }
        }
      });
}

}  // namespace gpukit::cpu
