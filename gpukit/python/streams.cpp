// Streams and events.
#include <nanobind/stl/string.h>

#include <mutex>
#include <unordered_map>

#include "gpukit/base/error.h"
#include "gpukit/python/objects.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::python {

namespace {

/// Streams by their driver handle, for callers that pass handles as integers.
struct StreamTable {
  std::mutex mutex;
  std::unordered_map<uintptr_t, std::weak_ptr<driver::Stream>> streams;
};

StreamTable& stream_table() {
  static auto* table = new StreamTable;
  return *table;
}

uintptr_t handle_of(const driver::Stream& stream) { return reinterpret_cast<uintptr_t>(stream.handle()); }

/// Under the handle of the stream that takes its work now. Returns that handle.
uintptr_t remember(const std::shared_ptr<driver::Stream>& stream) {
  StreamTable& table = stream_table();
  const uintptr_t handle = handle_of(*runtime::resolve(stream));
  std::lock_guard lock(table.mutex);
  std::erase_if(table.streams, [](const auto& entry) { return entry.second.expired(); });
  table.streams[handle] = stream;
  return handle;
}

std::shared_ptr<driver::Stream> find_stream(const char* op, uintptr_t handle) {
  StreamTable& table = stream_table();
  {
    std::lock_guard lock(table.mutex);
    if (auto found = table.streams.find(handle); found != table.streams.end())
      if (auto stream = found->second.lock()) return stream;
  }
  throw ArgumentError(op, "stream", "be the handle of a living gp.Stream", std::to_string(handle));
}

StreamPriority to_priority(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) {
    const std::string text = to_text("Stream", "priority", value);
    if (text == "high") return StreamPriority::high;
    if (text == "low") return StreamPriority::low;
    throw ArgumentError("Stream", "priority", "be 'high', 'low' or a StreamPriority", "'" + text + "'");
  }
  switch (to_int("Stream", "priority", value)) {
    case 0: return StreamPriority::high;
    case 1: return StreamPriority::low;
    default: throw ArgumentError("Stream", "priority", "be 'high', 'low' or a StreamPriority", shown(value));
  }
}

StreamObject make_stream(StreamArg stream_handle, Shown<"str | int"> priority, DeviceArg device) {
  if (nb::isinstance<StreamObject>(stream_handle)) {
    const StreamObject& other = nb::cast<StreamObject&>(stream_handle);
    return other.get(), StreamObject{other.stream};
  }
  if (!stream_handle.is_none())
    return {find_stream("Stream", static_cast<uintptr_t>(to_int("Stream", "stream_handle", stream_handle)))};
  int level = to_priority(priority) == StreamPriority::high ? -1 : 0;
  Device where = to_device(device);
  auto stream = in_scope([&] {
    runtime::DeviceState& state = runtime::open_device(where);
    state.health.check();
    state.context.make_current();
    return runtime::new_stream(where, level);
  });
  remember(stream);
  return {std::move(stream)};
}

StreamPriority priority_of(const StreamObject& self) {
  return self.get()->priority() < 0 ? StreamPriority::high : StreamPriority::low;
}

void wait_event(const driver::Stream& stream, const EventObject& event) {
  if (event.event == nullptr) return;  // never recorded: nothing to wait for
  stream.context().make_current();
  stream.wait(*event.event);
}

void wait_stream(const driver::Stream& stream, const driver::Stream& other) {
  other.context().make_current();
  driver::Event ready(other.context());
  ready.record(other);
  stream.context().make_current();
  stream.wait(ready);
}

void stream_wait(const StreamObject& self, Shown<"Stream | CudaEvent"> other) {
  const auto stream = self.get();
  if (nb::isinstance<EventObject>(other)) {
    const EventObject& event = nb::cast<EventObject&>(other);
    in_scope([&] { return wait_event(*stream, event), 0; });
  } else if (nb::isinstance<StreamObject>(other)) {
    const auto source = nb::cast<StreamObject&>(other).get();
    in_scope([&] { return wait_stream(*stream, *source), 0; });
  } else {
    throw nb::type_error(("Stream.wait: other must be a CudaEvent or a Stream, got " + class_of(other)).c_str());
  }
}

// Events

void event_record(EventObject& self, StreamArg stream) {
  auto target = stream.is_none() && self.event != nullptr
                    ? session_stream(self.event->context().device())
                    : to_stream("CudaEvent.record", stream, to_device(nb::none()));
  in_scope([&] {
    target->context().make_current();
    if (self.event == nullptr || !(self.event->context().device() == target->device()))
      self.event = std::make_unique<driver::Event>(target->context(), true, self.blocking);
    self.event->record(*target);
    return 0;
  });
}

void event_synchronize(const EventObject& self) {
  if (self.event == nullptr) return;
  in_scope([&] {
    runtime::refuse_in_capture("CudaEvent.synchronize", "waits for the device");
    self.event->context().make_current();
    runtime::wait_for_device([&] { return self.event->query(); }, [&] { self.event->synchronize(); },
                             self.blocking || self.event->context().device().kind == DeviceKind::cpu);
    runtime::raise_fault(self.event->context().device());
    return 0;
  });
}

double elapsed_ms(const EventObject& start, const EventObject& stop) {
  if (start.event == nullptr || stop.event == nullptr)
    throw Error("event_elapsed: both events must have been recorded");
  return in_scope([&] {
    start.event->context().make_current();
    return static_cast<double>(driver::elapsed_ms(*start.event, *stop.event));
  });
}

void bind_events(nb::module_& m) {
  nb::class_<EventObject>(m, "CudaEvent", "A point in a stream's work, with its time.")
      .def(
          "__init__",
          [](EventObject* self, bool blocking_sync) {
            new (self) EventObject{blocking_sync, nullptr};
          },
          "blocking_sync"_a = false, "With blocking_sync a waiting thread sleeps instead of spinning.")
      .def("record", &event_record, "stream"_a = nb::none(),
           "Marks this point of a stream, by default the current one.")
      .def("synchronize", &event_synchronize, "Waits until the event has happened. An event never recorded has.")
      .def(
          "query",
          [](const EventObject& self) {
            if (self.event == nullptr) return true;
            return in_scope([&] {
              self.event->context().make_current();
              return self.event->query();
            });
          },
          "True when the event has happened or was never recorded.")
      .def("__repr__", [](const EventObject& self) {
        return std::string("CudaEvent(") + (self.event ? "recorded" : "not recorded") + ")";
      });
  m.def("event_elapsed_ms", &elapsed_ms, "start"_a, "stop"_a, "Milliseconds between two events that have happened.");
  m.def(
      "event_elapsed_us",
      [](const EventObject& start, const EventObject& stop) { return elapsed_ms(start, stop) * 1e3; }, "start"_a,
      "stop"_a, "Microseconds between two events that have happened.");
}

}  // namespace

const std::shared_ptr<driver::Stream>& StreamObject::get() const {
  if (stream == nullptr) throw Error("Stream: it was destroyed");
  return runtime::resolve(stream);
}

namespace {

/// The session's own stream, wherever its work goes.
std::shared_ptr<driver::Stream> entered_stream(Device device) {
  if (auto session = context_session())
    for (const auto& stream : session->streams)
      if (stream->device() == device) return stream;
  return runtime::open_device(device).default_stream;
}

}  // namespace

std::shared_ptr<driver::Stream> session_stream(Device device) { return runtime::resolve(entered_stream(device)); }

std::shared_ptr<driver::Stream> to_stream(const char* op, nb::handle value, Device device) {
  if (value.is_none()) return session_stream(device);
  if (nb::isinstance<StreamObject>(value)) return nb::cast<StreamObject&>(value).get();
  if (PyLong_Check(value.ptr())) {
    uintptr_t handle = PyLong_AsUnsignedLongLong(value.ptr());
    if (PyErr_Occurred() != nullptr) nb::raise_python_error();
    return runtime::resolve(find_stream(op, handle));
  }
  throw nb::type_error((std::string(op) + ": stream must be a Stream or None, got " + class_of(value)).c_str());
}

void bind_streams(nb::module_& m) {
  nb::enum_<StreamPriority>(m, "StreamPriority", nb::is_arithmetic(), "How urgent a stream's work is.")
      .value("HIGH", StreamPriority::high)
      .value("LOW", StreamPriority::low);

  nb::class_<StreamObject>(m, "Stream",
                           "A queue of work on one device. `with stream:` makes it the current stream of its device.")
      .def(
          "__init__",
          [](StreamObject* self, StreamArg stream_handle, Shown<"str | int"> priority, DeviceArg device) {
            new (self) StreamObject(make_stream(stream_handle, priority, device));
          },
          "stream_handle"_a = nb::none(), "priority"_a = StreamPriority::low, "device"_a = nb::none(),
          "A new stream, or with stream_handle another name of a stream made before.")
      .def_prop_ro(
          "handle", [](const StreamObject& s) { return s.get(), remember(s.stream); },
          "The driver's handle of the stream that takes the work now.")
      .def_prop_ro("priority", &priority_of)
      .def_prop_ro("device", [](const StreamObject& s) { return s.get()->device(); })
      .def(
          "synchronize",
          [](const StreamObject& s) {
            auto stream = s.get();
            in_scope([&] { return runtime::synchronize(*stream, "Stream.synchronize"), 0; });
          },
          "Waits for the work submitted so far and raises what it finds.")
      .def(
          "query",
          [](const StreamObject& s) {
            auto stream = s.get();
            return in_scope([&] {
              stream->context().make_current();
              return stream->query();
            });
          },
          "True when the stream has nothing left to do.")
      .def("wait", &stream_wait, "other"_a,
           "Later work of this stream waits for an event, or for a stream's work so far.")
      .def(
          "close", [](StreamObject& s) { s.stream.reset(); },
          "Gives the stream up; its work still finishes. Using it afterwards raises.")
      .def(
          "__enter__",
          [](nb::handle self) {
            const StreamObject& object = nb::cast<StreamObject&>(self);
            object.get();
            push_session(self, outer_session().with_stream(object.stream));
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Stream"))
      .def(
          "__exit__", [](nb::handle self, nb::args) { pop_session(self); },
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def(
          "__eq__",
          [](const StreamObject& a, nb::handle b) {
            return nb::isinstance<StreamObject>(b) && a.stream == nb::cast<StreamObject&>(b).stream;
          },
          "other"_a)
      .def("__hash__", [](const StreamObject& s) { return s.stream ? s.stream->id() : 0; })
      .def("__repr__", [](const StreamObject& s) {
        if (s.stream == nullptr) return std::string("Stream(destroyed)");
        return std::string("Stream(priority=") + (priority_of(s) == StreamPriority::high ? "HIGH" : "LOW") +
               ", device=" + str(s.stream->device()) + ")";
      });

  m.def(
      "current_stream",
      [](DeviceArg device) {
        auto stream = entered_stream(to_device(device));
        remember(stream);
        return StreamObject{std::move(stream)};
      },
      "device"_a = nb::none(), "The stream work on a device goes to here.");
  bind_events(m);
}

}  // namespace gpukit::python
