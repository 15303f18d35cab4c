#include "gpukit/array/dlpack.h"

#include <algorithm>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/hold.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::dlpack {

namespace {

constexpr uint64_t kLegacyStream = 1, kPerThreadStream = 2;

/// What a tensor of ours owns; manager_ctx points here.
template <typename Managed>
struct Exported {
  Managed managed{};
  Array array;
  memory::Pin pin;  // the other side knows the address
  Dims shape, strides;
  uint64_t consumer = 0;
};

driver::StreamHandle raw_stream(uint64_t handle) { return reinterpret_cast<driver::StreamHandle>(handle); }

/// The consumer has let go, but its kernels may still read: our streams wait for them before the memory can be reused.
void follow_consumer(const Array& array, uint64_t consumer) noexcept {
  if (array.device().kind != DeviceKind::cuda || (consumer != kLegacyStream && consumer != kPerThreadStream)) return;
  try {
    driver::Context& context = array.context();
    context.make_current();
    driver::Event done(context);
    context.api().record_event(done.handle(), raw_stream(consumer));
    for (const auto& stream : array.storage()->streams())
      if (stream->capture.load(std::memory_order_relaxed) == nullptr) stream->wait(done);
  } catch (...) {
    // A driver that is going down has no kernels left to wait for.
  }
}

template <typename Managed>
void delete_exported(Managed* managed) {
  if (managed == nullptr) return;
  auto* exported = static_cast<Exported<Managed>*>(managed->manager_ctx);
  follow_consumer(exported->array, exported->consumer);
  delete exported;
}

template <typename Managed>
std::unique_ptr<Managed, void (*)(Managed*)> export_as(const Array& array, DLPackVersion version, uint64_t consumer) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->array = array;
  exported->pin = memory::Pin(array.storage());
  memory::melt(*array.storage());
  exported->shape = array.shape();
  exported->strides = array.strides();
  exported->consumer = consumer;
  DLTensor& tensor = exported->managed.dl_tensor;
  // Host memory and device memory alike travel as plain addresses.
  tensor.data = reinterpret_cast<void*>(exported->pin.address() + static_cast<uint64_t>(array.offset_bytes()));
  tensor.device = to_dl_device(array.device());
  tensor.ndim = array.ndim();
  tensor.dtype = to_dl_dtype(array.dtype(), version);
  tensor.shape = exported->shape.begin();
  tensor.strides = exported->strides.begin();
  tensor.byte_offset = 0;
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = &delete_exported<Managed>;
  return {&exported.release()->managed, &delete_exported<Managed>};
}

}  // namespace

DLDataType to_dl_dtype(DType dtype, DLPackVersion version) {
  const auto bits = static_cast<uint8_t>(8 * itemsize(dtype));
  switch (dtype) {
    case DType::boolean: return {kBool, 8, 1};
    case DType::bfloat16: return {kBfloat, 16, 1};
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      if (version.major == 0 || (version.major == 1 && version.minor < 1))
        throw ExchangeError(std::string("dlpack: ") + name(dtype) + " needs DLPack 1.1 on the other side");
      return {dtype == DType::float8_e4m3 ? kFloat8E4M3FN : kFloat8E5M2, 8, 1};
    case DType::int4:
    case DType::float4_e2m1:
      throw ExchangeError(std::string("dlpack: ") + name(dtype) + " cannot be represented; bitcast it to uint8 first");
    default: break;
  }
  if (is_signed_integer(dtype)) return {kInt, bits, 1};
  if (is_unsigned_integer(dtype)) return {kUInt, bits, 1};
  if (is_complex(dtype)) return {kComplex, bits, 1};
  return {kFloat, bits, 1};
}

DType from_dl_dtype(DLDataType given) {
  for (int i = 0; i < kNumDTypes; ++i) {
    DType dtype = static_cast<DType>(i);
    if (is_packed(dtype)) continue;
    DLDataType ours = to_dl_dtype(dtype, {kMajor, kMinor});
    if (ours.code == given.code && ours.bits == given.bits && given.lanes == 1) return dtype;
  }
  throw ExchangeError("dlpack: no dtype for code " + std::to_string(given.code) + ", " + std::to_string(given.bits) +
                      " bits, " + std::to_string(given.lanes) + " lane(s)");
}

DLDevice to_dl_device(Device device) { return {device.kind == DeviceKind::cpu ? kCpu : kCuda, device.index}; }

namespace {

int16_t device_index(DLDevice device) {
  if (device.device_id < 0 || device.device_id > INT16_MAX)
    throw ExchangeError("dlpack: there is no device " + std::to_string(device.device_id));
  return static_cast<int16_t>(device.device_id);
}

}  // namespace

Device from_dl_device(DLDevice device) {
  switch (device.device_type) {
    case kCpu: return {DeviceKind::cpu, device_index(device)};
    case kCudaHost: return {DeviceKind::cpu, 0};
    case kCuda:
    case kCudaManaged: return {DeviceKind::cuda, device_index(device)};
    default:
      throw ExchangeError("dlpack: device type " + std::to_string(device.device_type) + " is neither CPU nor CUDA");
  }
}

std::unique_ptr<DLManagedTensorVersioned, void (*)(DLManagedTensorVersioned*)> export_versioned(const Array& array,
                                                                                                bool copied,
                                                                                                DLPackVersion version,
                                                                                                uint64_t consumer) {
  auto managed = export_as<DLManagedTensorVersioned>(array, version, consumer);
  managed->version = version;
  // An element reached twice must not be written through another library.
  if (has_internal_overlap(array)) managed->flags |= kReadOnly;
  if (copied) managed->flags |= kIsCopied;
  return managed;
}

std::unique_ptr<DLManagedTensor, void (*)(DLManagedTensor*)> export_legacy(const Array& array, uint64_t consumer) {
  return export_as<DLManagedTensor>(array, {0, 0}, consumer);
}

void publish(const Array& array, uint64_t consumer) {
  runtime::refuse_in_capture("dlpack", "hands the array to another library");
  // A transfer that still waits in the engine is on no stream yet.
  const memory::Use use{&array.storage(), 0, true};
  runtime::settle({&use, 1}, *runtime::borrow_stream(array.device()));
  if (array.device().kind == DeviceKind::cpu) {
    for (const auto& stream : array.storage()->streams()) runtime::synchronize(*stream, "dlpack");
    return;
  }
  driver::Context& context = array.context();
  context.make_current();
  for (const auto& stream : array.storage()->streams()) {
    if (reinterpret_cast<uint64_t>(stream->handle()) == consumer) continue;
    driver::Event ready(context);
    ready.record(*stream);
    context.api().wait_event(raw_stream(consumer), ready.handle());
  }
}

Array import(const DLTensor& tensor, std::function<void()> release) {
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank)
    throw ExchangeError("dlpack: " + std::to_string(tensor.ndim) + " dimensions; at most " + std::to_string(kMaxRank) +
                        " are supported");
  if (tensor.ndim > 0 && tensor.shape == nullptr) throw ExchangeError("dlpack: a tensor without a shape");
  DType dtype = from_dl_dtype(tensor.dtype);
  const int64_t item = itemsize(dtype);
  Dims shape(std::span<const int64_t>(tensor.shape, static_cast<size_t>(tensor.ndim)));
  Dims strides;
  Reach reach;
  int64_t size = 0;
  try {
    size = checked_size("dlpack", shape, static_cast<int>(item));
    strides = contiguous_strides(shape);
    // Strides that no element is reached by may be anything.
    for (int axis = 0; tensor.strides != nullptr && axis < shape.rank(); ++axis)
      if (size != 0 && shape[axis] > 1) strides[axis] = tensor.strides[axis];
    reach = checked_reach("dlpack", shape, strides, static_cast<int>(item));
  } catch (const ShapeError& error) {
    throw ExchangeError(error.what());
  }
  const uint64_t first = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
  if (size != 0 && tensor.data == nullptr) throw ExchangeError("dlpack: a tensor without data");
  if (size != 0 && first % static_cast<uint64_t>(is_complex(dtype) ? item / 2 : item) != 0)
    throw ExchangeError(std::string("dlpack: data must be aligned for ") + name(dtype) + "; copy it first");
  runtime::DeviceState& state = runtime::open_device(from_dl_device(tensor.device));
  auto storage = memory::Storage::adopt(state.context, first + static_cast<uint64_t>(reach.low * item),
                                        size == 0 ? 0 : static_cast<size_t>((reach.high - reach.low + 1) * item),
                                        std::move(release));
  return Array(std::move(storage), dtype, shape, strides, -reach.low * item);
}

}  // namespace gpukit::dlpack
