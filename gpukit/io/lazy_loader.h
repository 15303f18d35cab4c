// Tensors that are read when they are asked for and given up when others need their room: a model larger than its
// memory.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/io/safetensors.h"

namespace gpukit::io {

enum class TensorState : uint8_t { on_disk, loading, loaded, evicted };  // evicted: on disk, and loaded before

/// What is loaded stays within a budget of bytes. A tensor that someone else holds is not given up, since its memory
/// would stay in use. Any thread may use it; one tensor is read at a time.
class LazyLoader {
 public:
  struct Stats {
    int64_t budget_bytes = 0, loaded_bytes = 0, peak_bytes = 0;
    int64_t loaded = 0, tensors = 0;
    int64_t hits = 0, misses = 0, evictions = 0;
  };

  /// With `evict` the tensors used longest ago make room. Throws ArgumentError for a budget below 1.
  LazyLoader(int64_t budget_bytes, bool evict, Device device);

  /// Throws as TensorFile::open, and ArgumentError for a tensor that another file has too.
  void add_file(const std::string& path);
  /// In the order of the files.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const;
  int64_t num_files() const;
  int64_t total_bytes() const;  // of all tensors; opens every file

  /// The tensor on the device. Throws NotFoundError; OutOfMemoryError where the budget does not hold it; what reading
  /// throws.
  Array get(std::string_view name);
  /// Loads the tensors whose names begin with `prefix`, in their order, as far as the budget has room without giving
  /// anything up. How many.
  int64_t prefetch(std::string_view prefix);
  std::vector<std::string> loaded() const;  // used longest ago first
  TensorState state(std::string_view name) const;

  struct Unloaded {
    int64_t tensors = 0, bytes = 0;
  };
  /// Gives up tensors whose names begin with `prefix`, named ones, or all. Who holds one keeps it.
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
  Entry& find(std::string_view name);
  const Entry& find(std::string_view name) const;
  void make_room(std::string_view name, int64_t bytes);
  void load(Entries::iterator at, int64_t bytes);
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
  Stats stats_;
};

}  // namespace gpukit::io
