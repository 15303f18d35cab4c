// Reductions over lanes, warps and blocks by one fixed tree.
//
// The tree: element 2i is merged with element 2i + 1, the results again in pairs, and so on. What lies past the end is
// Op::identity(), which changes no bit. Every aligned group of 2^k elements is a node of it, so vector width, lanes,
// warps and blocks are free choices: none of them changes the result.
//
// An Op has `Acc`, `identity()`, `merge(a, b)` (commutative to the bit) and `kAnyOrder` (merge is associative to the
// bit).
#pragma once
#include "gpukit/ops/common/vec.cuh"

namespace gpukit {

inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kWalkLevels = 32;

/// Accumulators travel between lanes as 32-bit words.
template <typename A>
struct Words {
  static constexpr int kCount = sizeof(A) / 4;
  static_assert(kCount * 4 == sizeof(A), "accumulators are whole words");
  unsigned word[kCount];
  GPUKIT_DEVICE explicit Words(const A& value) { memcpy(word, &value, sizeof(A)); }
  GPUKIT_DEVICE A value() const {
    A v;
    memcpy(&v, word, sizeof(A));
    return v;
  }
};

/// What another block has written, past this SM's own cache.
template <typename A>
GPUKIT_DEVICE A load_from_l2(const A* p) {
  A v;
  unsigned word[sizeof(A) / 4];
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(A) / 4); ++i) word[i] = __ldcg(reinterpret_cast<const unsigned*>(p) + i);
  memcpy(&v, word, sizeof(A));
  return v;
}

template <typename A>
GPUKIT_DEVICE A shuffle_xor(const A& value, int mask) {
  Words<A> words(value);
#pragma unroll
  for (int i = 0; i < Words<A>::kCount; ++i) words.word[i] = __shfl_xor_sync(kAllLanes, words.word[i], mask);
  return words.value();
}

template <typename A>
GPUKIT_DEVICE A choose(bool first, const A& a, const A& b) {
  Words<A> x(a), y(b);
#pragma unroll
  for (int i = 0; i < Words<A>::kCount; ++i) x.word[i] = first ? x.word[i] : y.word[i];
  return x.value();
}

GPUKIT_DEVICE int64_t at_most(int64_t i, int64_t last) { return i < last ? i : last; }

// Steps are unrolled by templates: a loop whose bounds change with an outer loop may stay a loop, with its array in
// memory.
template <typename Op, int Step, int N>
GPUKIT_DEVICE void fold_from(typename Op::Acc (&v)[N]) {
  if constexpr (Step < N) {
#pragma unroll
    for (int i = 0; i < N / (2 * Step); ++i) v[2 * Step * i] = Op::merge(v[2 * Step * i], v[2 * Step * i + Step]);
    fold_from<Op, 2 * Step, N>(v);
  }
}

/// The tree over N values of one thread (a power of two). Overwrites them.
template <typename Op, int N>
GPUKIT_DEVICE typename Op::Acc fold(typename Op::Acc (&v)[N]) {
  fold_from<Op, 1, N>(v);
  return v[0];
}

/// The tree over one value per lane in groups of `lanes` (a power of two). Every lane gets its group's result.
template <typename Op>
GPUKIT_DEVICE typename Op::Acc lanes_tree(typename Op::Acc v, int lanes) {
#pragma unroll 1
  for (int mask = 1; mask < lanes; mask <<= 1) v = Op::merge(v, shuffle_xor(v, mask));
  return v;
}

template <typename Op, int Live, int Mask, int N>
GPUKIT_DEVICE void trade_lanes(typename Op::Acc (&v)[N]) {
  if constexpr (Mask < 32) {
    if constexpr (Live > 1) {
      const int upper = threadIdx.x & Mask;
#pragma unroll
      for (int i = 0; i < Live / 2; ++i) {
        const typename Op::Acc keep = choose(upper, v[i + Live / 2], v[i]);
        const typename Op::Acc give = choose(upper, v[i], v[i + Live / 2]);
        v[i] = Op::merge(keep, shuffle_xor(give, Mask));
      }
      trade_lanes<Op, Live / 2, 2 * Mask, N>(v);
    } else {
      v[0] = Op::merge(v[0], shuffle_xor(v[0], Mask));
      trade_lanes<Op, 1, 2 * Mask, N>(v);
    }
  }
}

/// The tree over 32 * N values, value u of lane l standing at 32 * u + l. Every lane gets the result. Overwrites v.
/// Lanes trade halves of their values while they merge, so N + 4 shuffles do the work of 5 * N.
template <typename Op, int N>
GPUKIT_DEVICE typename Op::Acc warp_tree(typename Op::Acc (&v)[N]) {
  static_assert(N <= 32 && (N & (N - 1)) == 0, "a power of two");
  if constexpr (Op::kAnyOrder) {
    return lanes_tree<Op>(fold<Op, N>(v), 32);
  } else {
    trade_lanes<Op, N, 1, N>(v);
    // Lane bit 0 now holds the highest bit of u: the lowest one is merged first.
#pragma unroll
    for (int mask = N / 2; mask > 0; mask /= 2) v[0] = Op::merge(v[0], shuffle_xor(v[0], mask));
    return v[0];
  }
}

/// The tree over the values of `warps` neighbouring warps (a power of two), each uniform in its warp. Every thread of
/// the group gets the result. All threads of the block must call it; `shared` has room for one value per warp.
template <typename Op>
GPUKIT_DEVICE typename Op::Acc warps_tree(typename Op::Acc v, int warps, typename Op::Acc* shared) {
  if (warps == 1) return v;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  if (lane == 0) shared[warp] = v;
  __syncthreads();
  v = shared[(warp & ~(warps - 1)) + (lane & (warps - 1))];
  v = lanes_tree<Op>(v, warps);
  __syncthreads();
  return v;
}

/// The tree over nodes of equal size that a warp meets one after another. `slots` is kWalkLevels values of shared
/// memory of this warp's own; values are uniform in the warp.
template <typename Op>
struct Walk {
  using Acc = typename Op::Acc;
  Acc* slots;
  unsigned count = 0;

  GPUKIT_DEVICE explicit Walk(Acc* shared) : slots(shared) {}
  GPUKIT_DEVICE void push(Acc v) {
    int level = 0;
#pragma unroll 1
    for (unsigned n = count; n & 1u; n >>= 1) v = Op::merge(slots[level++], v);
    if ((threadIdx.x & 31) == 0) slots[level] = v;
    __syncwarp();
    ++count;
  }
  GPUKIT_DEVICE Acc result() const {
    if (count == 0) return Op::identity();
    int level = __ffs(static_cast<int>(count)) - 1;
    Acc v = slots[level];
#pragma unroll 1
    for (++level; level < kWalkLevels && (count >> level) != 0; ++level) {
      if ((count >> level) & 1u) v = Op::merge(slots[level], v);
    }
    return v;
  }
};

/// The node of 32 * N * V elements that starts at `begin`, which lies before `length`. A Load has
/// `fetch(raw, i, step, last)`: all memory accesses for the V elements at min(i + u * step, last) of raw[u], and
/// `Acc unit(raw, i)`: the tree of one access.
template <typename Op, int V, int N, typename Load>
GPUKIT_DEVICE typename Op::Acc chunk_tree(const Load& load, int64_t begin, int64_t length) {
  const int64_t first = begin + (threadIdx.x & 31) * V;
  typename Load::Raw raw[N];
  typename Op::Acc v[N];
  load.fetch(raw, first, 32 * V, length - V);
#pragma unroll
  for (int u = 0; u < N; ++u) {
    const int64_t i = first + u * 32 * V;
    v[u] = load.unit(raw[u], i);
    if (i >= length) v[u] = Op::identity();
  }
  return warp_tree<Op, N>(v);
}

/// The tree over chunks [first, first + count) of a row of `length` elements, by one warp.
template <typename Op, int V, int N, typename Load>
GPUKIT_DEVICE typename Op::Acc walk_chunks(const Load& load, int64_t first, int64_t count, int64_t length,
                                           typename Op::Acc* slots) {
  constexpr int64_t kChunk = 32 * V * N;
  Walk<Op> walk(slots);
#pragma unroll 1
  for (int64_t c = 0; c < count; ++c) {
    int64_t begin = (first + c) * kChunk;
    if (begin >= length) break;
    walk.push(chunk_tree<Op, V, N>(load, begin, length));
  }
  return walk.result();
}

/// The same, with the next chunk on its way while one is merged. Takes the registers of two.
template <typename Op, int V, int N, typename Load>
GPUKIT_DEVICE typename Op::Acc walk_chunks_ahead(const Load& load, int64_t first, int64_t count, int64_t length,
                                                 typename Op::Acc* slots) {
  constexpr int64_t kChunk = 32 * V * N;
  Walk<Op> walk(slots);
  typename Load::Raw raw[N];
  const int64_t stop = at_most((first + count) * kChunk, length);
  int64_t mine = first * kChunk + (threadIdx.x & 31) * V;
  const bool any = first * kChunk < stop;
  if (any) load.fetch(raw, mine, 32 * V, length - V);
#pragma unroll 1
  for (int64_t begin = first * kChunk; begin < stop; begin += kChunk, mine += kChunk) {
    typename Op::Acc v[N];
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int64_t i = mine + u * 32 * V;
      v[u] = load.unit(raw[u], i);
      if (i >= length) v[u] = Op::identity();
    }
    // Not before the chunk at hand has left its registers.
    asm volatile("" ::: "memory");
    if (begin + kChunk < stop) load.fetch(raw, mine + kChunk, 32 * V, length - V);
    walk.push(warp_tree<Op, N>(v));
  }
  return walk.result();
}

/// Columns: a block of `tx` * `ty` threads reduces rows [first, last) of tx * V neighbouring columns. Thread (x, y)
/// takes `rows_per_thread` (8, 16, 32 or 64) rows at a time. A Load has `fetch(raw, row, step, last)` as above and `Acc
/// element(raw, k, row)`, the value of column k of its V. `shared` has ty * tx * V values, `slots` (levels of the walk)
/// * tx * V. `first` is a multiple of the pass, ty * rows_per_thread. The result is valid in threads with y == 0.
template <typename Op, int V, typename Load>
GPUKIT_DEVICE void columns_tree(typename Op::Acc (&acc)[V], const Load& load, int64_t first, int64_t last, int tx,
                                int ty, int rows_per_thread, typename Op::Acc* shared, typename Op::Acc* slots) {
  using Acc = typename Op::Acc;
  constexpr int kRows = 8;
  const int x = threadIdx.x % tx;
  const int y = threadIdx.x / tx;
  const int width = tx * V;
  const int groups = rows_per_thread / kRows;
  const int64_t pass_rows = static_cast<int64_t>(ty) * rows_per_thread;
  unsigned count = 0;
#pragma unroll 1
  for (int64_t pass = first; pass < last; pass += pass_rows) {
    const int64_t start = pass + static_cast<int64_t>(y) * rows_per_thread;
    Acc pending[3][V];
#pragma unroll 1
    for (int g = 0; g < groups; ++g) {
      const int64_t row = start + g * kRows;
      if (row < last) {
        typename Load::Raw raw[kRows];
        load.fetch(raw, row, 1, last - 1);
#pragma unroll
        for (int k = 0; k < V; ++k) {
          Acc v[kRows];
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            v[r] = load.element(raw[r], k, row + r);
            if (row + r >= last) v[r] = Op::identity();
          }
          acc[k] = fold<Op, kRows>(v);
        }
      } else {
#pragma unroll
        for (int k = 0; k < V; ++k) acc[k] = Op::identity();
      }
#pragma unroll
      for (int level = 0; level < 3; ++level) {
        const bool full = (g & ((2 << level) - 1)) == (2 << level) - 1;
        const bool waits = (g & ((2 << level) - 1)) == (1 << level) - 1;
#pragma unroll
        for (int k = 0; k < V; ++k) {
          if (full) acc[k] = Op::merge(pending[level][k], acc[k]);
          if (waits) pending[level][k] = acc[k];
        }
      }
    }
    if (ty > 1) {
      __syncthreads();
#pragma unroll
      for (int k = 0; k < V; ++k) shared[y * width + x * V + k] = acc[k];
#pragma unroll 1
      for (int s = 1; s < ty; s *= 2) {
        __syncthreads();
        if ((y & (2 * s - 1)) == 0) {
#pragma unroll
          for (int k = 0; k < V; ++k) {
            acc[k] = Op::merge(acc[k], shared[(y + s) * width + x * V + k]);
            shared[y * width + x * V + k] = acc[k];
          }
        }
      }
    }
    // One pass is the common case and needs no slots.
    if (y == 0 && (first + pass_rows < last)) {
      int level = 0;
#pragma unroll 1
      for (unsigned n = count; n & 1u; n >>= 1, ++level) {
#pragma unroll
        for (int k = 0; k < V; ++k) acc[k] = Op::merge(slots[level * width + x * V + k], acc[k]);
      }
#pragma unroll
      for (int k = 0; k < V; ++k) slots[level * width + x * V + k] = acc[k];
      ++count;
    }
  }
  if (y == 0 && count != 0) {
    int level = __ffs(static_cast<int>(count)) - 1;
#pragma unroll
    for (int k = 0; k < V; ++k) acc[k] = slots[level * width + x * V + k];
#pragma unroll 1
    for (++level; level < kWalkLevels && (count >> level) != 0; ++level) {
      if ((count >> level) & 1u) {
#pragma unroll
        for (int k = 0; k < V; ++k) acc[k] = Op::merge(slots[level * width + x * V + k], acc[k]);
      }
    }
  }
}

/// NaN wins; +0 is above -0, so the order of merges does not matter.
GPUKIT_DEVICE float maximum(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
GPUKIT_DEVICE double maximum(double a, double b) {
  if (a > b) return a;
  if (b > a) return b;
  if (a == b) return __longlong_as_double(__double_as_longlong(a) & __double_as_longlong(b));
  return __longlong_as_double(0x7ff8000000000000ll);
}

/// Float sums: -0 is what changes no value, +0 would change -0.
template <typename A>
struct TreeSum {
  using Acc = A;
  static constexpr bool kAnyOrder = false;
  static GPUKIT_DEVICE A identity() { return static_cast<A>(-0.0); }
  static GPUKIT_DEVICE A merge(A a, A b) { return a + b; }
};
template <typename A>
struct TreeMax {
  using Acc = A;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE A identity() { return static_cast<A>(-1.0 / 0.0); }
  static GPUKIT_DEVICE A merge(A a, A b) { return maximum(a, b); }
};

}  // namespace gpukit
