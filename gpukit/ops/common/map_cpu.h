// Elementwise loops of the CPU backend: the counterpart of map.cuh.
#pragma once

#include <span>
#include <type_traits>

#include "gpukit/base/scalar.h"
#include "gpukit/ops/common/cpu.h"

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
  if (row.step[0] == 1 && row.step[1] == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < row.size; ++i) out[i] = F::of(element(a, i));
    return;
  }
  for (int64_t i = 0; i < row.size; ++i) out[i * row.step[0]] = F::of(element(a, i * row.step[1]));
}

/// F::of(a, b)
template <typename F, typename Out, typename A, typename B>
void map2_row(const Row& row) {
  Out* out = row.at<Out>(0);
  const A* a = row.at<const A>(1);
  const B* b = row.at<const B>(2);
  if (row.step[0] == 1 && row.step[1] == 1 && row.step[2] == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < row.size; ++i) out[i] = F::of(element(a, i), element(b, i));
    return;
  }
  if (row.step[0] == 1 && row.step[1] == 1 && row.step[2] == 0) {
    const B y = element(b, 0);
#pragma GCC ivdep
    for (int64_t i = 0; i < row.size; ++i) out[i] = F::of(element(a, i), y);
    return;
  }
  for (int64_t i = 0; i < row.size; ++i)
    out[i * row.step[0]] = F::of(element(a, i * row.step[1]), element(b, i * row.step[2]));
}

/// F::of(a, b, c)
template <typename F, typename Out, typename A, typename B, typename C>
void map3_row(const Row& row) {
  Out* out = row.at<Out>(0);
  const A* a = row.at<const A>(1);
  const B* b = row.at<const B>(2);
  const C* c = row.at<const C>(3);
  for (int64_t i = 0; i < row.size; ++i)
    out[i * row.step[0]] = F::of(element(a, i * row.step[1]), element(b, i * row.step[2]), element(c, i * row.step[3]));
}

}  // namespace cpu
}  // namespace gpukit
