#include <algorithm>
#include <cstring>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/trace.h"
#include "gpukit/ops/elementwise/move_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

struct Bytes16 {
  uint64_t v[2];
};

template <typename T>
struct Same {
  static T of(T x) { return x; }
};
/// Every other element, as they are taken most often, in wide registers; all side by side as bytes.
template <typename T>
struct CopyRow {
  GPUKIT_ALWAYS_INLINE static void run(const Row* row) {
    T* out = row->at<T>(0);
    const T* a = row->at<const T>(1);
    const int64_t n = row->size;
    if (row->step[0] != 1 || row->step[1] < 1 || row->step[1] > 2) return map1_row<Same<T>, T, T>(*row);
    if (row->step[1] == 1) {
      std::memmove(out, a, static_cast<size_t>(n) * sizeof(T));
      return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = a[2 * i];
  }
};
template <typename T>
void copy_row(const Row& row) {
  run_wide<CopyRow<T>>(&row);
}

/// out[i][j] = a[j][i] for rows [begin, end) of out, in tiles whose lines the first-level cache holds.
template <typename T>
struct Transpose {
  static constexpr int64_t kTile = 32;
  GPUKIT_ALWAYS_INLINE static void run(T* out, int64_t out_stride, const T* a, int64_t a_stride, int64_t begin,
                                       int64_t end, int64_t columns) {
    for (int64_t first = begin; first < end; first += kTile)
      for (int64_t column = 0; column < columns; column += kTile) {
        const int64_t rows = first + kTile < end ? kTile : end - first;
        const int64_t width = column + kTile < columns ? kTile : columns - column;
        const T* const from = a + column * a_stride + first;
        T* const to = out + first * out_stride + column;
        for (int64_t i = 0; i < rows; ++i)
#pragma GCC ivdep
          for (int64_t j = 0; j < width; ++j) to[i * out_stride + j] = from[j * a_stride + i];
      }
  }
};

/// True where a copy of a transposed matrix was submitted.
template <typename T>
bool copy_transposed(const Array& out, const Array& a) {
  if (out.size() == 0 || out.ndim() < 2 || a.is_contiguous()) return false;
  if (current_trace() != nullptr || may_share_memory(out, a)) return false;
  const StridedSpace space = strided_space(out, {&a});
  if (space.rank != 2 || space.strides[0][1] != 1 || space.strides[1][0] != 1 || space.strides[1][1] == 1) return false;
  const int64_t rows = space.shape[0], columns = space.shape[1];
  const int64_t out_stride = space.strides[0][0], a_stride = space.strides[1][1];
  const int64_t grain = std::max(Transpose<T>::kTile, 32768 / columns / Transpose<T>::kTile * Transpose<T>::kTile);
  runtime::run_host("copy", out.device(), {write(out), read(a)}, [=](void* const* p) {
    parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      run_wide<Transpose<T>>(static_cast<T*>(p[0]), out_stride, static_cast<const T*>(p[1]), a_stride, begin, end,
                             columns);
    });
  });
  return true;
}

template <typename T>
struct Select {
  static T of(uint8_t cond, T a, T b) { return cond != 0 ? a : b; }
};

/// Calls f.operator()<T>() with the type of `width` bytes.
template <typename F>
void with_width(int width, F&& f) {
  switch (width) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<Bytes16>();
  }
}

}  // namespace

void move(const Array& out, const ElementInput& a) {
  with_width(itemsize(out.dtype()), [&]<typename T>() {
    if (a.array == nullptr || !copy_transposed<T>(out, *a.array)) map_rows("copy", out, {a}, copy_row<T>);
  });
}

void select(const Array& out, const Array& cond, const ElementInput& a, const ElementInput& b) {
  with_width(itemsize(out.dtype()), [&]<typename T>() {
    map_rows("where", out, {{&cond, {}}, a, b}, wide3_row<Select<T>, T, uint8_t, T, T>);
  });
}

}  // namespace gpukit::cpu
