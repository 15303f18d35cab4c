// Memory for what one call makes and uses up: bytes that every stream keeps for its calls, and every capture for its
// own.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "gpukit/memory/account.h"
#include "gpukit/memory/storage.h"

namespace gpukit::runtime {

/// Bytes of one thread's calls on one stream. A call that is made by another takes what lies behind that one's.
struct WorkspaceStack {
  std::shared_ptr<memory::Storage> storage;
  size_t used = 0;
  std::thread::id owner;  // of no thread: nothing is used
};

/// What the captured calls of one stream work in.
struct CaptureStream {
  uint64_t stream = 0;
  std::shared_ptr<WorkspaceStack> stack = std::make_shared<WorkspaceStack>();
  std::shared_ptr<memory::Storage> counters;
};

/// The workspace of a capture, and then of its graph. One thread at a time.
struct CaptureWorkspace {
  std::vector<CaptureStream> streams;
  std::vector<std::shared_ptr<memory::Storage>> made;  // every block, also those that later calls have outgrown
  bool has(const memory::Storage& storage) const;
};

/// `bytes` of the workspace of the current stream, or of the running capture, until its life ends; uninitialised, at a
/// multiple of 256 bytes. Work of one stream runs in order, so the next call may have the same bytes. In a capture they
/// are the graph's. Pieces that a thread has at one time go in the reverse order of their making.
class WorkspacePiece {
 public:
  /// Throws OutOfMemoryError, CudaError.
  WorkspacePiece(Device device, size_t bytes);
  ~WorkspacePiece();
  WorkspacePiece(const WorkspacePiece&) = delete;
  WorkspacePiece& operator=(const WorkspacePiece&) = delete;

  const std::shared_ptr<memory::Storage>& storage() const { return storage_; }  // null: 0 bytes were asked for
  int64_t offset() const { return static_cast<int64_t>(before_); }

 private:
  std::shared_ptr<WorkspaceStack> stack_;
  std::shared_ptr<memory::Storage> storage_;
  size_t before_ = 0;  // used before this one
};

/// Of a block with counters: all bytes, and those in front that are 0 whenever a kernel starts.
inline constexpr size_t kCountedBytes = 64 << 10;
inline constexpr size_t kCounterBytes = 256;

/// A block that nothing but the current stream's work, or the running capture's graph, uses. Its counters were set to 0
/// when it was made, and a kernel that counts there leaves them 0. Throws OutOfMemoryError, CudaError.
std::shared_ptr<memory::Storage> counted_workspace(Device device);

/// Lets go of the blocks of `context`'s device that no call uses now and that are charged to `scope` or below (null:
/// all of them). False: there was none.
bool reclaim_workspaces(const driver::Context& context, const memory::Account* scope) noexcept;

/// Blocks that streams of the device keep now, for tests.
int64_t num_workspaces(Device device);

/// Writes `word` over what the current stream keeps for its next calls, but for the counters: for tests.
void fill_workspaces(Device device, uint32_t word);

}  // namespace gpukit::runtime
