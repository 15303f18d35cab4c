#include "gpukit/runtime/workspace.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"

namespace gpukit::runtime {
namespace {

/// Of a context. Streams beyond them take turns: a block that is let go waits for its stream's work before it is used
/// again.
constexpr int kMaxWorkspaces = 8;

struct Workspace {
  const driver::Context* context;
  uint64_t stream;
  bool captured;
  std::shared_ptr<memory::Storage> memory;
};
struct Workspaces {
  std::mutex mutex;
  std::vector<Workspace> list;  // last used last
  std::vector<const driver::Context*> captured;
};
Workspaces& workspaces() {
  static Workspaces* instance = new Workspaces;
  return *instance;
}

bool is_captured(const Workspaces& all, const driver::Context& context) {
  return std::find(all.captured.begin(), all.captured.end(), &context) != all.captured.end();
}

std::shared_ptr<memory::Storage> find_or_make(const std::shared_ptr<driver::Stream>& stream, bool captured) {
  std::shared_ptr<memory::Storage> dropped;  // goes after the lock
  Workspaces& all = workspaces();
  std::lock_guard lock(all.mutex);
  const auto found = std::find_if(all.list.begin(), all.list.end(), [&](const Workspace& w) {
    return w.stream == stream->id() && w.captured == captured;
  });
  if (found != all.list.end()) {
    std::rotate(found, found + 1, all.list.end());
    return all.list.back().memory;
  }
  if (thread_capture() != nullptr) return nullptr;
  std::shared_ptr<memory::Storage> made;
  try {
    made = memory::Storage::allocate(*open_device(stream->device()).resource, kWorkspaceBytes, stream);
  } catch (const OutOfMemoryError&) {
    return nullptr;
  }
  const auto is_neighbour = [&](const Workspace& w) { return w.context == &stream->context(); };
  if (std::count_if(all.list.begin(), all.list.end(), is_neighbour) == kMaxWorkspaces) {
    const auto oldest = std::find_if(all.list.begin(), all.list.end(), is_neighbour);
    dropped = std::move(oldest->memory);
    all.list.erase(oldest);
  }
  all.list.push_back({&stream->context(), stream->id(), captured, made});
  return made;
}

}  // namespace

std::shared_ptr<memory::Storage> workspace(const std::shared_ptr<driver::Stream>& stream) {
  return find_or_make(stream, thread_capture() != nullptr);
}

void keep_workspaces_for_captures(const driver::Context& context) {
  Workspaces& all = workspaces();
  {
    std::lock_guard lock(all.mutex);
    if (is_captured(all, context)) return;
    all.captured.push_back(&context);
  }
  set_capture_hook([](const std::shared_ptr<driver::Stream>& stream) {
    bool wanted;
    {
      std::lock_guard lock(workspaces().mutex);
      wanted = is_captured(workspaces(), stream->context());
    }
    if (wanted) find_or_make(stream, true);
  });
}

void reset_workspaces() {
  set_capture_hook(nullptr);
  std::vector<Workspace> dropped;  // goes after the lock
  Workspaces& all = workspaces();
  std::lock_guard lock(all.mutex);
  dropped.swap(all.list);
  all.captured.clear();
}

}  // namespace gpukit::runtime
