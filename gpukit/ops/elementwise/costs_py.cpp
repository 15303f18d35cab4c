// _map_costs: what the host believes about the kernels it launches, for a test that asks the kernels.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "gpukit/ops/elementwise/binary_impl.h"
#include "gpukit/ops/elementwise/unary_impl.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using Cost = std::tuple<std::string, int>;

bool has_kernel(BinaryOp op, DType dtype) {
  if (op >= BinaryOp::bitwise_and) return is_integer(dtype);
  if (op >= BinaryOp::equal) return !is_complex(dtype) || op <= BinaryOp::not_equal;
  if (is_complex(dtype)) return op <= BinaryOp::divide;
  if (is_integer(dtype)) return op != BinaryOp::divide && op <= BinaryOp::power;
  return is_floating(dtype);
}

bool has_kernel(UnaryOp op, DType dtype) {
  if (is_floating(dtype)) return true;
  if (is_integer(dtype)) return op <= UnaryOp::relu2;
  if (!is_complex(dtype)) return false;
  return op == UnaryOp::negative || op == UnaryOp::square || op == UnaryOp::reciprocal ||
         (op >= UnaryOp::isnan && op <= UnaryOp::isfinite);
}

template <typename Op, typename Kernels>
void add_costs(std::vector<Cost>& costs, Op last, Kernels&& kernels) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    for (int d = 0; d < kNumDTypes; ++d) {
      const auto op = static_cast<Op>(i);
      const auto dtype = static_cast<DType>(d);
      if (is_storage_only(dtype) || !has_kernel(op, dtype)) continue;
      const cuda::MapKernels found = kernels(op, dtype);
      costs.emplace_back(found.contiguous.name(), found.cost);
    }
  }
}

/// Name of the contiguous kernel and its cost, for every function and dtype that has one.
std::vector<Cost> map_costs() {
  std::vector<Cost> costs;
  add_costs(costs, BinaryOp::shift_right_signed, cuda::binary_kernels);
  add_costs(costs, UnaryOp::signbit, cuda::unary_kernels);
  return costs;
}

}  // namespace

void bind_costs(nb::module_& m) {
  m.def("_map_costs", &map_costs, "Elementwise kernels and the cost the host plans them with; for tests.");
}

}  // namespace gpukit
