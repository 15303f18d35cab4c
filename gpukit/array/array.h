// Array: a strided view of a storage. Views only; whatever needs a kernel is in ops/.
#pragma once

#include <memory>
#include <optional>

#include "gpukit/base/device.h"
#include "gpukit/base/dims.h"
#include "gpukit/base/dtype.h"
#include "gpukit/memory/storage.h"

namespace gpukit {

class Array {
 public:
  Array() = default;  // no array; defined() is false
  Array(std::shared_ptr<memory::Storage> storage, DType dtype, const Dims& shape, const Dims& strides,
        int64_t offset_bytes);

  /// Uninitialised, row-major, on the current stream of `device`. Throws ShapeError (negative), OutOfMemoryError,
  /// and Error inside a graph capture.
  static Array empty(const Dims& shape, DType dtype, Device device);
  static Array empty(const Dims& shape, DType dtype);  // default device
  static Array empty_like(const Array& other);         // row-major, same shape, dtype, device

  bool defined() const { return storage_ != nullptr; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  const Dims& shape() const { return shape_; }
  /// Negative axes count from the end. Throws OutOfRangeError.
  int64_t shape(int axis) const;
  /// In elements.
  const Dims& strides() const { return strides_; }
  int ndim() const { return shape_.rank(); }
  int64_t size() const { return size_; }
  int64_t nbytes() const { return size_ * itemsize(dtype_); }
  bool is_contiguous() const { return contiguous_; }
  int64_t offset_bytes() const { return offset_bytes_; }
  const std::shared_ptr<memory::Storage>& storage() const { return storage_; }
  driver::Context& context() const { return storage_->context(); }
  /// A CPU array's memory, which stays where it is from now on. Throws DeviceError on a GPU array: launches take
  /// arrays.
  void* host_data() const;

  // Views of the same storage; none copies. Each throws ShapeError or OutOfRangeError naming itself.
  Array reshape_view(const Dims& shape) const;  // throws ShapeError when strides do not allow it
  bool can_view(const Dims& shape) const;
  Array permute(const Dims& axes) const;
  Array transpose() const;  // axes reversed
  Array slice(int axis, int64_t start, int64_t stop,
              int64_t step) const;              // resolved: 0 <= start, size computed NumPy's way
  Array select(int axis, int64_t index) const;  // drops the axis; negative allowed
  Array expand_dims(int axis) const;
  Array squeeze(int axis) const;
  Array squeeze() const;
  Array broadcast_to(const Dims& shape) const;
  Array narrow(int axis, int64_t start, int64_t length) const;
  /// Same bytes, other dtype of the same item size (any strides), or of another size when the last axis is contiguous.
  Array bitcast(DType dtype) const;

 private:
  std::shared_ptr<memory::Storage> storage_;
  Dims shape_, strides_;
  int64_t offset_bytes_ = 0;
  int64_t size_ = 0;
  DType dtype_ = DType::float32;
  bool contiguous_ = true;
};

/// For launch and run_host.
inline memory::Use read(const Array& a) { return {&a.storage(), a.offset_bytes(), false}; }
inline memory::Use write(const Array& a) { return {&a.storage(), a.offset_bytes(), true}; }

/// Both views touch a common byte (by their extents) and are not the very same view.
bool partially_overlap(const Array& a, const Array& b);
/// Some element is reached twice (a broadcast view): not writable.
bool has_internal_overlap(const Array& a);

}  // namespace gpukit
