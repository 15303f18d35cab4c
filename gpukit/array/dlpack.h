// DLPack: arrays in the exchange format of array libraries. Structs are those of the protocol's C ABI, version 1.1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "gpukit/array/array.h"

namespace gpukit::dlpack {

inline constexpr uint32_t kMajor = 1, kMinor = 1;

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4M3FN = 10,
  kFloat8E5M2 = 12,
};
enum Flag : uint64_t { kReadOnly = 1, kIsCopied = 2 };

struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
struct DLPackVersion {
  uint32_t major, minor;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

/// Throws ExchangeError for packed dtypes, and for float8 in capsules older than 1.1.
DLDataType to_dl_dtype(DType dtype, DLPackVersion version);
/// Throws ExchangeError for what no DType represents (lanes, sub-byte types, opaque handles).
DType from_dl_dtype(DLDataType dtype);
DLDevice to_dl_device(Device device);
/// Page-locked host memory counts as CPU, managed memory as CUDA. Throws ExchangeError for other kinds.
Device from_dl_device(DLDevice device);

/// A tensor that shares the array's memory and keeps it alive until its deleter is called, from any thread.
/// `consumer` is the stream the other side works on (1 legacy, 2 per-thread, else none to follow): the memory is reused
/// only after what that stream holds when the deleter is called.
std::unique_ptr<DLManagedTensorVersioned, void (*)(DLManagedTensorVersioned*)> export_versioned(const Array& array,
                                                                                                bool copied,
                                                                                                DLPackVersion version,
                                                                                                uint64_t consumer);
std::unique_ptr<DLManagedTensor, void (*)(DLManagedTensor*)> export_legacy(const Array& array, uint64_t consumer);

/// Makes the stream `consumer` (DLPack's integers: 1 legacy, 2 per-thread, otherwise a driver handle) wait for all work
/// of ours on the array, queued transfers included. Host arrays: waits here. Throws inside a capture.
void publish(const Array& array, uint64_t consumer);

/// An array over foreign memory. `release` is called once when the last owner is gone and our work on it has finished.
/// Throws ExchangeError; `release` is not called then.
Array import(const DLTensor& tensor, std::function<void()> release);

}  // namespace gpukit::dlpack
