// Written by tools/make_vendor_table.py from bench/vendor: the products that cuBLASLt made faster.
#pragma once

#include <array>

#include "gpukit/ops/matmul/vendor.h"

namespace gpukit::cuda {

inline constexpr std::array<VendorRow, 0> kVendorTable = {};

}  // namespace gpukit::cuda
