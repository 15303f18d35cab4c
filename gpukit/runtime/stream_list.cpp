#include "gpukit/runtime/stream_list.h"

#include <atomic>
#include <mutex>

#include "gpukit/base/fork.h"

namespace gpukit::runtime {

namespace {

struct Entry {
  std::weak_ptr<driver::Stream> stream;
  std::string label;
};

struct List {
  std::mutex mutex;
  std::vector<Entry> entries;
  size_t tidy_at = 64;
};

List& list() {
  static auto* value = new List;
  return *value;
}

std::mutex& list_mutex() { return list().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<list_mutex>();

std::atomic<StreamWatcher> g_watcher{nullptr};

}  // namespace

void list_stream(const std::shared_ptr<driver::Stream>& stream, const std::string& label) {
  List& all = list();
  {
    std::lock_guard lock(all.mutex);
    if (all.entries.size() >= all.tidy_at) {
      std::erase_if(all.entries, [](const Entry& entry) { return entry.stream.expired(); });
      all.tidy_at = 2 * all.entries.size() + 64;
    }
    all.entries.push_back({stream, label});
  }
  // After the entry is there: who sets a watcher and then reads the list misses no stream.
  if (StreamWatcher watcher = g_watcher.load(std::memory_order_acquire)) watcher({stream, label});
}

std::vector<ListedStream> listed_streams() {
  std::vector<ListedStream> alive;
  List& all = list();
  std::lock_guard lock(all.mutex);
  for (const Entry& entry : all.entries)
    if (auto stream = entry.stream.lock()) alive.push_back({std::move(stream), entry.label});
  return alive;
}

void set_stream_watcher(StreamWatcher watcher) { g_watcher.store(watcher, std::memory_order_release); }

}  // namespace gpukit::runtime
