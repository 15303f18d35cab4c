#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpukit/ops/activation/activation_impl.h"
#include "gpukit/ops/common/map_cpu.h"
#include "gpukit/ops/common/vector_loops.h"

namespace gpukit::cpu {

namespace {

template <typename T>
struct LeakyRelu {
  using C = compute_t<T>;
  static T of(T a, C slope) { return store<T>(leaky_relu_of(load(a), slope)); }
};
template <typename T>
struct Swiglu {
  static T of(T gate, T up) { return store<T>(silu_of(load(gate)) * load(up)); }
};
template <typename T>
struct Geglu {
  static T of(T gate, T up) { return store<T>(gelu_of(load(gate)) * load(up)); }
};
/// Elements are taken some at a time, as numbers that lie side by side.
constexpr int64_t kChunk = 256;

template <typename C, typename T>
void load_chunk(C* to, const T* from, int64_t step, int64_t count) {
  if (step == 1)
    for (int64_t i = 0; i < count; ++i) to[i] = load(from[i]);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = load(from[i * step]);
}
template <typename C, typename T>
void store_chunk(T* to, int64_t step, const C* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i * step] = store<T>(from[i]);
}

template <typename T>
void gelu_erf_row(const Row& row) {
  compute_t<T> x[kChunk];
  for (int64_t i = 0; i < row.size; i += kChunk) {
    const int64_t count = std::min(kChunk, row.size - i);
    load_chunk(x, row.at<const T>(1) + i * row.step[1], row.step[1], count);
    gelu_erf_all(x, count);
    store_chunk(row.at<T>(0) + i * row.step[0], row.step[0], x, count);
  }
}

template <typename T>
void snake_row(const Row& row) {
  compute_t<T> x[kChunk], alpha[kChunk], y[kChunk];
  for (int64_t i = 0; i < row.size; i += kChunk) {
    const int64_t count = std::min(kChunk, row.size - i);
    load_chunk(x, row.at<const T>(1) + i * row.step[1], row.step[1], count);
    load_chunk(alpha, row.at<const T>(2) + i * row.step[2], row.step[2], count);
    snake_all(y, x, alpha, count);
    store_chunk(row.at<T>(0) + i * row.step[0], row.step[0], y, count);
  }
}

template <typename T>
struct Modulate {
  using C = compute_t<T>;
  static T of(T x, T scale, T shift) { return store<T>(std::fma(load(x), C(1) + load(scale), load(shift))); }
};
template <typename T>
struct GatedResidual {
  static T of(T residual, T gate, T value) { return store<T>(std::fma(load(gate), load(value), load(residual))); }
};

template <typename T>
void run(ActivationOp op, const Array& out, const Array& a, const Array* b, const Array* c, double slope) {
  switch (op) {
    case ActivationOp::gelu_erf: return map_rows("gelu_erf", out, {{&a, {}}}, gelu_erf_row<T>);
    case ActivationOp::leaky_relu: {
      ElementBytes bytes = {};
      const compute_t<T> value = static_cast<compute_t<T>>(slope);
      std::memcpy(bytes.bytes, &value, sizeof value);
      return map_rows("leaky_relu", out, {{&a, {}}, {nullptr, bytes}}, map2_row<LeakyRelu<T>, T, T, compute_t<T>>);
    }
    case ActivationOp::swiglu: return map_rows("swiglu", out, {{&a, {}}, {b, {}}}, map2_row<Swiglu<T>, T, T, T>);
    case ActivationOp::geglu: return map_rows("geglu", out, {{&a, {}}, {b, {}}}, map2_row<Geglu<T>, T, T, T>);
    case ActivationOp::snake: return map_rows("snake", out, {{&a, {}}, {b, {}}}, snake_row<T>);
    case ActivationOp::modulate:
      return map_rows("modulate", out, {{&a, {}}, {b, {}}, {c, {}}}, map3_row<Modulate<T>, T, T, T, T>);
    case ActivationOp::gated_residual:
      return map_rows("gated_residual", out, {{&a, {}}, {b, {}}, {c, {}}}, map3_row<GatedResidual<T>, T, T, T, T>);
  }
}

}  // namespace

void activation(ActivationOp op, const Array& out, const Array& a, const Array* b, const Array* c, double slope) {
  visit_floating(out.dtype(), [&]<typename T>() { run<T>(op, out, a, b, c, slope); });
}

}  // namespace gpukit::cpu
