#include <algorithm>
#include <bit>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/indexing/indexed_space.cuh"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/runtime/launch_gate.h"

#ifdef GPUKIT_X86_LEVELS
#include <immintrin.h>
#endif

namespace gpukit::cpu {

namespace {

struct CountFlags {
  GPUKIT_ALWAYS_INLINE static void run(int64_t* count, const uint8_t* flags, int64_t n) {
    int64_t found = 0;
    for (int64_t i = 0; i < n; ++i) found += flags[i] != 0 ? 1 : 0;
    *count = found;
  }
};

constexpr int64_t kRoom = 8;  // of what is written beyond the last place, and means nothing

int64_t find_flags_from(int64_t i, int64_t found, int64_t* places, const uint8_t* flags, int64_t first, int64_t n) {
  for (; i < n; ++i) {
    places[found] = first + i;
    found += flags[i] != 0 ? 1 : 0;
  }
  return found;
}

#ifdef GPUKIT_X86_LEVELS
GPUKIT_AVX512 int64_t find_flags_wide(int64_t* places, const uint8_t* flags, int64_t first, int64_t n) {
  __m512i here = _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(first));
  int64_t i = 0, found = 0;
  for (; i + 8 <= n; i += 8, here = _mm512_add_epi64(here, _mm512_set1_epi64(8))) {
    const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(flags + i));
    const auto set = static_cast<__mmask8>(_mm_test_epi8_mask(eight, eight));
    _mm512_storeu_si512(places + found, _mm512_maskz_compress_epi64(set, here));
    found += std::popcount(set);
  }
  return find_flags_from(i, found, places, flags, first, n);
}
#endif

/// Writes the places of those of `n` flags that are set, and up to kRoom more. Gives how many are set.
int64_t find_flags(int64_t* places, const uint8_t* flags, int64_t first, int64_t n) {
#ifdef GPUKIT_X86_LEVELS
  if (kVectorLevel == 2) return find_flags_wide(places, flags, first, n);
#endif
  return find_flags_from(0, 0, places, flags, first, n);
}

}  // namespace

void count_flags(const Array& counts, const Array& flags) {
  const int64_t size = flags.size(), num_blocks = counts.size() - 1;
  runtime::run_host("nonzero", flags.device(), {write(counts), read(flags)}, [=](void* const* p) {
    auto* count = static_cast<int64_t*>(p[0]);
    const auto* flag = static_cast<const uint8_t*>(p[1]);
    parallel_for(num_blocks, 16, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kFlagsPerBlock;
        const int64_t last = first + kFlagsPerBlock < size ? first + kFlagsPerBlock : size;
        run_wide<CountFlags>(count + block, flag + first, last - first);
      }
    });
    int64_t before = 0;
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int64_t found = count[block];
      count[block] = before;
      before += found;
    }
    count[num_blocks] = before;
  });
}

void write_coordinates(const Array& coordinates, const Array& flags, const Array& counts) {
  const int64_t size = flags.size(), num_blocks = counts.size() - 1, num_true = coordinates.shape(1);
  const Dims shape = flags.shape();
  runtime::run_host("nonzero", flags.device(), {write(coordinates), read(flags), read(counts)}, [=](void* const* p) {
    auto* out = static_cast<int64_t*>(p[0]);
    const auto* flag = static_cast<const uint8_t*>(p[1]);
    const auto* before = static_cast<const int64_t*>(p[2]);
    parallel_for(num_blocks, 16, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kFlagsPerBlock;
        const int64_t last = first + kFlagsPerBlock < size ? first + kFlagsPerBlock : size;
        int64_t places[kFlagsPerBlock + kRoom], at = before[block];
        const int64_t found = find_flags(places, flag + first, first, last - first);
        if (shape.rank() == 1) {
          std::copy_n(places, found, out + at);
          continue;
        }
        for (int64_t i = 0; i < found; ++i, ++at) {
          int64_t rest = places[i];
          for (int axis = shape.rank() - 1; axis > 0; --axis) {
            out[axis * num_true + at] = rest % shape[axis];
            rest /= shape[axis];
          }
          out[at] = rest;
        }
      }
    });
  });
}

}  // namespace gpukit::cpu
