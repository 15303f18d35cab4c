// Tensors that are read when they are asked for and given up when others need their room: a model larger than its
// memory.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "gpukit/io/safetensors.h"
#include "gpukit/runtime/session.h"

namespace gpukit::io {

enum class TensorState : uint8_t { on_disk, loading, loaded, evicted };  // evicted: on disk, and loaded before

/// What is loaded, and being loaded, stays within a budget of bytes. A tensor that someone else holds is not given up,
/// since its memory would stay in use. Any thread may use it.
class LazyLoader {
 public:
  struct Stats {
    int64_t budget_bytes = 0, loaded_bytes = 0, peak_bytes = 0;
    int64_t loaded = 0, tensors = 0;
    int64_t hits = 0, misses = 0, evictions = 0;
  };

  /// With `evict` the tensors used longest ago make room. Throws ArgumentError for a budget below 1.
  LazyLoader(int64_t budget_bytes, bool evict, Device device);
  ~LazyLoader();
  LazyLoader(const LazyLoader&) = delete;
  LazyLoader& operator=(const LazyLoader&) = delete;

  /// Throws as TensorFile::open, and ArgumentError for a tensor that another file has too.
  void add_file(const std::string& path);
  /// In the order of the files.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  int64_t num_files() const;
  int64_t total_bytes() const;  // of all tensors; opens every file

  /// The tensor on the device; waits where it is being read. Throws NotFoundError; OutOfMemoryError where the budget
  /// does not hold it; what reading throws.
  Array get(std::string_view name);
  /// Begins to load the tensors whose names begin with `prefix`, in their order, as far as the budget has room without
  /// giving anything up; a thread reads them. How many. What cannot be read is told by get().
  int64_t prefetch(std::string_view prefix);
  /// Until nothing is being read. Lets signals through.
  void wait();
  std::vector<std::string> loaded() const;  // used longest ago first
  TensorState state(std::string_view name) const;

  struct Unloaded {
    int64_t tensors = 0, bytes = 0;
  };
  /// Gives up tensors whose names begin with `prefix`, named ones, or all, once nothing is being read. Who holds one
  /// keeps it.
  Unloaded unload(std::string_view prefix);
  Unloaded unload(std::span<const std::string> names);
  /// Forgets the files too.
  void clear();

  std::vector<std::string> with_prefix(std::string_view prefix) const;
  int64_t bytes_of(std::string_view prefix) const;
  Stats stats() const;

 private:
  struct Entry {
    TensorFile file;
    Array array;  // undefined: not loaded
    TensorState state = TensorState::on_disk;
    std::list<std::string_view>::iterator place = {};  // in used_, while loaded
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  struct Asked {
    std::string name;
    int64_t bytes;
    runtime::Session session;
  };
  using Lock = std::unique_lock<std::mutex>;
  Entry& find(std::string_view name);
  const Entry& find(std::string_view name) const;
  void make_room(std::string_view name, int64_t bytes);
  void load(Entries::iterator at, int64_t bytes);
  void loaded_now(Entries::iterator at, Array array);
  void read_ahead();
  /// Until nothing of these is being read.
  void wait(Lock& lock, const std::function<bool(std::string_view)>& which);
  void give_up(Entry& entry, TensorState state);
  template <typename Wanted>
  Unloaded unload_if(Wanted&& wanted);

  const int64_t budget_;
  const bool evict_;
  const Device device_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::vector<std::string> order_;
  std::list<std::string_view> used_;  // longest ago first
  int64_t num_files_ = 0;
  Stats stats_;                   // loaded_bytes: also what is being loaded
  std::deque<Asked> wanted_;      // for the thread
  std::vector<Asked> in_flight_;  // what it reads
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;  // made at the first prefetch
};

}  // namespace gpukit::io
