// DLPack and the CUDA array interface, in and out.
#include <nanobind/stl/string.h>

#include <memory>

#include "gpukit/array/dlpack.h"
#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/python/interop.h"
#include "gpukit/python/objects.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::python {

namespace {

constexpr const char* kCapsule = "dltensor";
constexpr const char* kUsedCapsule = "used_dltensor";
constexpr const char* kVersionedCapsule = "dltensor_versioned";
constexpr const char* kUsedVersionedCapsule = "used_dltensor_versioned";
constexpr uint64_t kLegacyStream = 1;

using dlpack::DLManagedTensor;
using dlpack::DLManagedTensorVersioned;

// Out

/// Frees the tensor of a capsule nobody consumed.
template <typename Managed>
void drop_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <typename Owner>
nb::object make_capsule(Owner managed, const char* name, PyCapsule_Destructor destructor) {
  nb::object capsule = nb::steal(PyCapsule_New(managed.get(), name, destructor));
  if (!capsule.is_valid()) nb::raise_python_error();
  managed.release();
  return capsule;
}

/// The consumer's stream by DLPack's integers; nullopt: it wants no ordering.
std::optional<uint64_t> consumer_stream(const Array& array, IntArg stream) {
  if (array.device().kind == DeviceKind::cpu) {
    if (!stream.is_none() && to_int("__dlpack__", "stream", stream) != -1)
      throw ArgumentError("__dlpack__", "stream", "be None for a CPU array", shown(stream));
    return 0;
  }
  if (stream.is_none()) return kLegacyStream;
  int64_t value = to_int("__dlpack__", "stream", stream);
  if (value == -1) return std::nullopt;
  if (value < -1 || value == 0)
    throw ArgumentError("__dlpack__", "stream", "be -1, 1, 2 or a stream handle (0 is ambiguous)",
                        std::to_string(value));
  return static_cast<uint64_t>(value);
}

std::pair<int64_t, int64_t> to_pair(const char* op, const char* argument, nb::handle value) {
  const std::vector<int64_t> both = to_ints(op, argument, value, 2);
  if (both.size() != 2) throw ArgumentError(op, argument, "be two numbers", shown(value));
  return {both[0], both[1]};
}

Device to_dl_pair(const char* op, const char* argument, nb::handle value) {
  const auto [type, id] = to_pair(op, argument, value);
  if (type != static_cast<int32_t>(type) || id != static_cast<int32_t>(id))
    throw ArgumentError(op, argument, "be (device type, device id)", shown(value));
  return dlpack::from_dl_device({static_cast<int32_t>(type), static_cast<int32_t>(id)});
}

dlpack::DLPackVersion wanted_version(nb::handle max_version) {
  if (max_version.is_none()) return {0, 0};
  const auto [major, minor] = to_pair("__dlpack__", "max_version", max_version);
  if (major < 1) return {0, 0};
  bool newer = major > dlpack::kMajor || minor > dlpack::kMinor || minor < 0;
  return {dlpack::kMajor, newer ? dlpack::kMinor : static_cast<uint32_t>(minor)};
}

AnyObject export_array(const Array& self, IntArg stream, Shown<"tuple[int, int]"> max_version,
                       Shown<"tuple[int, int]"> dl_device, BoolArg copy_wanted) {
  Array array = self;
  bool copied = false;
  const std::optional<bool> copies = to_optional_bool(copy_wanted);
  Device target = array.device();
  if (!dl_device.is_none()) target = to_dl_pair("__dlpack__", "dl_device", dl_device);
  if (!(target == array.device())) {
    if (copies == false)
      throw ExchangeError("__dlpack__: the array is on " + str(array.device()) +
                          " and copy=False forbids moving it to " + str(target));
    if (target.kind != DeviceKind::cpu)
      throw ExchangeError("__dlpack__: can copy to the CPU only, not to " + str(target) + "; use x.to(device) first");
    array = in_scope([&] { return to_device(contiguous(self), target); });
    copied = true;
  } else if (copies == true) {
    array = in_scope([&] { return copy(self); });
    copied = true;
  }
  dlpack::DLPackVersion version = wanted_version(max_version);
  dlpack::to_dl_dtype(array.dtype(), version);
  // After a copy to the CPU the stream integer still speaks of the array's own device.
  std::optional<uint64_t> consumer =
      array.device().kind == DeviceKind::cpu && copied ? std::optional<uint64_t>(0) : consumer_stream(array, stream);
  if (consumer) in_scope([&] { return dlpack::publish(array, *consumer), 0; });
  // An export restores an evicted block, which may wait.
  if (version.major >= 1)
    return make_capsule(
        in_scope([&] { return dlpack::export_versioned(array, copied, version, consumer.value_or(0)); }),
        kVersionedCapsule, [](PyObject* c) { drop_capsule<DLManagedTensorVersioned>(c, kVersionedCapsule); });
  return make_capsule(in_scope([&] { return dlpack::export_legacy(array, consumer.value_or(0)); }), kCapsule,
                      [](PyObject* c) { drop_capsule<DLManagedTensor>(c, kCapsule); });
}

/// `<f4` and the like; empty for what the interface has no name for.
std::string typestr(DType dtype) {
  if (dtype == DType::bfloat16 || is_storage_only(dtype)) return "";
  const char* order = itemsize(dtype) == 1 ? "|" : "<";
  const char* code = dtype == DType::boolean      ? "b"
                     : is_signed_integer(dtype)   ? "i"
                     : is_unsigned_integer(dtype) ? "u"
                     : is_complex(dtype)          ? "c"
                                                  : "f";
  return std::string(order) + code + std::to_string(itemsize(dtype));
}

AnyDict cuda_array_interface(const Array& self) {
  if (self.device().kind != DeviceKind::cuda)
    throw nb::attribute_error("__cuda_array_interface__: the array is on the CPU; np.from_dlpack(x) views it");
  std::string type = typestr(self.dtype());
  if (type.empty())
    throw nb::attribute_error(
        (std::string("__cuda_array_interface__: has no name for ") + name(self.dtype()) + "; use DLPack").c_str());
  nb::dict d;
  d["shape"] = from_dims(self.shape());
  d["typestr"] = type;
  // The interface has no way to say that the reader is done: the block stays where it is for life.
  uint64_t address = self.size() == 0 ? 0 : pinned_address(self);
  d["data"] = nb::make_tuple(address, has_internal_overlap(self));
  d["version"] = 3;
  Dims bytes = self.strides();
  for (int64_t& stride : bytes) stride *= itemsize(self.dtype());
  d["strides"] = self.is_contiguous() ? nb::object(nb::none()) : nb::object(from_dims(bytes));
  // The reader waits for this one stream, so it must be behind every other that touched the array.
  auto stream = session_stream(self.device());
  in_scope([&] { return dlpack::publish(self, reinterpret_cast<uint64_t>(stream->handle())), 0; });
  d["stream"] = reinterpret_cast<uint64_t>(stream->handle());
  return d;
}

// In

template <typename Managed>
void run_deleter(void* pointer) {
  auto* managed = static_cast<Managed*>(pointer);
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <typename Managed>
Array import_managed(PyObject* capsule, const char* name, const char* used_name) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) nb::raise_python_error();
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    if (managed->version.major != dlpack::kMajor)
      throw ExchangeError("from_dlpack: cannot read DLPack version " + std::to_string(managed->version.major));
  }
  // Taken before another thread can run; a tensor that is refused is the capsule's again.
  const PyCapsule_Destructor destructor = PyCapsule_GetDestructor(capsule);
  if (PyCapsule_SetName(capsule, used_name) != 0 || PyCapsule_SetDestructor(capsule, nullptr) != 0)
    nb::raise_python_error();
  try {
    return in_scope([&] {
      return dlpack::import(managed->dl_tensor, [managed] { release_with_gil(&run_deleter<Managed>, managed); });
    });
  } catch (...) {
    PyCapsule_SetName(capsule, name);
    PyCapsule_SetDestructor(capsule, destructor);
    throw;
  }
}

/// `read_only` is set from the capsule's flags; legacy capsules say nothing.
Array import_capsule(nb::handle capsule, bool* read_only) {
  PyObject* p = capsule.ptr();
  if (PyCapsule_IsValid(p, kVersionedCapsule)) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(p, kVersionedCapsule));
    *read_only = (managed->flags & dlpack::kReadOnly) != 0;
    return import_managed<DLManagedTensorVersioned>(p, kVersionedCapsule, kUsedVersionedCapsule);
  }
  if (PyCapsule_IsValid(p, kCapsule)) return import_managed<DLManagedTensor>(p, kCapsule, kUsedCapsule);
  throw ExchangeError("from_dlpack: not a DLPack capsule, or one already consumed");
}

nb::object call_dlpack(nb::handle object, IntArg stream) {
  nb::object method = object.attr("__dlpack__");
  nb::tuple version = nb::make_tuple(dlpack::kMajor, dlpack::kMinor);
  try {
    return stream.is_none() ? method("max_version"_a = version)
                            : method("stream"_a = stream, "max_version"_a = version);
  } catch (nb::python_error& error) {
    // Producers from before 1.0 do not know the keyword.
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return stream.is_none() ? method() : method("stream"_a = stream);
}

Array settle(Array array, bool read_only, DeviceArg device, std::optional<bool> copies, const char* op) {
  const bool forbidden = copies == false, wanted = copies == true;
  Device target = device.is_none() ? array.device() : to_device(device);
  const bool moves = !(target == array.device());
  if (forbidden && (moves || read_only))
    throw ExchangeError(std::string(op) + (moves ? ": copy=False forbids moving the data to " + str(target)
                                                 : ": the data is read-only and copy=False forbids copying it"));
  if (moves) return in_scope([&] { return to_device(contiguous(array), target); });
  if (wanted || read_only) return in_scope([&] { return copy(array); });
  return array;
}

}  // namespace

ArrayObject from_dlpack(AnyArg x, DeviceArg device, std::optional<bool> copies) {
  if (const Array* own = try_array(x)) return wrap(settle(*own, false, device, copies, "from_dlpack"));
  bool read_only = false;
  if (PyCapsule_CheckExact(x.ptr())) {
    Array array = import_capsule(x, &read_only);
    return wrap(settle(std::move(array), read_only, device, copies, "from_dlpack"));
  }
  if (!nb::hasattr(x, "__dlpack__") || !nb::hasattr(x, "__dlpack_device__"))
    throw nb::type_error(("from_dlpack: x must have __dlpack__, got " + class_of(x)).c_str());
  const Device source = to_dl_pair("from_dlpack", "__dlpack_device__()", nb::object(x.attr("__dlpack_device__")()));
  nb::object stream = nb::none();
  if (source.kind == DeviceKind::cuda) stream = nb::cast(reinterpret_cast<uint64_t>(session_stream(source)->handle()));
  Array array = import_capsule(call_dlpack(x, stream), &read_only);
  return wrap(settle(std::move(array), read_only, device, copies, "from_dlpack"));
}

namespace {

/// A Python object that C++ keeps alive and may drop from any thread.
struct KeptObject {
  explicit KeptObject(nb::handle object) : pointer(nb::borrow(object).release().ptr()) {}
  ~KeptObject() {
    release_with_gil([](void* p) { Py_DECREF(static_cast<PyObject*>(p)); }, pointer);
  }
  KeptObject(const KeptObject&) = delete;
  KeptObject& operator=(const KeptObject&) = delete;
  PyObject* pointer;
};

/// Any 64 bits: addresses and handles of streams.
uint64_t to_address(const char* op, const char* argument, nb::handle value) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  const unsigned long long address = number.is_valid() ? PyLong_AsUnsignedLongLong(number.ptr()) : 0;
  if (PyErr_Occurred() == nullptr) return address;
  PyErr_Clear();
  throw ArgumentError(op, argument, "hold an integer from 0 to 2^64 - 1", shown(value));
}

int32_t to_device_id(const char* op, nb::handle value) {
  const int64_t id = to_int(op, "device", value);
  if (id != static_cast<int32_t>(id)) throw ArgumentError(op, "device", "have a small index", std::to_string(id));
  return static_cast<int32_t>(id);
}

DType dtype_from_typestr(const std::string& text) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (typestr(static_cast<DType>(i)) == text) return static_cast<DType>(i);
  throw DTypeError("Unsupported dtype: __cuda_array_interface__ typestr " + text);
}

}  // namespace

ArrayObject from_cuda_array_interface(nb::handle object, DeviceArg device, std::optional<bool> copies) {
  constexpr const char* kOp = "asarray";
  const nb::object given = object.attr("__cuda_array_interface__");
  if (!PyDict_Check(given.ptr()))
    throw nb::type_error(("asarray: __cuda_array_interface__ must be a dict, got " + class_of(given)).c_str());
  // A copy: reading an entry may run code that changes it.
  const nb::dict d = nb::steal<nb::dict>(PyDict_Copy(given.ptr()));
  if (!d.is_valid()) nb::raise_python_error();
  const auto entry = [&d](const char* key) { return nb::object(d.contains(key) ? d[key] : nb::none()); };
  if (!entry("mask").is_none()) throw ExchangeError("asarray: a masked __cuda_array_interface__ cannot be represented");
  DType dtype = dtype_from_typestr(to_text(kOp, "typestr", entry("typestr")));
  Dims shape = to_dims(kOp, entry("shape"));
  Dims strides = contiguous_strides(shape);
  if (const nb::object bytes = entry("strides"); !bytes.is_none()) {
    strides = to_dims(kOp, bytes, "strides");
    if (strides.rank() != shape.rank())
      throw ExchangeError("asarray: shape " + shape.str() + " has other dimensions than strides " + strides.str());
    for (int64_t& stride : strides) {
      if (stride % itemsize(dtype) != 0) throw ExchangeError("asarray: strides must be multiples of the item size");
      stride /= itemsize(dtype);
    }
  }
  const nb::tuple data = to_items(kOp, "data", entry("data"), 2);
  if (data.size() != 2) throw ArgumentError(kOp, "data", "be (address, read-only)", shown(data));
  const uint64_t address = to_address(kOp, "data", data[0]);
  const bool read_only = to_optional_bool(data[1]).value_or(false);
  Device where{DeviceKind::cuda, 0};
  if (nb::object own = nb::getattr(object, "device", nb::none()); nb::hasattr(own, "index"))
    if (nb::object index = own.attr("index"); PyLong_Check(index.ptr()))
      where = dlpack::from_dl_device({dlpack::kCuda, to_device_id(kOp, index)});

  dlpack::DLTensor tensor{};
  tensor.data = reinterpret_cast<void*>(address);
  tensor.device = dlpack::to_dl_device(where);
  tensor.ndim = shape.rank();
  tensor.dtype = dlpack::to_dl_dtype(dtype, {dlpack::kMajor, dlpack::kMinor});
  tensor.shape = shape.begin();
  tensor.strides = strides.begin();
  auto kept = std::make_shared<KeptObject>(object);
  std::optional<uint64_t> producer;
  if (const nb::object stream = entry("stream"); !stream.is_none()) producer = to_address(kOp, "stream", stream);
  Array array = in_scope([&] {
    Array adopted = dlpack::import(tensor, [kept] { (void)kept; });
    if (producer) {
      const auto& stream = runtime::current_stream(where);
      stream->context().make_current();
      driver::Event ready(stream->context());
      stream->api().record_event(ready.handle(), reinterpret_cast<driver::StreamHandle>(*producer));
      stream->wait(ready);
    }
    return adopted;
  });
  return wrap(settle(std::move(array), read_only, device, copies, "asarray"));
}

/// numpy.f(x, ...) as gp.f(x, ...). NumPy itself would ask __array__, and some of its functions take the refusal for an
/// answer.
nb::object call_ours(nb::handle function, nb::tuple arguments, nb::dict named) {
  const std::string name = nb::cast<std::string>(nb::object(function.attr("__name__")));
  const std::string module = nb::cast<std::string>(nb::object(function.attr("__module__")));
  if (arguments.size() == 1 && named.size() == 0 && (name == "shape" || name == "ndim" || name == "size"))
    return arguments[0].attr(name.c_str());
  nb::object place = nb::module_::import_("pygpukit");
  const size_t dot = module.find('.');
  if (dot != std::string::npos) place = nb::getattr(place, module.substr(dot + 1).c_str(), nb::none());
  const nb::object ours = nb::getattr(place, name.c_str(), nb::none());
  if (ours.is_none())
    throw nb::type_error(
        (module + "." + name + " does not take GPUArrays, and gp has none of its own; x.to_numpy() gives NumPy a copy")
            .c_str());
  return ours(*arguments, **named);
}

void bind_interop(nb::module_& m, nb::class_<Array>& array) {
  array
      .def("__dlpack__", &export_array, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           "A DLPack capsule over the same memory. BufferError for what DLPack cannot represent.")
      .def(
          "__dlpack_device__",
          [](const Array& a) -> IntTuple {
            dlpack::DLDevice device = dlpack::to_dl_device(a.device());
            return nb::make_tuple(device.device_type, device.device_id);
          },
          "(device type, device id) in DLPack's numbers.")
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface, "Version 3, with the stream to wait for.")
      .def(
          "__array__",
          [](const Array&, nb::args, nb::kwargs) -> nb::object {
            throw nb::type_error(
                "a GPUArray does not become a NumPy array by itself; use x.to_numpy() for a copy, or np.from_dlpack(x) "
                "to "
                "view a CPU array");
          },
          nb::sig("def __array__(self, *args: object, **kwargs: object) -> typing.NoReturn"));
  array.def(
      "__array_function__",
      [](const Array&, nb::handle function, nb::handle, nb::tuple arguments, nb::dict named) {
        return call_ours(function, arguments, named);
      },
      "function"_a, "types"_a, "arguments"_a, "named"_a,
      nb::sig(
          "def __array_function__(self, function: typing.Any, types: typing.Any, arguments: tuple[typing.Any, ...], "
          "named: dict[str, typing.Any]) -> typing.Any"),
      "A function of NumPy that is given an array calls ours of that name.");
  array.attr("__array_ufunc__") = nb::none();

  m.def(
      "from_dlpack",
      [](AnyArg x, DeviceArg device, BoolArg copy) { return from_dlpack(x, device, to_optional_bool(copy)); }, "x"_a,
      nb::kw_only(), "device"_a = nb::none(), "copy"_a = nb::none(),
      "An array over the memory of any object with __dlpack__. Copies only to move to `device`, when the data is "
      "read-only, or when copy=True; BufferError when copy=False forbids it.");
}

}  // namespace gpukit::python
