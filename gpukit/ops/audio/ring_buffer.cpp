#include "gpukit/ops/audio/ring_buffer.h"

#include <algorithm>
#include <cmath>

#include "gpukit/array/host.h"
#include "gpukit/base/number_text.h"
#include "gpukit/ops/audio/filters.cuh"
#include "gpukit/ops/audio/gather.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::audio {
namespace {

const jit::KernelSet kernels("gpukit/ops/audio/filters.cuh", gather_names({"RingSample", "SymmetricHann"}));
enum Kernel { kSample, kHann };

int64_t positive(const char* op, const char* argument, int64_t value) {
  if (value < 1) throw ArgumentError(op, argument, "be at least 1", std::to_string(value));
  return value;
}

int64_t stream_capacity(int64_t chunk_size, int64_t sample_rate, double seconds) {
  constexpr const char* kOp = "AudioStream";
  positive(kOp, "chunk_size", chunk_size);
  positive(kOp, "sample_rate", sample_rate);
  const double samples = seconds * static_cast<double>(sample_rate);
  if (!(samples >= 0 && samples < 1e15))
    throw ArgumentError(kOp, "buffer_duration", "be a number of seconds", number_text(seconds));
  return std::max(chunk_size, static_cast<int64_t>(samples));
}

}  // namespace

RingBuffer::RingBuffer(int64_t capacity, int64_t sample_rate, Device device)
    : capacity_(positive("AudioRingBuffer", "capacity", capacity)),
      sample_rate_(positive("AudioRingBuffer", "sample_rate", sample_rate)),
      ring_(Array::empty({capacity}, DType::float32, device)) {}

int64_t RingBuffer::available() const {
  std::lock_guard lock(mutex_);
  return available_;
}

int64_t RingBuffer::write(const Array& samples) {
  constexpr const char* kOp = "AudioRingBuffer.write";
  check_dtype(kOp, "samples", samples, DType::float32);
  check_ndim(kOp, "samples", samples, 1);
  runtime::refuse_in_capture(kOp, "changes with each call");
  const int64_t given = samples.shape(0), count = std::min(given, capacity_);
  if (count == 0) return given;
  Array last = samples.narrow(0, given - count, count);
  if (!(last.device() == ring_.device())) last = to_device(contiguous(last), ring_.device());
  std::lock_guard lock(mutex_);
  const int64_t at = (start_ + available_) % capacity_, first = std::min(count, capacity_ - at);
  copy_into(ring_.narrow(0, at, first), last.narrow(0, 0, first));
  if (first < count) copy_into(ring_.narrow(0, 0, count - first), last.narrow(0, first, count - first));
  const int64_t lost = std::max<int64_t>(0, available_ + count - capacity_);
  start_ = (start_ + lost) % capacity_;
  available_ += count - lost;
  return given;
}

Array RingBuffer::read(int64_t num_samples, int64_t offset, const Array& window) const {
  constexpr const char* kOp = "AudioRingBuffer.read";
  if (num_samples < 0) throw ArgumentError(kOp, "num_samples", "not be negative", std::to_string(num_samples));
  if (offset < 0) throw ArgumentError(kOp, "offset", "not be negative", std::to_string(offset));
  runtime::refuse_in_capture(kOp, "changes with each call");
  const Array out = Array::empty({num_samples}, DType::float32, ring_.device());
  std::lock_guard lock(mutex_);
  if (num_samples > available_ || offset > available_ - num_samples)
    throw ArgumentError(kOp, "num_samples", "with offset be at most the " + std::to_string(available_) + " there are",
                        std::to_string(num_samples) + " from " + std::to_string(offset));
  gather<RingSample>(kOp, kernels.get(kSample), out, ring_, window, {}, {capacity_, (start_ + offset) % capacity_});
  return out;
}

void RingBuffer::drop(int64_t count) {
  std::lock_guard lock(mutex_);
  const int64_t gone = std::clamp<int64_t>(count, 0, available_);
  start_ = (start_ + gone) % capacity_;
  available_ -= gone;
}

void RingBuffer::clear() {
  std::lock_guard lock(mutex_);
  start_ = available_ = 0;
}

SampleStream::SampleStream(int64_t chunk_size, int64_t hop_size, int64_t sample_rate, double buffer_duration,
                           Device device)
    : chunk_size_(chunk_size),
      hop_size_(positive("AudioStream", "hop_size", hop_size)),
      ring_(stream_capacity(chunk_size, sample_rate, buffer_duration), sample_rate, device),
      window_(Array::empty({chunk_size}, DType::float32, device)) {
  gather<SymmetricHann>("AudioStream", kernels.get(kHann), window_, {}, {}, {}, {chunk_size}, 64);
}

int64_t SampleStream::chunks_available() const {
  const int64_t there = ring_.available();
  return there < chunk_size_ ? 0 : (there - chunk_size_) / hop_size_ + 1;
}

Array SampleStream::pop_chunk(bool apply_window) {
  if (chunks_available() == 0)
    throw Error("AudioStream.pop_chunk: there are " + std::to_string(ring_.available()) + " samples, a chunk has " +
                std::to_string(chunk_size_));
  const Array chunk = ring_.read(chunk_size_, 0, apply_window ? window_ : Array());
  ring_.drop(hop_size_);
  return chunk;
}

}  // namespace gpukit::audio
