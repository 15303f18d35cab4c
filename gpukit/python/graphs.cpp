// CudaGraph: capture and replay, on the GPU and on the CPU.
#include <nanobind/stl/string.h>

#include "gpukit/base/error.h"
#include "gpukit/python/objects.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/graph.h"

namespace gpukit::python {

namespace {

/// One that is dropped while it captures ends the capture and the scope that begin_capture entered.
struct GraphObject {
  explicit GraphObject(Device device) : graph(device) {}
  ~GraphObject() {
    if (over != nullptr) *over = true;
  }
  runtime::Graph graph;
  std::shared_ptr<bool> over;  // of the last begin_capture
};

/// `with graph.capture():`
struct CaptureScope {
  nb::object graph;
};

GraphObject& graph_of(nb::handle self) { return nb::cast<GraphObject&>(self); }

void begin(nb::handle self) {
  GraphObject& object = graph_of(self);
  in_scope([&] { return object.graph.begin_capture(), 0; });
  const auto& stream = object.graph.stream();
  object.over = std::make_shared<bool>(false);
  push_session(self, outer_session().with_stream(stream).with_device(stream->device()), object.over);
}

void end(nb::handle self) {
  runtime::Graph& graph = graph_of(self).graph;
  if (!graph.capturing()) throw Error("CudaGraph.end_capture: no capture is running; call begin_capture first");
  pop_session(self);
  in_scope([&] { return graph.end_capture(), 0; });
}

void abandon(nb::handle self) {
  pop_session(self);
  in_scope([&] { return graph_of(self).graph.abandon(), 0; });
}

template <auto Method>
auto call(GraphObject& self) {
  return in_scope([&] {
    if constexpr (std::is_void_v<decltype((self.graph.*Method)())>)
      return (self.graph.*Method)(), nullptr;
    else
      return (self.graph.*Method)();
  });
}

}  // namespace

void bind_graphs(nb::module_& m) {
  nb::class_<CaptureScope>(m, "_CaptureScope", "What CudaGraph.capture() returns; internal.")
      .def(
          "__enter__",
          [](CaptureScope& self) {
            begin(self.graph);
            return self.graph;
          },
          nb::sig("def __enter__(self) -> CudaGraph"))
      .def(
          "__exit__",
          [](CaptureScope& self, nb::handle kind, nb::handle, nb::handle) {
            if (kind.is_none())
              end(self.graph);
            else
              abandon(self.graph);
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none());

  nb::class_<GraphObject>(
      m, "CudaGraph",
      "Work recorded once and replayed with one call. Captures what this thread submits; pins every "
      "buffer it saw. On the CPU a capture records the calls and a replay runs them.")
      .def(
          "__init__",
          [](GraphObject* self, DeviceArg device) {
            Device where = to_device(device);
            in_scope([&] { return new (self) GraphObject(where); });
          },
          "device"_a = nb::none())
      .def("begin_capture", &begin, "Waits for the streams of this session, then captures what this thread submits.")
      .def("end_capture", &end, "Ends the capture and makes the graph ready to replay.")
      .def(
          "capture", [](nb::object self) { return CaptureScope{std::move(self)}; },
          "`with graph.capture():` captures the block; an exception in it leaves the graph empty.")
      .def(
          "replay", [](GraphObject& g) { call<&runtime::Graph::replay>(g); },
          "Runs the captured work, asynchronously, after earlier and before later work of the current stream.")
      .def(
          "synchronize", [](GraphObject& g) { call<&runtime::Graph::synchronize>(g); }, "Waits for the replays so far.")
      .def(
          "reset", [](GraphObject& g) { call<&runtime::Graph::reset>(g); }, "Forgets the captured work.")
      .def(
          "verify", [](GraphObject& g) { return call<&runtime::Graph::verify>(g); },
          "Replays, runs the same work eagerly from the same start and compares every written byte. True when equal; "
          "raises naming the first difference otherwise. The buffers are put back.")
      .def("is_ready", [](const GraphObject& g) { return g.graph.ready(); })
      .def("is_capturing", [](const GraphObject& g) { return g.graph.capturing(); })
      .def_prop_ro("num_nodes", [](const GraphObject& g) { return g.graph.num_nodes(); })
      .def_prop_ro(
          "stream", [](const GraphObject& g) { return StreamObject{g.graph.stream()}; },
          "The stream the graph captures on. A replay runs on the current stream.")
      .def("get_stream_handle",
           [](const GraphObject& g) { return reinterpret_cast<uintptr_t>(g.graph.stream()->handle()); })
      .def("__repr__", [](const GraphObject& g) {
        if (g.graph.capturing()) return std::string("CudaGraph(capturing)");
        if (!g.graph.ready()) return std::string("CudaGraph(empty)");
        return "CudaGraph(num_nodes=" + std::to_string(g.graph.num_nodes()) + ")";
      });
}

}  // namespace gpukit::python
