// What cuBLASLt needs on one device: a handle and the algorithms it has named.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "gpukit/driver/cublaslt.h"
#include "gpukit/driver/objects.h"

namespace gpukit::cuda {

class VendorState {
 public:
  /// One size for every problem: what the library recommends for Hopper. Algorithms never depend on what is left.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  /// Null with the reason where there is no cuBLASLt. Throws CublasLtError.
  static VendorState* of(driver::Context& context, std::string* reason);
  /// For tests.
  static void reset();

  /// The same one for the same problem, asked of the library once; null where it has no algorithm.
  std::shared_ptr<driver::LtProduct> product(const driver::LtProblem& problem);

 private:
  explicit VendorState(driver::Context& context) : context_(context), handle_(driver::cublaslt().table) {}

  driver::Context& context_;
  driver::LtHandle handle_;
  std::mutex mutex_;
  std::map<driver::LtProblem, std::shared_ptr<driver::LtProduct>> products_;
};

}  // namespace gpukit::cuda
