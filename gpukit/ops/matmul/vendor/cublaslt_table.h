// Written by tools/make_vendor_table.py from bench/vendor: the products that cuBLASLt made faster.
#pragma once

#include <array>

#include "gpukit/ops/matmul/vendor/cublaslt.h"

namespace gpukit::cuda {

inline constexpr std::array<VendorRow, 25> kVendorTable = {{
    {VendorFormat::bfloat16, Major::mn, 1024, 1024, 1024, 1024},
    {VendorFormat::bfloat16, Major::mn, 2048, 2048, 2048, 2048},
    {VendorFormat::bfloat16, Major::k, 1024, 1024, 1024, 1024},
    {VendorFormat::bfloat16, Major::k, 2048, 2048, 2048, 2048},
    {VendorFormat::bfloat16, Major::k, 64, 128, 3584, 3584},
    {VendorFormat::bfloat16, Major::k, 256, 256, 3584, 3584},
    {VendorFormat::bfloat16, Major::k, 128, 128, 3584, 4608},
    {VendorFormat::bfloat16, Major::k, 256, 256, 3584, 4608},
    {VendorFormat::bfloat16, Major::k, 128, 128, 4096, 4096},
    {VendorFormat::bfloat16, Major::k, 256, 256, 4096, 4096},
    {VendorFormat::bfloat16, Major::k, 128, 192, 4096, 6144},
    {VendorFormat::bfloat16, Major::k, 192, 192, 4096, 28672},
    {VendorFormat::bfloat16, Major::k, 128, 192, 14336, 4096},
    {VendorFormat::bfloat16, Major::k, 64, 256, 18944, 3584},
    {VendorFormat::float16, Major::mn, 1024, 1024, 1024, 1024},
    {VendorFormat::float16, Major::mn, 2048, 2048, 2048, 2048},
    {VendorFormat::float16, Major::k, 1024, 1024, 1024, 1024},
    {VendorFormat::float16, Major::k, 2048, 2048, 2048, 2048},
    {VendorFormat::float32, Major::mn, 4096, 4096, 4096, 4096},
    {VendorFormat::float8_row, Major::k, 4096, 4096, 4096, 4096},
    {VendorFormat::float8_row, Major::k, 8192, 8192, 8192, 8192},
    {VendorFormat::float8_tensor, Major::k, 4096, 4096, 4096, 4096},
    {VendorFormat::float8_tensor, Major::k, 8192, 8192, 8192, 8192},
    {VendorFormat::int8, Major::k, 4096, 4096, 4096, 4096},
    {VendorFormat::int8, Major::k, 8192, 8192, 8192, 8192},
}};

}  // namespace gpukit::cuda
