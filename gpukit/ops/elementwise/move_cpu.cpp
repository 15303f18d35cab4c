#include <cstring>

#include "gpukit/ops/elementwise/move_impl.h"

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
  with_width(itemsize(out.dtype()), [&]<typename T>() { map_rows("copy", out, {a}, copy_row<T>); });
}

void select(const Array& out, const Array& cond, const ElementInput& a, const ElementInput& b) {
  with_width(itemsize(out.dtype()), [&]<typename T>() {
    map_rows("where", out, {{&cond, {}}, a, b}, wide3_row<Select<T>, T, uint8_t, T, T>);
  });
}

}  // namespace gpukit::cpu
