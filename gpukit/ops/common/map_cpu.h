// Elementwise loops of the CPU backend: the counterpart of map.cuh.
#pragma once

#include <span>
#include <type_traits>

#include "gpukit/base/scalar.h"
#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/levels.h"

namespace gpukit {

/// An operand of an elementwise function: a null array is the scalar.
struct ElementInput {
  const Array* array = nullptr;
  ElementBytes scalar;
};

namespace cpu {

/// One run of elements: operand i (0 is the output) starts at p[i] and steps by step[i] elements.
struct Row {
  int64_t size;
  void* p[kMaxOperands];
  int64_t step[kMaxOperands];

  template <typename T>
  T* at(int operand) const {
    return static_cast<T*>(p[operand]);
  }
};
using RowFunction = void (*)(const Row& row);

/// Calls `row` over every run of out and its inputs, which broadcast to it, on the stream and on all threads.
void map_rows(const char* name, const Array& out, std::initializer_list<ElementInput> inputs, RowFunction row);

// Row functions. The output may be an input's own memory: elements do not depend on one another.

/// The memory of a bool array may hold any byte (empty, bitcast): whatever is not 0 is true.
template <typename T>
T element(const T* p, int64_t i) {
  if constexpr (std::is_same_v<T, bool>)
    return reinterpret_cast<const unsigned char*>(p)[i] != 0;
  else
    return p[i];
}

/// F::of(a)
template <typename F, typename Out, typename A>
void map1_row(const Row& row) {
  Out* out = row.at<Out>(0);
  const A* a = row.at<const A>(1);
  const int64_t n = row.size, to = row.step[0], by_a = row.step[1];  // what is written may look like them
  if (to == 1 && by_a == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = F::of(element(a, i));
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i * to] = F::of(element(a, i * by_a));
}

/// F::of(a, b)
template <typename F, typename Out, typename A, typename B>
void map2_row(const Row& row) {
  Out* out = row.at<Out>(0);
  const A* a = row.at<const A>(1);
  const B* b = row.at<const B>(2);
  const int64_t n = row.size, to = row.step[0], by_a = row.step[1], by_b = row.step[2];
  if (to == 1 && by_a == 1 && by_b == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = F::of(element(a, i), element(b, i));
    return;
  }
  if (to == 1 && by_a == 1 && by_b == 0) {
    const B y = element(b, 0);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = F::of(element(a, i), y);
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i * to] = F::of(element(a, i * by_a), element(b, i * by_b));
}

/// F::of(a, b, c)
template <typename F, typename Out, typename A, typename B, typename C>
void map3_row(const Row& row) {
  Out* out = row.at<Out>(0);
  const A* a = row.at<const A>(1);
  const B* b = row.at<const B>(2);
  const C* c = row.at<const C>(3);
  const int64_t n = row.size, to = row.step[0], by_a = row.step[1], by_b = row.step[2], by_c = row.step[3];
  for (int64_t i = 0; i < n; ++i) out[i * to] = F::of(element(a, i * by_a), element(b, i * by_b), element(c, i * by_c));
}

// The same for functions without branches and calls, in the widest registers the processor has.

template <typename F, typename Out, typename A>
struct Wide1 {
  GPUKIT_ALWAYS_INLINE static void run(const Row* row) { map1_row<F, Out, A>(*row); }
};
template <typename F, typename Out, typename A, typename B>
struct Wide2 {
  GPUKIT_ALWAYS_INLINE static void run(const Row* row) {
    Out* out = row->at<Out>(0);
    const A* a = row->at<const A>(1);
    const B* b = row->at<const B>(2);
    if (row->step[0] == 1 && row->step[1] == 0 && row->step[2] == 1) {
      const A x = element(a, 0);
      const int64_t n = row->size;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(x, element(b, i));
      return;
    }
    map2_row<F, Out, A, B>(*row);
  }
};
template <typename F, typename Out, typename A, typename B, typename C>
struct Wide3 {
  GPUKIT_ALWAYS_INLINE static void run(const Row* row) {
    Out* out = row->at<Out>(0);
    const A* a = row->at<const A>(1);
    const B* b = row->at<const B>(2);
    const C* c = row->at<const C>(3);
    const int64_t n = row->size;
    const bool dense = row->step[0] == 1 && row->step[1] == 1;
    if (dense && row->step[2] == 1 && row->step[3] == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(element(a, i), element(b, i), element(c, i));
    } else if (dense && row->step[2] == 0 && row->step[3] == 0) {
      const B y = element(b, 0);
      const C z = element(c, 0);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(element(a, i), y, z);
    } else if (dense && row->step[2] == 1 && row->step[3] == 0) {
      const C z = element(c, 0);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(element(a, i), element(b, i), z);
    } else if (dense && row->step[2] == 0 && row->step[3] == 1) {
      const B y = element(b, 0);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = F::of(element(a, i), y, element(c, i));
    } else {
      map3_row<F, Out, A, B, C>(*row);
    }
  }
};
template <typename F, typename Out, typename A>
void wide1_row(const Row& row) {
  run_wide<Wide1<F, Out, A>>(&row);
}
template <typename F, typename Out, typename A, typename B>
void wide2_row(const Row& row) {
  run_wide<Wide2<F, Out, A, B>>(&row);
}
template <typename F, typename Out, typename A, typename B, typename C>
void wide3_row(const Row& row) {
  run_wide<Wide3<F, Out, A, B, C>>(&row);
}

}  // namespace cpu
}  // namespace gpukit
