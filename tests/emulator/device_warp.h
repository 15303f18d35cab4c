// Barriers, shuffles and votes of CUDA C.
#pragma once
#include "tests/emulator/machine.h"

#define EMULATOR_TEXT_OF(x) #x
#define EMULATOR_TEXT(x) EMULATOR_TEXT_OF(x)
#define EMULATOR_SITE __FILE__ ":" EMULATOR_TEXT(__LINE__)
#define __syncthreads() ((void)emulator_barrier(EMULATOR_SITE, 0))
#define __syncthreads_count(v) (emulator_barrier(EMULATOR_SITE, (v) != 0).count)
#define __syncthreads_and(v) (emulator_barrier(EMULATOR_SITE, (v) != 0).all)
#define __syncthreads_or(v) (emulator_barrier(EMULATOR_SITE, (v) != 0).any)
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}

namespace emulator {

template <typename T>
struct Shuffle {
  T value;
  int source;  // below 0: the lane's own value
  T result;
  static void finish(void** lanes) {
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] == nullptr) continue;
      auto* mine = static_cast<Shuffle*>(lanes[i]);
      const int from = mine->source < 0 ? i : mine->source;
      if (lanes[from] != nullptr)
        mine->result = static_cast<Shuffle*>(lanes[from])->value;
      else
        for (unsigned b = 0; b < sizeof(T); ++b) reinterpret_cast<unsigned char*>(&mine->result)[b] = 0xff;
    }
  }
};

template <typename T>
T shuffle(const char* name, unsigned mask, T value, int source) {
  Shuffle<T> mine{value, source, value};
  emulator_meet(name, mask, &mine, Shuffle<T>::finish, false);
  return mine.result;
}

inline int lane() {
  return static_cast<int>((emulator_place.thread.x +
                           emulator_block.x * (emulator_place.thread.y + emulator_block.y * emulator_place.thread.z)) %
                          32);
}

struct Vote {
  unsigned long long value;
  unsigned ballot, match;
  unsigned long long low, high;
  static void finish(void** lanes) {
    unsigned ballot = 0;
    for (int i = 0; i < 32; ++i)
      if (lanes[i] != nullptr && static_cast<Vote*>(lanes[i])->value != 0) ballot |= 1u << i;
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] == nullptr) continue;
      auto* mine = static_cast<Vote*>(lanes[i]);
      mine->ballot = ballot;
      for (int j = 0; j < 32; ++j)
        if (lanes[j] != nullptr && static_cast<Vote*>(lanes[j])->value == mine->value) mine->match |= 1u << j;
    }
  }
};
inline Vote vote(const char* name, unsigned mask, unsigned long long value) {
  Vote mine{value, 0, 0, 0, 0};
  emulator_meet(name, mask, &mine, Vote::finish, false);
  return mine;
}

template <typename T, typename F>
struct Fold {
  T value, result;
  static void finish(void** lanes) {
    T total{};
    bool first = true;
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] == nullptr) continue;
      const T v = static_cast<Fold*>(lanes[i])->value;
      total = first ? v : F::of(total, v);
      first = false;
    }
    for (int i = 0; i < 32; ++i)
      if (lanes[i] != nullptr) static_cast<Fold*>(lanes[i])->result = total;
  }
};
template <typename F, typename T>
T fold(const char* name, unsigned mask, T value) {
  Fold<T, F> mine{value, value};
  emulator_meet(name, mask, &mine, Fold<T, F>::finish, false);
  return mine.result;
}
struct Add {
  template <typename T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct Min {
  template <typename T>
  static T of(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T of(T a, T b) {
    return a < b ? b : a;
  }
};
struct And {
  template <typename T>
  static T of(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T of(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T of(T a, T b) {
    return a ^ b;
  }
};

inline void nothing(void**) {}

}  // namespace emulator

inline void __syncwarp(unsigned mask = 0xffffffffu) {
  emulator_meet("__syncwarp", mask, &mask, emulator::nothing, true);
}
template <typename T>
T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
  const int lane = emulator::lane();
  return emulator::shuffle("__shfl_sync", mask, v, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
  const int lane = emulator::lane(), from = lane ^ bits;
  return emulator::shuffle("__shfl_xor_sync", mask, v, (from & ~(width - 1)) > (lane & ~(width - 1)) ? -1 : from);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = emulator::lane();
  const int at = lane & (width - 1);
  return emulator::shuffle("__shfl_up_sync", mask, v, static_cast<int>(by) > at ? -1 : lane - static_cast<int>(by));
}
template <typename T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const int lane = emulator::lane();
  const int at = lane & (width - 1);
  return emulator::shuffle("__shfl_down_sync", mask, v,
                           at + static_cast<int>(by) >= width ? -1 : lane + static_cast<int>(by));
}
inline unsigned __ballot_sync(unsigned mask, int v) { return emulator::vote("__ballot_sync", mask, v != 0).ballot; }
inline int __any_sync(unsigned mask, int v) { return emulator::vote("__any_sync", mask, v != 0).ballot != 0; }
inline int __all_sync(unsigned mask, int v) { return emulator::vote("__all_sync", mask, v == 0).ballot == 0; }
template <typename T>
unsigned __match_any_sync(unsigned mask, T v) {
  return emulator::vote("__match_any_sync", mask, static_cast<unsigned long long>(v)).match;
}
template <typename T>
T __reduce_add_sync(unsigned mask, T v) {
  return emulator::fold<emulator::Add>("__reduce_add_sync", mask, v);
}
template <typename T>
T __reduce_min_sync(unsigned mask, T v) {
  return emulator::fold<emulator::Min>("__reduce_min_sync", mask, v);
}
template <typename T>
T __reduce_max_sync(unsigned mask, T v) {
  return emulator::fold<emulator::Max>("__reduce_max_sync", mask, v);
}
template <typename T>
T __reduce_and_sync(unsigned mask, T v) {
  return emulator::fold<emulator::And>("__reduce_and_sync", mask, v);
}
template <typename T>
T __reduce_or_sync(unsigned mask, T v) {
  return emulator::fold<emulator::Or>("__reduce_or_sync", mask, v);
}
template <typename T>
T __reduce_xor_sync(unsigned mask, T v) {
  return emulator::fold<emulator::Xor>("__reduce_xor_sync", mask, v);
}
// __activemask is not here: what it gives is up to the chip.
