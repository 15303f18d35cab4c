// cuBLASLt, NVIDIA's library of matrix products. Opened at run time, and only when a product asks for it.
#pragma once

#include <compare>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/driver/api.h"
#include "gpukit/driver/library_search.h"

namespace gpukit::driver {

using cublasStatus_t = int;
using cublasLtHandle_t = struct CublasLtHandleTag*;
using cublasLtMatmulDesc_t = struct CublasLtMatmulDescTag*;
using cublasLtMatrixLayout_t = struct CublasLtMatrixLayoutTag*;
using cublasLtMatmulPreference_t = struct CublasLtMatmulPreferenceTag*;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspace_bytes;
  cublasStatus_t state;
  float waves;
  int reserved[4];
};

/// The library's entry points under their C names. All are there when the table is.
struct CublasLtTable {
  size_t (*cublasLtGetVersion)() = nullptr;
  const char* (*cublasLtGetStatusName)(cublasStatus_t status) = nullptr;
  cublasStatus_t (*cublasLtCreate)(cublasLtHandle_t* handle) = nullptr;
  cublasStatus_t (*cublasLtDestroy)(cublasLtHandle_t handle) = nullptr;
  cublasStatus_t (*cublasLtMatmulDescCreate)(cublasLtMatmulDesc_t* desc, int compute_type, int scale_type) = nullptr;
  cublasStatus_t (*cublasLtMatmulDescDestroy)(cublasLtMatmulDesc_t desc) = nullptr;
  cublasStatus_t (*cublasLtMatmulDescSetAttribute)(cublasLtMatmulDesc_t desc, int attribute, const void* value,
                                                   size_t bytes) = nullptr;
  cublasStatus_t (*cublasLtMatrixLayoutCreate)(cublasLtMatrixLayout_t* layout, int type, uint64_t rows,
                                               uint64_t columns, int64_t leading) = nullptr;
  cublasStatus_t (*cublasLtMatrixLayoutDestroy)(cublasLtMatrixLayout_t layout) = nullptr;
  cublasStatus_t (*cublasLtMatrixLayoutSetAttribute)(cublasLtMatrixLayout_t layout, int attribute, const void* value,
                                                     size_t bytes) = nullptr;
  cublasStatus_t (*cublasLtMatmulPreferenceCreate)(cublasLtMatmulPreference_t* preference) = nullptr;
  cublasStatus_t (*cublasLtMatmulPreferenceDestroy)(cublasLtMatmulPreference_t preference) = nullptr;
  cublasStatus_t (*cublasLtMatmulPreferenceSetAttribute)(cublasLtMatmulPreference_t preference, int attribute,
                                                         const void* value, size_t bytes) = nullptr;
  cublasStatus_t (*cublasLtMatmulAlgoGetHeuristic)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                   cublasLtMatmulPreference_t preference, int wanted,
                                                   cublasLtMatmulHeuristicResult_t* results, int* found) = nullptr;
  cublasStatus_t (*cublasLtMatmul)(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                                   cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                                   const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                   cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                                   size_t workspace_bytes, StreamHandle stream) = nullptr;
};

struct CublasLtLibrary {
  CublasLtTable table;
  bool usable = false;
  std::string version;  // "13.1.0"
  std::string path, place, reason;
};

/// What the search needs to know; cublaslt() fills it from the machine and the environment (PYGPUKIT_NO_CUBLASLT,
/// PYGPUKIT_CUBLASLT).
struct CublasLtSearch {
  bool off = false;
  std::string only;                          // the one path to try, if not empty
  int driver_major = 0;                      // 0: no driver, no search
  std::vector<LibraryCandidate> candidates;  // in order
  std::vector<LibraryAttempt> missing;       // what the search did not find, for the reason
};

/// The first candidate that serves. The library stays open for good.
CublasLtLibrary open_cublaslt(const CublasLtSearch& search);

/// Searched at the first call, and again after set_site_packages while there is none. Without one, `usable` is false
/// and `reason` is `cuBLASLt not available: `, every path tried with its reason, and what to type. Never destroyed.
const CublasLtLibrary& cublaslt();
/// For tests: what cublaslt() gives from now on; null: it searches again.
void set_cublaslt(const CublasLtLibrary* library);

/// A call of the library that failed. `status` is its cublasStatus_t.
class CublasLtError : public Error {
 public:
  CublasLtError(const CublasLtTable& table, const char* call, cublasStatus_t status);
  std::string call, name;
  cublasStatus_t status;
};

/// A stack of matrices by columns, in elements.
struct LtMatrix {
  DType dtype = DType::float32;
  int64_t rows = 0, columns = 0, stride = 0;  // between columns
  int64_t batch_stride = 0;
  friend auto operator<=>(const LtMatrix&, const LtMatrix&) = default;
};

enum class LtCompute : uint8_t { float32, tf32, float64, int32 };
/// What the products of float8 operands are multiplied by: nothing, one number, or one for each row of op(a) and each
/// column of op(b).
enum class LtScales : uint8_t { none, tensor, rows };

/// out = alpha * op(a) op(b), where op transposes or not: everything the choice of an algorithm may depend on.
struct LtProblem {
  LtMatrix a, b, out;
  bool turn_a = false, turn_b = false;
  int batches = 1;
  LtCompute compute = LtCompute::float32;
  LtScales scales_a = LtScales::none, scales_b = LtScales::none;
  int sm_count = 0;     // multiprocessors to plan for; 0: all of the device's
  int alignment = 256;  // bytes that the addresses of a, b and out are multiples of
  size_t workspace_bytes = 0;
  friend auto operator<=>(const LtProblem&, const LtProblem&) = default;
};

/// The library's handle for the device whose context is current. Threads may share it.
class LtHandle {
 public:
  explicit LtHandle(const CublasLtTable& table);
  ~LtHandle() { table_.cublasLtDestroy(handle_); }
  LtHandle(const LtHandle&) = delete;
  LtHandle& operator=(const LtHandle&) = delete;
  const CublasLtTable& table() const { return table_; }
  cublasLtHandle_t get() const { return handle_; }

 private:
  const CublasLtTable& table_;
  cublasLtHandle_t handle_ = nullptr;
};

/// A problem in the library's words, with the algorithm it named first.
class LtProduct {
 public:
  struct Addresses {
    Address a = 0, b = 0, out = 0, scale_a = 0, scale_b = 0, workspace = 0;
  };

  /// Null where the library has no algorithm. Throws CublasLtError. The handle must outlive the product.
  static std::shared_ptr<LtProduct> find(const LtHandle& handle, const LtProblem& problem);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  /// What the algorithm needs; at most that of the problem.
  size_t workspace_bytes() const { return algorithm_.workspace_bytes; }
  /// Gives the library's status. Threads may share a product.
  cublasStatus_t submit(const Addresses& at, float alpha, StreamHandle stream);
  const CublasLtTable& table() const { return handle_.table(); }

 private:
  LtProduct(const LtHandle& handle, const LtProblem& problem) : handle_(handle), problem_(problem) {}
  /// False where the library cannot.
  bool describe();
  bool choose();
  cublasLtMatrixLayout_t layout(const LtMatrix& matrix) const;

  const LtHandle& handle_;
  LtProblem problem_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, out_ = nullptr;
  cublasLtMatmulHeuristicResult_t algorithm_ = {};
  std::mutex mutex_;  // of desc_, which holds the addresses of scales
};

}  // namespace gpukit::driver
