#include "gpukit/runtime/workspace.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "gpukit/base/fork.h"
#include "gpukit/memory/fence.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::runtime {

namespace {

using StoragePtr = std::shared_ptr<memory::Storage>;
using AccountPtr = std::shared_ptr<memory::Account>;

constexpr size_t kAlignment = 256;
constexpr size_t kLeast = 64 << 10;  // small calls share one block

/// What the calls of one stream work in, charged to one account. Threads that call at the same time have a stack each.
struct StreamWorkspace {
  std::weak_ptr<driver::Stream> stream;
  AccountPtr account;
  std::vector<std::shared_ptr<WorkspaceStack>> stacks;
  StoragePtr counters;

  /// Blocks that hold the stream.
  long num_blocks() const {
    return std::count_if(stacks.begin(), stacks.end(), [](const auto& stack) { return stack->storage != nullptr; }) +
           (counters != nullptr ? 1 : 0);
  }
};

struct Registry {
  using Key = std::pair<uint64_t, const memory::Account*>;
  std::mutex mutex;
  std::map<Key, StreamWorkspace> streams;
};

Registry& registry() {
  static auto* value = new Registry;
  return *value;
}

std::mutex& registry_mutex() { return registry().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<registry_mutex>();

AccountPtr paying_account(const DeviceState& state) {
  AccountPtr account = current_account(state.context.device());
  return account != nullptr ? account : state.resource->root();
}

size_t block_bytes(size_t needed) { return std::max((needed + kAlignment - 1) / kAlignment * kAlignment, kLeast); }

/// Moves the blocks that no call uses out of `workspace`.
void take_idle(StreamWorkspace& workspace, std::vector<StoragePtr>* taken) {
  std::erase_if(workspace.stacks, [&](const std::shared_ptr<WorkspaceStack>& stack) {
    if (stack->owner != std::thread::id()) return false;
    if (stack->storage != nullptr) taken->push_back(std::move(stack->storage));
    return true;
  });
  if (workspace.counters != nullptr) taken->push_back(std::move(workspace.counters));
}

/// Blocks of streams that no one else holds any more go back to the pool.
void release_abandoned() {
  struct Candidate {
    Registry::Key key;
    std::shared_ptr<driver::Stream> stream;
    long num_blocks;
  };
  Registry& all = registry();
  std::vector<Candidate> candidates;
  {
    std::lock_guard lock(all.mutex);
    for (const auto& [key, workspace] : all.streams)
      if (auto stream = workspace.stream.lock()) candidates.push_back({key, std::move(stream), workspace.num_blocks()});
  }
  std::vector<StoragePtr> taken;  // these go after the lock
  std::vector<StreamWorkspace> ended;
  std::vector<Registry::Key> gone;
  for (const Candidate& candidate : candidates) {
    long ours = 0;  // a stream has an entry for each account
    for (const Candidate& other : candidates)
      if (other.stream == candidate.stream) ours += 1 + other.num_blocks;
    const memory::Pool& pool = *open_device(candidate.stream->device()).resource;
    if (candidate.stream.use_count() <= ours + pool.num_lanes(*candidate.stream)) gone.push_back(candidate.key);
  }
  std::lock_guard lock(all.mutex);
  for (auto at = all.streams.begin(); at != all.streams.end();) {
    const auto entry = at++;
    if (!entry->second.stream.expired()) continue;
    ended.push_back(std::move(entry->second));
    all.streams.erase(entry);
  }
  for (const Registry::Key& key : gone)
    if (const auto found = all.streams.find(key); found != all.streams.end()) take_idle(found->second, &taken);
}

/// The entry of the stream. The lock is held.
StreamWorkspace& workspace_of(const std::shared_ptr<driver::Stream>& stream, const AccountPtr& account) {
  StreamWorkspace& workspace = registry().streams[{stream->id(), account.get()}];
  if (workspace.account == nullptr) {
    workspace.stream = stream;
    workspace.account = account;
  }
  return workspace;
}

/// A block that no work uses any more: a capture cannot be made to wait for such work. With `zeroed`, its counters are
/// 0.
StoragePtr allocate_for_capture(DeviceState& state, size_t bytes, bool zeroed) {
  const memory::RelaxedCapture relaxed(state.context);
  const std::shared_ptr<driver::Stream> lane = new_stream(state.context.device(), 0, false);
  StoragePtr storage = memory::Storage::allocate(*state.resource, bytes, lane, paying_account(state));
  if (zeroed) lane->api().fill_async(storage->pin(), 4, 0, kCounterBytes / 4, lane->handle());
  lane->synchronize();
  if (zeroed) storage->unpin();
  return storage;
}

CaptureStream& capture_stream(Capture& capture, Device device) {
  const uint64_t id = current_stream(device)->id();
  std::vector<CaptureStream>& streams = capture.workspace.streams;
  for (CaptureStream& known : streams)
    if (known.stream == id) return known;
  streams.emplace_back().stream = id;
  return streams.back();
}

}  // namespace

bool CaptureWorkspace::has(const memory::Storage& storage) const {
  return std::any_of(made.begin(), made.end(), [&](const StoragePtr& block) { return block.get() == &storage; });
}

WorkspacePiece::WorkspacePiece(Device device, size_t bytes) {
  if (bytes == 0) return;
  DeviceState& state = open_device(device);
  state.health.check();
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (Capture* capture = thread_capture()) {
    std::shared_ptr<WorkspaceStack> stack = capture_stream(*capture, device).stack;
    if (stack->storage == nullptr || stack->storage->bytes() < stack->used + bytes) {
      stack->storage = allocate_for_capture(state, block_bytes(stack->used + bytes), false);
      capture->workspace.made.push_back(stack->storage);
    }
    storage_ = stack->storage;
    before_ = std::exchange(stack->used, stack->used + bytes);
    stack_ = std::move(stack);
    return;
  }
  const std::shared_ptr<driver::Stream> stream = current_stream(device);
  const AccountPtr account = paying_account(state);
  const std::thread::id self = std::this_thread::get_id();
  StoragePtr outgrown;
  {
    std::lock_guard lock(registry().mutex);
    StreamWorkspace& workspace = workspace_of(stream, account);
    for (const auto& stack : workspace.stacks) {
      if (stack->owner == self) {
        stack_ = stack;
        break;
      }
      if (stack_ == nullptr && stack->owner == std::thread::id()) stack_ = stack;
    }
    if (stack_ == nullptr) stack_ = workspace.stacks.emplace_back(std::make_shared<WorkspaceStack>());
    stack_->owner = self;
    before_ = stack_->used;
    if (stack_->storage != nullptr && stack_->storage->bytes() >= before_ + bytes) {
      storage_ = stack_->storage;
      stack_->used += bytes;
      return;
    }
    outgrown = std::move(stack_->storage);
  }
  // From here on no other thread takes or reclaims the stack. Pieces in the old block keep it for themselves.
  outgrown.reset();
  StoragePtr made;
  try {
    release_abandoned();
    made = memory::Storage::allocate(*state.resource, block_bytes(before_ + bytes), stream, account);
  } catch (...) {
    std::lock_guard lock(registry().mutex);
    if (before_ == 0) stack_->owner = {};
    throw;
  }
  std::lock_guard lock(registry().mutex);
  storage_ = stack_->storage = std::move(made);
  stack_->used = before_ + bytes;
}

WorkspacePiece::~WorkspacePiece() {
  if (stack_ == nullptr) return;
  if (stack_->owner == std::thread::id()) {  // of a capture
    stack_->used = before_;
    return;
  }
  std::lock_guard lock(registry().mutex);
  stack_->used = before_;
  if (before_ == 0) stack_->owner = {};
}

StoragePtr counted_workspace(Device device) {
  DeviceState& state = open_device(device);
  state.health.check();
  if (Capture* capture = thread_capture()) {
    CaptureStream& own = capture_stream(*capture, device);
    if (own.counters == nullptr) {
      StoragePtr made = allocate_for_capture(state, kCountedBytes, true);
      capture->workspace.made.push_back(made);
      own.counters = std::move(made);
    }
    return own.counters;
  }
  const std::shared_ptr<driver::Stream> stream = current_stream(device);
  const AccountPtr account = paying_account(state);
  {
    std::lock_guard lock(registry().mutex);
    if (const StoragePtr& known = workspace_of(stream, account).counters; known != nullptr) return known;
  }
  release_abandoned();
  StoragePtr made = memory::Storage::allocate(*state.resource, kCountedBytes, stream, account);
  fill({&made, 0, true}, 4, 0, kCounterBytes / 4);
  std::lock_guard lock(registry().mutex);
  return workspace_of(stream, account).counters = made;
}

bool reclaim_workspaces(const driver::Context& context, const memory::Account* scope) noexcept {
  std::vector<StoragePtr> taken;  // these go after the lock
  std::vector<StreamWorkspace> ended;
  try {
    std::lock_guard lock(registry().mutex);
    auto& streams = registry().streams;
    for (auto at = streams.begin(); at != streams.end();) {
      const auto entry = at++;
      StreamWorkspace& workspace = entry->second;
      if (!(workspace.account->device() == context.device())) continue;
      if (scope != nullptr && !scope->contains(*workspace.account)) continue;
      take_idle(workspace, &taken);
      if (!workspace.stacks.empty()) continue;
      ended.push_back(std::move(workspace));
      streams.erase(entry);
    }
  } catch (const std::bad_alloc&) {
    // What was taken until now goes.
  }
  return !taken.empty();
}

int64_t num_workspaces(Device device) {
  std::lock_guard lock(registry().mutex);
  int64_t count = 0;
  for (const auto& [key, workspace] : registry().streams)
    if (workspace.account->device() == device) count += workspace.num_blocks();
  return count;
}

void fill_workspaces(Device device, uint32_t word) {
  const auto stream = current_stream(device);
  const AccountPtr account = paying_account(open_device(device));
  std::vector<StoragePtr> blocks;
  StoragePtr counters;
  {
    std::lock_guard lock(registry().mutex);
    const StreamWorkspace& workspace = workspace_of(stream, account);
    for (const auto& stack : workspace.stacks)
      if (stack->owner == std::thread::id() && stack->storage != nullptr) blocks.push_back(stack->storage);
    counters = workspace.counters;
  }
  for (const StoragePtr& block : blocks) fill({&block, 0, true}, 4, word, block->bytes() / 4);
  if (counters != nullptr) fill({&counters, kCounterBytes, true}, 4, word, (kCountedBytes - kCounterBytes) / 4);
}

}  // namespace gpukit::runtime
