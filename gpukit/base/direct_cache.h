// A small table of what was computed last for a key: direct-mapped, one for each thread, nothing is ever allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace gpukit {

/// Mixes words into a hash.
inline uint64_t mix_hash(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

/// `kEntries` is a power of two. Keys are compared by ==; one that meets another's place takes it.
template <typename Key, typename Value, size_t kEntries>
class DirectCache {
 public:
  /// What is kept for `key`, or the result of `make`, which is kept from then on.
  template <typename Make>
  const Value& get(const Key& key, uint64_t hash, const Make& make) {
    std::optional<Entry>& entry = entries_[hash >> 32 & (kEntries - 1)];
    if (!entry || !(entry->key == key)) entry.emplace(Entry{key, make()});
    return entry->value;
  }

 private:
  struct Entry {
    Key key;
    Value value;
  };
  std::array<std::optional<Entry>, kEntries> entries_;
};

}  // namespace gpukit
