#include <cmath>
#include <cstring>

#include "gpukit/ops/activation/activation_impl.h"
#include "gpukit/ops/common/map_cpu.h"
#include "gpukit/ops/common/nonlinear.h"

namespace gpukit::cpu {

namespace {

template <typename T>
struct GeluErf {
  static T of(T x) { return store<T>(gelu_erf_of(load(x))); }
};
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
template <typename T>
struct Snake {
  using C = compute_t<T>;
  static T of(T x, T alpha) {
    const C s = std::sin(load(alpha) * load(x));
    return store<T>(load(x) + s * s / load(alpha));
  }
};
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
    case ActivationOp::gelu_erf: return map_rows("gelu_erf", out, {{&a, {}}}, map1_row<GeluErf<T>, T, T>);
    case ActivationOp::leaky_relu: {
      ElementBytes bytes = {};
      const compute_t<T> value = static_cast<compute_t<T>>(slope);
      std::memcpy(bytes.bytes, &value, sizeof value);
      return map_rows("leaky_relu", out, {{&a, {}}, {nullptr, bytes}}, map2_row<LeakyRelu<T>, T, T, compute_t<T>>);
    }
    case ActivationOp::swiglu: return map_rows("swiglu", out, {{&a, {}}, {b, {}}}, map2_row<Swiglu<T>, T, T, T>);
    case ActivationOp::geglu: return map_rows("geglu", out, {{&a, {}}, {b, {}}}, map2_row<Geglu<T>, T, T, T>);
    case ActivationOp::snake: return map_rows("snake", out, {{&a, {}}, {b, {}}}, map2_row<Snake<T>, T, T, T>);
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
