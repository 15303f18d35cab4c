// What cuBLASLt needs on one device: a handle, the algorithms it has named, and memory to work in.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/driver/cublaslt.h"
#include "gpukit/driver/objects.h"
#include "gpukit/memory/storage.h"

namespace gpukit::cuda {

class VendorState {
 public:
  /// One size for every problem: what the library recommends for Hopper. Algorithms never depend on what is left.
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;

  /// Null with the reason where there is no cuBLASLt, or no handle yet and this thread captures. Throws CublasLtError.
  static VendorState* of(driver::Context& context, std::string* reason);
  /// For tests.
  static void reset();

  /// The same one for the same problem, asked of the library once; null where it has no algorithm.
  std::shared_ptr<driver::LtProduct> product(const driver::LtProblem& problem);

  /// The memory of `stream`: work of one stream runs in order and may share it. A capture has memory of its own, made
  /// before it began, for the stream it began on. Null: there is none, and none may or can be made.
  std::shared_ptr<memory::Storage> workspace(const std::shared_ptr<driver::Stream>& stream);

 private:
  explicit VendorState(driver::Context& context) : context_(context), handle_(driver::cublaslt().table) {}
  static void before_capture(const std::shared_ptr<driver::Stream>& stream);
  std::shared_ptr<memory::Storage> find_or_make(const std::shared_ptr<driver::Stream>& stream, bool captured);

  struct Workspace {
    uint64_t stream;
    bool captured;
    std::shared_ptr<memory::Storage> memory;
  };

  driver::Context& context_;
  driver::LtHandle handle_;
  std::mutex mutex_;  // what follows
  std::map<driver::LtProblem, std::shared_ptr<driver::LtProduct>> products_;
  std::vector<Workspace> workspaces_;  // last used last
};

}  // namespace gpukit::cuda
