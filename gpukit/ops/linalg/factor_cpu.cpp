#include <algorithm>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/linalg/factor_impl.h"
#include "gpukit/ops/linalg/orthogonal.cuh"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

using linalg::FactorParams;
using linalg::Pair;

/// A team of one.
struct One {
  static constexpr int64_t row() { return 0; }
  static constexpr int64_t rows() { return 1; }
  static constexpr int64_t col() { return 0; }
  static constexpr int64_t cols() { return 1; }
  static constexpr int64_t lane() { return 0; }
  static constexpr int64_t lanes() { return 1; }
  static bool wanted() { return work_wanted(); }
  static void sync() {}
};

/// Elements of T are computed as W, in double precision.
template <typename Stored, typename Computed>
struct Types {
  using T = Stored;
  using W = Computed;
  using R = linalg::Real<T>;
};
template <typename F>
void with_types(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32: f(Types<float, double>{}); break;
    case DType::float64: f(Types<double, double>{}); break;
    case DType::complex64: f(Types<Pair<float>, Pair<double>>{}); break;
    default: f(Types<Pair<double>, Pair<double>>{}); break;
  }
}

constexpr int kMaxArrays = 4;

/// The addresses of up to four arrays, null for one that is not there.
struct Pieces {
  void* at[kMaxArrays];
  template <typename T>
  T* get(int i, int64_t offset) const {
    return at[i] == nullptr ? nullptr : static_cast<T*>(at[i]) + offset;
  }
};

/// Calls f(matrix, pieces, work memory) for each matrix of the batch. The first `num_written` arrays are results.
template <typename W, typename F>
void each_matrix(const char* op, const FactorParams& p, std::initializer_list<const Array*> arrays, int num_written,
                 Device device, F f) {
  constexpr int64_t kSlots = 16, kSlotBytes = int64_t{64} << 20;
  const auto bytes = static_cast<int64_t>(p.work * static_cast<int64_t>(sizeof(W)));
  const int64_t slots = std::clamp<int64_t>(kSlotBytes / std::max<int64_t>(bytes, 1), 1, std::min(kSlots, p.batch));
  Temporaries temporaries(op);
  const Array work = temporaries.empty({slots, std::max<int64_t>(bytes, 1)}, DType::uint8, device);
  std::vector<memory::Use> uses{write(work)};
  bool there[kMaxArrays] = {};
  int count = 0;
  for (const Array* array : arrays) {
    there[count] = array->defined();
    if (there[count]) uses.push_back(count < num_written ? write(*array) : read(*array));
    ++count;
  }
  const int64_t step = std::max<int64_t>(bytes, 1);
  runtime::run_host(op, device, uses, [=](void* const* addresses) {
    Pieces pieces{};
    int next = 1;
    for (int i = 0; i < count; ++i) pieces.at[i] = there[i] ? addresses[next++] : nullptr;
    auto* memory = static_cast<unsigned char*>(addresses[0]);
    parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t i = slot; i < p.batch && work_wanted(); i += slots)
          f(i, pieces, reinterpret_cast<W*>(memory + slot * step));
    });
  });
}

}  // namespace

void cholesky(const Array& out, const Array& x, FactorParams p) {
  with_types(x.dtype(), [&](auto types) {
    using T = typename decltype(types)::T;
    using W = typename decltype(types)::W;
    each_matrix<W>("cholesky", p, {&out, &x}, 1, x.device(), [p](int64_t i, const Pieces& a, W* work) {
      const int64_t at = i * p.n * p.n;
      linalg::cholesky_matrix(One{}, a.get<T>(0, at), a.get<const T>(1, at), work, p);
    });
  });
}

void solve(const char* op, const Array& out, const Array& x, const Array& b, FactorParams p) {
  with_types(x.dtype(), [&](auto types) {
    using T = typename decltype(types)::T;
    using W = typename decltype(types)::W;
    each_matrix<W>(op, p, {&out, &x, &b}, 1, x.device(), [p](int64_t i, const Pieces& a, W* work) {
      linalg::solve_matrix(One{}, a.get<T>(0, i * p.n * p.k), a.get<const T>(1, i * p.n * p.n),
                           a.get<const T>(2, i * p.n * p.k), work, p);
    });
  });
}

void determinant(const char* op, const Array& det, const Array& sign, const Array& logarithm, const Array& x,
                 FactorParams p) {
  with_types(x.dtype(), [&](auto types) {
    using T = typename decltype(types)::T;
    using W = typename decltype(types)::W;
    using R = typename decltype(types)::R;
    each_matrix<W>(op, p, {&det, &sign, &logarithm, &x}, 3, x.device(), [p](int64_t i, const Pieces& a, W* work) {
      linalg::determinant(One{}, a.get<T>(0, i), a.get<T>(1, i), a.get<R>(2, i), a.get<const T>(3, i * p.n * p.n), work,
                          p);
    });
  });
}

void qr(const Array& q, const Array& r, const Array& x, FactorParams p) {
  with_types(x.dtype(), [&](auto types) {
    using T = typename decltype(types)::T;
    using W = typename decltype(types)::W;
    each_matrix<W>("qr", p, {&q, &r, &x}, 2, x.device(), [p](int64_t i, const Pieces& a, W* work) {
      linalg::qr_matrix(One{}, a.get<T>(0, i * p.m * p.k), a.get<T>(1, i * p.k * p.n), a.get<const T>(2, i * p.m * p.n),
                        work, p);
    });
  });
}

void eigh(const char* op, const Array& values, const Array& vectors, const Array& x, FactorParams p) {
  with_types(x.dtype(), [&](auto types) {
    using T = typename decltype(types)::T;
    using W = typename decltype(types)::W;
    using R = typename decltype(types)::R;
    each_matrix<W>(op, p, {&values, &vectors, &x}, 2, x.device(), [p](int64_t i, const Pieces& a, W* work) {
      linalg::eigh_matrix(One{}, a.get<R>(0, i * p.n), a.get<T>(1, i * p.n * p.n), a.get<const T>(2, i * p.n * p.n),
                          work, p);
    });
  });
}

void svd(const char* op, const Array& values, const Array& u, const Array& vh, const Array& x, FactorParams p) {
  const bool wide = p.m < p.n;
  const int64_t of_u = p.m * (wide ? p.m : p.k), of_vh = p.n * (wide ? p.k : p.n), shorter = std::min(p.m, p.n);
  with_types(x.dtype(), [&](auto types) {
    using T = typename decltype(types)::T;
    using W = typename decltype(types)::W;
    using R = typename decltype(types)::R;
    each_matrix<W>(op, p, {&values, &u, &vh, &x}, 3, x.device(), [=](int64_t i, const Pieces& a, W* work) {
      linalg::svd_matrix(One{}, a.get<R>(0, i * shorter), a.get<T>(1, i * of_u), a.get<T>(2, i * of_vh),
                         a.get<const T>(3, i * p.m * p.n), work, p);
    });
  });
}

}  // namespace gpukit::cpu
