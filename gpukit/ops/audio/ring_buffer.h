// Sound as it comes: the last samples of a stream, and frames that overlap. On any device; nothing waits for it.
#pragma once

#include <cstdint>
#include <mutex>

#include "gpukit/array/array.h"

namespace gpukit::audio {

/// The last `capacity` samples, float32. Any thread; calls of several streams of a GPU are the user's to order.
class RingBuffer {
 public:
  /// Throws ArgumentError, OutOfMemoryError.
  RingBuffer(int64_t capacity, int64_t sample_rate, Device device);
  int64_t capacity() const { return capacity_; }
  int64_t sample_rate() const { return sample_rate_; }
  int64_t available() const;
  /// Puts float32 samples [n] of any device at the end; the oldest leave. Gives n. Throws ShapeError, DTypeError, and
  /// Error inside a graph capture, as what is kept changes with each call.
  int64_t write(const Array& samples);
  /// A copy of samples [offset, offset + num_samples), counted from the oldest, times `window` where there is one.
  /// Throws ArgumentError for more than there are.
  Array read(int64_t num_samples, int64_t offset = 0, const Array& window = {}) const;
  /// The oldest `count` leave.
  void drop(int64_t count);
  void clear();
  Device device() const { return ring_.device(); }

 private:
  const int64_t capacity_, sample_rate_;
  const Array ring_;
  mutable std::mutex mutex_;
  int64_t start_ = 0, available_ = 0;  // of the oldest
};

/// Chunks of chunk_size samples, each hop_size behind the one before.
class SampleStream {
 public:
  /// Keeps `buffer_duration` seconds, one chunk at least. Throws ArgumentError.
  SampleStream(int64_t chunk_size, int64_t hop_size, int64_t sample_rate, double buffer_duration, Device device);
  int64_t chunk_size() const { return chunk_size_; }
  int64_t hop_size() const { return hop_size_; }
  int64_t sample_rate() const { return ring_.sample_rate(); }
  int64_t capacity() const { return ring_.capacity(); }
  Device device() const { return ring_.device(); }
  int64_t push(const Array& samples) { return ring_.write(samples); }
  int64_t chunks_available() const;
  /// The next chunk, times a Hann window that is 0 at both ends. Throws Error when there is none.
  Array pop_chunk(bool apply_window = true);
  void reset() { ring_.clear(); }

 private:
  const int64_t chunk_size_, hop_size_;
  RingBuffer ring_;
  Array window_;
};

}  // namespace gpukit::audio
