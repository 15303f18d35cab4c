// Page-locked host memory for evicted blocks: grown on use, kept, capped.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "gpukit/driver/objects.h"

namespace gpukit::memory {

class HostArena {
 public:
  HostArena(driver::Context& context, size_t limit) : context_(context), limit_(limit) {}
  ~HostArena();
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  /// Null when the limit, or the machine, allows no more. Throws CudaError for other faults.
  void* allocate(size_t bytes);
  void release(void* memory) noexcept;
  /// Gives unused memory back; the number of bytes.
  size_t trim() noexcept;
  size_t used() const;
  size_t reserved() const;
  size_t limit() const { return limit_; }
  std::mutex& mutex() { return mutex_; }  // around a fork

 private:
  struct Segment {
    char* base = nullptr;
    size_t bytes = 0;
    std::map<size_t, size_t> free;  // offset, bytes
    std::map<size_t, size_t> used;
  };
  void* take(size_t bytes);
  /// `bytes` more fit below the limit without the segments that no block uses, and not with them.
  bool must_trim(size_t bytes) const;
  bool grow(size_t bytes);

  driver::Context& context_;
  const size_t limit_;
  mutable std::mutex mutex_;
  std::vector<Segment> segments_;
  size_t reserved_ = 0, used_ = 0;
};

}  // namespace gpukit::memory
