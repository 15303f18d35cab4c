// Products by cuBLASLt, where they are asked for: by name, by PYGPUKIT_PREFER_CUBLASLT, or under not_guaranteed.
//
// The order of its sums is its own: it may change with the version of the library, and with the number of rows. Not
// used under batch_invariant.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gpukit/driver/cublaslt.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"

namespace gpukit::cuda {

/// Formats of the committed measurements: products into their own dtype, int8 into int32, float8_e4m3 into bfloat16
/// with one scale for the tensor or one for each row.
enum class VendorFormat : uint8_t { bfloat16, float16, float32, tf32, int8, float8_tensor, float8_row };

/// Products of dense rows of a by [k, n]: b along k or along n. cuBLASLt was faster at m_first and m_last, and wherever
/// between them there is a measurement.
struct VendorRow {
  VendorFormat format;
  Major b;
  int64_t m_first, m_last, k, n;
};

struct VendorChip {
  int sm_major, sm_minor;
  int sm_count, all_sms;  // of the session, of the device
};
VendorChip vendor_chip(const driver::Context& context);

/// Whether products of the table go to cuBLASLt without being named: PYGPUKIT_PREFER_CUBLASLT is set, or nothing is
/// guaranteed. It depends on no earlier call and no memory.
bool vendor_preferred();
/// Whether the table (cublaslt_table.h, written by tools/make_vendor_table.py from bench/vendor) gives the product to
/// cuBLASLt. Pure. It was measured on whole chips of sm_90: others, and sessions on a part of one, have our kernels.
bool vendor_wins(const MatmulProblem& problem, VendorFormat format, const VendorChip& chip);
/// The format of a product of plain arrays; nullopt: none of them.
std::optional<VendorFormat> vendor_format(DType input, DType out, bool tf32);

struct VendorPlan {
  std::shared_ptr<driver::LtProduct> product;
  bool swapped;  // the operands have changed sides
  int sm_count;

  std::string str() const;
};

/// What a plan depends on beside sizes and strides.
struct VendorFacts {
  DType input, out;
  bool tf32 = false;
  driver::LtScales scales_a = driver::LtScales::none, scales_b = driver::LtScales::none;
  bool aligned = false;  // element 0 of each array lies at a multiple of 16 bytes
};

/// nullopt with its reason where cuBLASLt cannot serve: it is not there or has no algorithm. Throws CublasLtError, and
/// UnsupportedError where PYGPUKIT_PREFER_CUBLASLT is set and it is not there.
std::optional<VendorPlan> plan_vendor(const MatmulProblem& problem, const VendorFacts& facts, driver::Context& context,
                                      std::string* reason);
/// On the current stream. Throws OutOfMemoryError when there is no workspace, CublasLtError.
void launch_vendor(const VendorPlan& plan, const Array& out, const Array& a, const Array& b);

/// float8 products with scales for the tensor or for rows. nullopt with the reason as above.
std::optional<VendorPlan> plan_scaled_vendor(const ScaledProduct& product, std::string* reason);
/// Whether products of the table go to cuBLASLt, and this is one.
bool scaled_vendor_wins(const ScaledProduct& product);
void launch_scaled_vendor(const VendorPlan& plan, const ScaledProduct& product);

/// For tests: forgets handles and algorithms.
void reset_vendor();

}  // namespace gpukit::cuda
