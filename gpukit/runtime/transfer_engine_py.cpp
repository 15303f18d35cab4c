// Transfers as Python sees them, and the device's own engine with futures.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/memory/fence.h"
#include "gpukit/python/notify.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer_engine_py.h"

namespace gpukit {

using namespace python;
using runtime::Completion;
using runtime::Transfer;
using runtime::TransferEngine;
using runtime::TransferRecord;
using runtime::TransferRequest;
using runtime::TransferState;
using runtime::TransferStats;
using runtime::TransferType;

namespace {

template <typename E>
nb::class_<Named<E>> bind_named(nb::module_& m, const char* name, const char* doc, std::initializer_list<E> values) {
  using Object = Named<E>;
  nb::class_<Object> type(m, name, doc);
  std::string prefix = std::string(name) + ".";
  type.def(
          "__eq__",
          [](const Object& a, nb::handle b) { return nb::isinstance<Object>(b) && a == nb::cast<const Object&>(b); },
          "other"_a)
      .def("__hash__", [](const Object& a) { return static_cast<int>(a.value); })
      .def("__int__", [](const Object& a) { return static_cast<int>(a.value); })
      .def("__str__", [](const Object& a) { return std::string(str(a.value)); })
      .def("__repr__", [prefix](const Object& a) { return prefix + str(a.value); });
  for (E value : values) type.attr(str(value)) = nb::cast(Object{value});
  return type;
}

std::optional<double> seconds_or_none(int64_t ns) { return ns < 0 ? std::nullopt : std::optional<double>(seconds(ns)); }

std::optional<double> seconds_or_none(std::optional<int64_t> ns) {
  return ns ? std::optional<double>(seconds(*ns)) : std::nullopt;
}

std::string repr_of(const TransferRecord& r) {
  return std::string("TransferOp(id=") + std::to_string(r.id) + ", " + str(r.type) +
         ", size=" + std::to_string(r.bytes) + ", state=" + str(r.state) + ", priority=" + std::to_string(r.priority) +
         ")";
}

void bind_records(nb::module_& m) {
  bind_named(m, "TransferType", "The direction of a transfer: H2D, D2H or D2D.",
             {TransferType::h2d, TransferType::d2h, TransferType::d2d});
  bind_named(m, "TransferState", "Where a transfer stands.",
             {TransferState::queued, TransferState::in_progress, TransferState::completed, TransferState::failed,
              TransferState::cancelled})
      .def(
          "is_terminal", [](const TransferStateObject& s) { return is_terminal(s.value); },
          "True for Completed, Failed and Cancelled.");

  using Op = TransferOpObject;
  nb::class_<Op>(m, "TransferOp", "One transfer as it was when asked. Times are seconds of the runtime's clock.")
      .def_prop_ro("id", [](const Op& o) { return o.record.id; })
      .def_prop_ro("transfer_type", [](const Op& o) { return TransferTypeObject{o.record.type}; })
      .def_prop_ro("src_ptr", [](const Op& o) { return o.record.source; })
      .def_prop_ro("dst_ptr", [](const Op& o) { return o.record.destination; })
      .def_prop_ro("size", [](const Op& o) { return o.record.bytes; })
      .def_prop_ro(
          "bytes_done", [](const Op& o) { return o.record.bytes_done; }, "Bytes copied so far.")
      .def_prop_ro("state", [](const Op& o) { return TransferStateObject{o.record.state}; })
      .def_prop_ro(
          "stream_id", [](const Op& o) { return o.record.stream_id(); }, "1 for H2D, 2 for D2H, 0 for D2D.")
      .def_prop_ro("queued_at", [](const Op& o) { return seconds(o.record.queued_ns); })
      .def_prop_ro("started_at", [](const Op& o) { return seconds_or_none(o.record.started_ns); })
      .def_prop_ro("completed_at", [](const Op& o) { return seconds_or_none(o.record.finished_ns); })
      .def_prop_ro("priority", [](const Op& o) { return o.record.priority; })
      .def_prop_ro("error",
                   [](const Op& o) { return o.record.error.empty() ? std::nullopt : std::optional(o.record.error); })
      .def_prop_ro("task_id", [](const Op& o) { return o.record.task_id; })
      .def(
          "wait_time", [](const Op& o) { return seconds_or_none(o.record.wait_ns()); },
          "Seconds from queued to started; None before that.")
      .def(
          "duration", [](const Op& o) { return seconds_or_none(o.record.duration_ns()); },
          "Seconds from started to its end; None before that.")
      .def(
          "bandwidth_gbps", [](const Op& o) { return o.record.gigabytes_per_second(); },
          "Gigabytes per second; None unless completed.")
      .def("__repr__", [](const Op& o) { return repr_of(o.record); });

  nb::class_<TransferStats>(m, "TransferStats", "Sums over the transfers of an engine.")
      .def_ro("total_queued", &TransferStats::total_queued)
      .def_ro("completed_count", &TransferStats::completed_count)
      .def_ro("failed_count", &TransferStats::failed_count)
      .def_ro("cancelled_count", &TransferStats::cancelled_count)
      .def_ro("total_bytes", &TransferStats::total_bytes)
      .def_ro("h2d_bytes", &TransferStats::h2d_bytes)
      .def_ro("d2h_bytes", &TransferStats::d2h_bytes)
      .def_prop_ro("avg_h2d_bandwidth", &TransferStats::h2d_gigabytes_per_second, "Gigabytes per second.")
      .def_prop_ro("avg_d2h_bandwidth", &TransferStats::d2h_gigabytes_per_second, "Gigabytes per second.")
      .def_ro("pending_count", &TransferStats::pending_count)
      .def_ro("in_progress_count", &TransferStats::in_progress_count)
      .def("__repr__", [](const TransferStats& s) {
        return "TransferStats(total_queued=" + std::to_string(s.total_queued) +
               ", completed=" + std::to_string(s.completed_count) + ", failed=" + std::to_string(s.failed_count) +
               ", cancelled=" + std::to_string(s.cancelled_count) + ", pending=" + std::to_string(s.pending_count) +
               ", in_progress=" + std::to_string(s.in_progress_count) +
               ", total_bytes=" + std::to_string(s.total_bytes) + ")";
      });
}

// Futures

struct Future {
  std::shared_ptr<Transfer> transfer;
  nb::object value;  // what result() gives

  const Completion& completion() const { return *transfer->completion(); }
};

/// Throws DeadlineError when it is not over in time.
void wait(const Future& self, const char* op, std::optional<double> timeout) {
  if (timeout && !(*timeout >= 0))
    throw ArgumentError(op, "timeout", "be None, or seconds of 0 or more", std::to_string(*timeout));
  const int64_t limit_ns = timeout ? static_cast<int64_t>(std::fmin(*timeout * 1e9, 9e18)) : -1;
  if (!in_scope([&] { return self.completion().wait(limit_ns); }))
    throw DeadlineError(std::string(op) + ": " + repr_of(self.transfer->record()) + " is not over");
}

AnyObject result(const Future& self, std::optional<double> timeout) {
  wait(self, "TransferFuture.result", timeout);
  self.completion().rethrow();
  return self.value;
}

ShownObject<"BaseException | None"> exception(const Future& self, std::optional<double> timeout) {
  wait(self, "TransferFuture.exception", timeout);
  try {
    self.completion().rethrow();
    return nb::none();
  } catch (const std::exception&) {
    // nanobind turns what result() throws into the Python class.
    try {
      nb::cpp_function([self] { self.completion().rethrow(); })();
    } catch (nb::python_error& error) {
      return nb::borrow(error.value());
    }
    throw;
  }
}

void bind_future(nb::module_& m) {
  nb::class_<Future>(m, "TransferFuture",
                     "The end of a copy. `await future` gives what result() gives; cancelling the await leaves the "
                     "copy alone.")
      .def("result", &result, "timeout"_a = nb::none(),
           "Sleeps until the copy is over and gives the array it filled. Raises what went wrong, Error when cancelled, "
           "and DeadlineError after timeout seconds.")
      .def("exception", &exception, "timeout"_a = nb::none(),
           "The same, but gives the exception; None when it is done.")
      .def(
          "done", [](const Future& f) { return f.completion().ready(); }, "True once it is over, however it ended.")
      .def("cancelled", [](const Future& f) { return f.completion().state() == Completion::State::cancelled; })
      .def(
          "cancel", [](const Future& f) { return in_scope([&] { return f.transfer->cancel(); }); },
          "True when the copy will not be made whole: a waiting one is dropped, one under way stops between chunks. "
          "False when it is too late.")
      .def(
          "add_done_callback",
          [](nb::object self, ShownObject<"collections.abc.Callable[[TransferFuture], typing.Any]"> callback) {
            auto& future = nb::cast<Future&>(self);
            future.transfer->completion()->add_callback(
                call_later(nb::cpp_function([self, callback] { callback(self); })));
          },
          "callback"_a, "Calls callback(future) on another thread once it is over.")
      .def(
          "__await__",
          [](nb::object self) {
            auto& future = nb::cast<Future&>(self);
            return await_completion(
                [&](std::function<void()> done) { future.transfer->completion()->add_callback(std::move(done)); },
                nb::cpp_function([self] { return result(nb::cast<Future&>(self), std::nullopt); }));
          },
          nb::sig("def __await__(self) -> collections.abc.Generator[typing.Any, None, typing.Any]"))
      .def_prop_ro("state", [](const Future& f) { return TransferStateObject{f.transfer->record().state}; })
      .def_prop_ro(
          "operation", [](const Future& f) { return TransferOpObject{f.transfer->record()}; },
          "State, times and bytes as they are now.")
      .def("__repr__", [](const Future& f) {
        TransferRecord r = f.transfer->record();
        return std::string("TransferFuture(id=") + std::to_string(r.id) + ", " + str(r.type) +
               ", size=" + std::to_string(r.bytes) + ", state=" + str(r.state) + ")";
      });
}

// The engine of a device

/// A contiguous Python buffer, given back wherever the last owner goes.
std::shared_ptr<const Py_buffer> buffer_of(nb::handle object, int flags) {
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), flags) != 0) nb::raise_python_error();
  return {view.release(), [](const Py_buffer* held) {
            release_with_gil(
                [](void* context) {
                  auto* buffer = static_cast<Py_buffer*>(context);
                  PyBuffer_Release(buffer);
                  delete buffer;
                },
                const_cast<Py_buffer*>(held));
          }};
}

/// The bytes of a NumPy array of the array's shape and dtype, or of any buffer with as many bytes.
std::shared_ptr<const Py_buffer> host_side(const char* op, const char* argument, nb::handle data, const Array& array,
                                           int flags) {
  nb::object view = nb::borrow(data);
  if (is_numpy_array(data)) {
    nb::object wanted = numpy_dtype(array.dtype()), dtype = data.attr("dtype"), shape = data.attr("shape");
    if (!dtype.equal(wanted) && dtype_from_numpy(dtype) != array.dtype())
      throw DTypeError(op, argument, std::string("have dtype ") + name(array.dtype()), python::shown(dtype));
    if (!nb::cast<bool>(dtype.attr("isnative")))
      throw DTypeError(op, argument, "have native byte order", python::shown(dtype));
    if (!shape.equal(from_dims(array.shape())))
      throw ShapeError(op, argument, "have shape " + array.shape().str(), python::shown(shape));
    if (!nb::cast<bool>(data.attr("flags")["C_CONTIGUOUS"]))
      throw ArgumentError(op, argument, "be C-contiguous", "a strided view");
    view = data.attr("view")(wanted);
  }
  auto buffer = buffer_of(view, flags);
  if (buffer->len != array.nbytes())
    throw ArgumentError(op, argument, "have " + std::to_string(array.nbytes()) + " bytes", std::to_string(buffer->len));
  return buffer;
}

Future start(const char* op, TransferType type, const Array& array, std::shared_ptr<const Py_buffer> host, int priority,
             nb::object value) {
  if (!array.is_contiguous()) throw ArgumentError(op, "array", "be contiguous", "a strided view");
  TransferRequest request;
  request.type = type;
  request.storage = array.storage();
  request.offset_bytes = array.offset_bytes();
  request.host = host->buf;
  request.bytes = static_cast<size_t>(array.nbytes());
  request.priority = priority;
  request.keep = std::move(host);
  auto transfer = in_scope([&] { return runtime::transfer_engine(array.device()).submit(op, std::move(request)); });
  return {std::move(transfer), std::move(value)};
}

Future copy_in(ArrayArg array, BufferArg data, int priority) {
  const char* op = "copy_to_device_async";
  const Array& target = to_array(op, "array", array);
  return start(op, TransferType::h2d, target, host_side(op, "data", data, target, PyBUF_C_CONTIGUOUS), priority,
               nb::borrow(array));
}

Future copy_out(ArrayArg array, BufferArg out, int priority) {
  const char* op = "copy_to_host_async";
  const Array& source = to_array(op, "array", array);
  nb::object target = out.is_none()
                          ? numpy().attr("empty")(from_dims(source.shape()), "dtype"_a = numpy_dtype(source.dtype()))
                          : nb::borrow(out);
  auto host = host_side(op, "out", target, source, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  return start(op, TransferType::d2h, source, std::move(host), priority, std::move(target));
}

struct PinnedMemory {
  driver::Context& context;
  void* memory;
  ~PinnedMemory() {
    try {
      const memory::RelaxedCapture relaxed(context);
      context.api().release_pinned(memory);
    } catch (...) {
      // The context is dead, and the memory with it.
    }
  }
};

ShownObject<"pygpukit.typing.HostArray"> pinned_empty(ShapeArg shape, DTypeArg dtype, DeviceArg device) {
  const Dims dims = to_dims("pinned_empty", shape);
  const DType type = to_dtype(dtype);
  const auto bytes = static_cast<size_t>(checked_bytes("pinned_empty", dims, itemsize(type)));
  const Device where = to_device(device);
  auto owner = in_scope([&] {
    driver::Context& context = runtime::open_device(where).context;
    const memory::RelaxedCapture relaxed(context);
    return std::make_unique<PinnedMemory>(context, context.api().allocate_pinned(std::max<size_t>(bytes, 1)));
  });
  void* memory = owner->memory;
  nb::capsule capsule(owner.release(), [](void* held) noexcept { delete static_cast<PinnedMemory*>(held); });
  nb::ndarray<nb::numpy, uint8_t> raw(memory, {bytes}, capsule);
  return nb::cast(raw).attr("view")(numpy_dtype(type)).attr("reshape")(from_dims(dims));
}

struct EngineObject {
  Device device;
  TransferEngine& engine() const {
    return *in_scope([&] { return &runtime::transfer_engine(device); });
  }
};

const EngineObject& check_device(const EngineObject& self, const char* op, ArrayArg array) {
  Device device = to_array(op, "array", array).device();
  if (!(device == self.device)) throw ArgumentError(op, "array", "be on " + str(self.device), str(device));
  return self;
}

constexpr const char* kInDoc =
    "Copies a NumPy array or another buffer into a contiguous array beside the compute streams. The memory is read "
    "until the future is done and is kept alive until then. Later work on the array comes after the copy. Higher "
    "priorities go first.";
constexpr const char* kOutDoc =
    "Copies a contiguous array into a new NumPy array, or into `out`, beside the compute streams; the result of the "
    "future. The array may be written at once: later work on it comes after the copy.";

void bind_engine(nb::module_& m) {
  nb::class_<EngineObject>(m, "TransferEngine", "The copies of one device, on streams of their own.")
      .def_prop_ro("device", [](const EngineObject& e) { return e.device; })
      .def(
          "copy_to_device_async",
          [](const EngineObject& self, ArrayArg array, BufferArg data, int priority) {
            check_device(self, "copy_to_device_async", array);
            return copy_in(array, data, priority);
          },
          "array"_a, "data"_a, "priority"_a = 0, kInDoc)
      .def(
          "copy_to_host_async",
          [](const EngineObject& self, ArrayArg array, BufferArg out, int priority) {
            check_device(self, "copy_to_host_async", array);
            return copy_out(array, out, priority);
          },
          "array"_a, "out"_a = nb::none(), "priority"_a = 0, kOutDoc)
      .def(
          "stats", [](const EngineObject& e) { return e.engine().stats(); }, "Sums over its transfers so far.")
      .def(
          "active",
          [](const EngineObject& e) {
            std::vector<TransferOpObject> list;
            for (TransferRecord& record : e.engine().active()) list.push_back({std::move(record)});
            return list;
          },
          "The transfers that are queued or under way.")
      .def(
          "synchronize",
          [](const EngineObject& e) {
            TransferEngine& engine = e.engine();
            in_scope([&] { return engine.drain(), 0; });
          },
          "Waits until every transfer given so far is over.")
      .def_prop_ro(
          "pinned_bytes", [](const EngineObject& e) { return e.engine().ring().stats().bytes; },
          "Page-locked memory that pageable copies go through.")
      .def(
          "trim",
          [](const EngineObject& e) {
            TransferEngine& engine = e.engine();
            return in_scope([&] { return engine.ring().trim(); });
          },
          "Gives unused page-locked memory back; the number of bytes.")
      .def("__repr__", [](const EngineObject& e) { return "TransferEngine(device=" + str(e.device) + ")"; });
  m.def(
      "transfers", [](DeviceArg device) { return EngineObject{to_device(device)}; }, "device"_a = nb::none(),
      "The transfer engine of a device.");
  m.def("pinned_empty", &pinned_empty, "shape"_a, "dtype"_a = "float32", "device"_a = nb::none(),
        "A NumPy array in page-locked memory, not initialised: copies to and from it are made directly.");
  m.def("copy_to_device_async", &copy_in, "array"_a, "data"_a, "priority"_a = 0, kInDoc);
  m.def("copy_to_host_async", &copy_out, "array"_a, "out"_a = nb::none(), "priority"_a = 0, kOutDoc);
}

}  // namespace

void bind_transfer_engine(nb::module_& core) {
  nb::module_ top = runtime_module(core), transfer = runtime_module(core, "transfer");
  let_signals_end_waits();
  bind_records(transfer);
  bind_future(transfer);
  bind_engine(transfer);
  for (const char* name : {"TransferOp", "TransferStats", "TransferFuture", "TransferEngine", "transfers",
                           "copy_to_device_async", "copy_to_host_async", "pinned_empty"})
    top.attr(name) = transfer.attr(name);
  core.def("_set_staged_bytes", &runtime::set_staged_bytes, "bytes"_a,
           "Copies of at least this many pageable bytes go through the ring; 0: the default; internal.");
}

}  // namespace gpukit
