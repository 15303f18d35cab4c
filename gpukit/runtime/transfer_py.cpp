// AsyncTransferEngine: transfers between addresses, queued by hand.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>

#include "gpukit/base/error.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer_engine_py.h"

namespace gpukit {

using namespace python;
using runtime::Transfer;
using runtime::TransferQueue;
using runtime::TransferRecord;
using runtime::TransferRequest;
using runtime::TransferState;
using runtime::TransferType;

namespace {

struct StreamTypeObject {
  int64_t id;
  friend bool operator==(const StreamTypeObject&, const StreamTypeObject&) = default;
};

std::string repr_of(const StreamTypeObject& s) {
  constexpr const char* names[] = {"Compute", "MemcpyH2D", "MemcpyD2H"};
  return "StreamType." + (s.id <= 2 ? std::string(names[s.id]) : "Custom(" + std::to_string(s.id) + ")");
}

void bind_stream_type(nb::module_& m) {
  using Object = StreamTypeObject;
  nb::class_<Object> type(m, "StreamType", "The kind of stream a transfer belongs to.");
  type.def_static(
          "Custom",
          [](int64_t id) {
            if (id < 0) throw ArgumentError("StreamType.Custom", "id", "not be negative", std::to_string(id));
            return Object{id};
          },
          "id"_a, "A stream with a number of its own.")
      .def(
          "to_id", [](const Object& s) { return s.id; }, "0 Compute, 1 MemcpyH2D, 2 MemcpyD2H, or the number given.")
      .def(
          "__eq__",
          [](const Object& a, nb::handle b) { return nb::isinstance<Object>(b) && a == nb::cast<const Object&>(b); },
          "other"_a)
      .def("__hash__", [](const Object& s) { return s.id; })
      .def("__repr__", [](const Object& s) { return repr_of(s); });
  type.attr("Compute") = nb::cast(Object{0});
  type.attr("MemcpyH2D") = nb::cast(Object{1});
  type.attr("MemcpyD2H") = nb::cast(Object{2});
}

struct QueueObject {
  QueueObject(int64_t max_concurrent, Device device) : queue(max_concurrent), device(device) {}
  TransferQueue queue;
  Device device;
  std::mutex mutex;
  std::map<uint64_t, std::shared_ptr<Transfer>> under_way;  // of execute(); null: not begun yet

  /// False when it was cancelled or someone else copies it.
  bool claim(uint64_t id) {
    std::lock_guard lock(mutex);
    const auto record = queue.find(id);
    return record && record->state == TransferState::in_progress && under_way.emplace(id, nullptr).second;
  }
  void begun(uint64_t id, const std::shared_ptr<Transfer>& transfer) {
    std::lock_guard lock(mutex);
    under_way[id] = transfer;
  }
  /// The queue's record ends first, so that no cancel comes between.
  void unclaim(uint64_t id) {
    std::lock_guard lock(mutex);
    under_way.erase(id);
  }
  bool cancel(uint64_t id) {
    std::shared_ptr<Transfer> transfer;
    {
      std::lock_guard lock(mutex);
      const auto found = under_way.find(id);
      if (found == under_way.end()) return queue.cancel(id);
      transfer = found->second;
    }
    return transfer != nullptr && transfer->cancel();
  }

  uint64_t enqueue(TransferType type, uint64_t source, uint64_t destination, int64_t size, int priority,
                   std::optional<std::string> task_id) {
    if (size < 0) throw ArgumentError("AsyncTransferEngine", "size", "not be negative", std::to_string(size));
    return queue.enqueue(type, source, destination, static_cast<size_t>(size), priority, std::move(task_id));
  }
};

std::vector<TransferOpObject> wrapped(std::vector<TransferRecord> records) {
  std::vector<TransferOpObject> list;
  for (TransferRecord& record : records) list.push_back({std::move(record)});
  return list;
}

std::shared_ptr<Transfer> begin(const QueueObject& self, const TransferRecord& record) {
  driver::Context& context = runtime::open_device(self.device).context;
  auto at = [&](uint64_t address) {
    if (address == 0 && record.bytes != 0)
      throw ArgumentError("AsyncTransferEngine.execute", "every address", "not be 0", "0");
    return memory::Storage::adopt(context, address, record.bytes, nullptr);
  };
  TransferRequest request;
  request.type = record.type;
  request.bytes = record.bytes;
  request.priority = record.priority;
  switch (record.type) {
    case TransferType::h2d:
      request.storage = at(record.destination);
      request.host = reinterpret_cast<void*>(record.source);
      break;
    case TransferType::d2h:
      request.storage = at(record.source);
      request.host = reinterpret_cast<void*>(record.destination);
      break;
    case TransferType::d2d:
      request.storage = at(record.destination);
      request.peer = at(record.source);
      break;
  }
  return runtime::transfer_engine(self.device).submit("AsyncTransferEngine.execute", std::move(request));
}

/// Notes how a copy that is over has ended.
void note_end(QueueObject& self, uint64_t id, const Transfer& transfer) {
  const TransferRecord record = transfer.record();
  switch (record.state) {
    case TransferState::completed: self.queue.complete(id); break;
    case TransferState::cancelled: self.queue.cancel(id); break;
    default: self.queue.fail(id, record.error); break;
  }
  self.unclaim(id);
}

void finish(QueueObject& self, uint64_t id, const Transfer& transfer) {
  transfer.completion()->wait();
  note_end(self, id, transfer);
}

/// Its memory is the caller's again once it is over, so an interrupted wait still ends the copy first.
void abandon(QueueObject& self, uint64_t id, Transfer& transfer) {
  transfer.cancel();
  while (!transfer.completion()->ready()) {
    try {
      transfer.completion()->wait();
    } catch (...) {
      // Another signal; the copy under way is short.
    }
  }
  note_end(self, id, transfer);
}

/// Makes the copies of `records`, which are in progress. Those that fail are marked so.
int64_t execute_all(QueueObject& self, const std::vector<TransferRecord>& records) {
  std::vector<std::pair<uint64_t, std::shared_ptr<Transfer>>> started;
  for (const TransferRecord& record : records) {
    if (!self.claim(record.id)) continue;
    try {
      started.emplace_back(record.id, begin(self, record));
      self.begun(record.id, started.back().second);
    } catch (const std::exception& error) {
      self.queue.fail(record.id, error.what());
      self.unclaim(record.id);
    }
  }
  size_t next = 0;
  try {
    for (; next < started.size(); ++next) finish(self, started[next].first, *started[next].second);
  } catch (...) {
    for (; next < started.size(); ++next) abandon(self, started[next].first, *started[next].second);
    throw;
  }
  int64_t done = 0;
  for (const auto& [id, transfer] : started) done += transfer->record().state == TransferState::completed ? 1 : 0;
  return done;
}

TransferOpObject execute(QueueObject& self, Shown<"TransferOp | int"> op) {
  const char* name = "AsyncTransferEngine.execute";
  const uint64_t id = nb::isinstance<TransferOpObject>(op) ? nb::cast<const TransferOpObject&>(op).record.id
                                                           : static_cast<uint64_t>(to_int(name, "op", op));
  auto record = self.queue.find(id);
  if (!record) throw ArgumentError(name, "op", "be a transfer of this engine", std::to_string(id));
  if (record->state == runtime::TransferState::queued && !self.queue.start(id))
    throw Error(std::string(name) + ": " + std::to_string(self.queue.max_concurrent()) +
                " transfers are in progress already");
  if (is_terminal(record->state))
    throw ArgumentError(name, "op", "be queued or in progress", std::string("one that is ") + str(record->state));
  in_scope([&] { return execute_all(self, {*record}); });
  return {self.queue.find(id).value_or(*record)};
}

int64_t run(QueueObject& self) {
  return in_scope([&] {
    int64_t done = 0;
    for (;;) {
      std::vector<TransferRecord> ready = self.queue.take_ready(self.queue.max_concurrent());
      if (ready.empty()) return done;
      done += execute_all(self, ready);
    }
  });
}

void bind_queue(nb::module_& m) {
  using Queue = QueueObject;
  nb::class_<Queue>(m, "AsyncTransferEngine",
                    "Transfers between addresses, by id. They are only kept in order until run() or execute() makes "
                    "the copies, or the caller does and says so. For arrays use transfers(), which does it all.")
      .def(
          "__init__",
          [](Queue* self, int64_t max_concurrent, DeviceArg device) {
            new (self) Queue(max_concurrent, to_device(device));
          },
          "max_concurrent"_a = 4, "device"_a = nb::none())
      .def_prop_ro("max_concurrent", [](const Queue& q) { return q.queue.max_concurrent(); })
      .def_prop_ro(
          "device", [](const Queue& q) { return q.device; }, "Whose memory run() and execute() copy.")
      .def(
          "enqueue_h2d",
          [](Queue& q, uint64_t host, uint64_t device, int64_t size, std::optional<std::string> task_id) {
            return q.enqueue(TransferType::h2d, host, device, size, 0, std::move(task_id));
          },
          "host_ptr"_a, "device_ptr"_a, "size"_a, "task_id"_a = nb::none(), "The id of a new transfer to the device.")
      .def(
          "enqueue_d2h",
          [](Queue& q, uint64_t device, uint64_t host, int64_t size, std::optional<std::string> task_id) {
            return q.enqueue(TransferType::d2h, device, host, size, 0, std::move(task_id));
          },
          "device_ptr"_a, "host_ptr"_a, "size"_a, "task_id"_a = nb::none(), "The id of a new transfer to the host.")
      .def(
          "enqueue_d2d",
          [](Queue& q, uint64_t source, uint64_t destination, int64_t size, std::optional<std::string> task_id) {
            return q.enqueue(TransferType::d2d, source, destination, size, 0, std::move(task_id));
          },
          "src_ptr"_a, "dst_ptr"_a, "size"_a, "task_id"_a = nb::none(), "The id of a new transfer on the device.")
      .def(
          "enqueue_with_priority",
          [](Queue& q, const std::string& type, uint64_t source, uint64_t destination, int64_t size, int priority,
             std::optional<std::string> task_id) {
            return q.enqueue(runtime::to_transfer_type("enqueue_with_priority", type), source, destination, size,
                             priority, std::move(task_id));
          },
          "transfer_type"_a, "src_ptr"_a, "dst_ptr"_a, "size"_a, "priority"_a, "task_id"_a = nb::none(),
          "The same for 'h2d', 'd2h' or 'd2d'; higher priorities go first.")
      .def(
          "get_ready_transfers", [](Queue& q, int64_t max) { return wrapped(q.queue.take_ready(max)); }, "max"_a,
          "Starts up to max transfers: H2D before D2H before D2D, by priority, then in order.")
      .def(
          "start_transfer", [](Queue& q, uint64_t id) { return q.queue.start(id); }, "id"_a)
      .def(
          "complete_transfer", [](Queue& q, uint64_t id) { return q.queue.complete(id); }, "id"_a)
      .def(
          "fail_transfer", [](Queue& q, uint64_t id, std::string error) { return q.queue.fail(id, std::move(error)); },
          "id"_a, "error"_a)
      .def(
          "cancel_transfer", [](Queue& q, uint64_t id) { return in_scope([&] { return q.cancel(id); }); }, "id"_a,
          "True when it will not be copied whole. One that run() or execute() copies is Cancelled once the copy has "
          "stopped; False when it is too late for that.")
      .def("execute", &execute, "op"_a,
           "Makes the copy of one transfer (a TransferOp or its id) after the work of the current stream, waits for it "
           "and gives the transfer as it ended. The addresses must be real.")
      .def("run", &run, "Makes the copies of all waiting transfers; how many were completed.")
      .def(
          "get_operation",
          [](const Queue& q, uint64_t id) -> std::optional<TransferOpObject> {
            auto record = q.queue.find(id);
            if (!record) return std::nullopt;
            return TransferOpObject{std::move(*record)};
          },
          "id"_a, "The transfer, or None.")
      .def("stats", [](const Queue& q) { return q.queue.stats(); })
      .def(
          "get_in_progress_for_stream",
          [](const Queue& q, int stream_id) { return wrapped(q.queue.in_progress_of(stream_id)); }, "stream_id"_a)
      .def("has_pending_work", [](const Queue& q) { return q.queue.has_pending_work(); })
      .def(
          "gc", [](Queue& q) { return q.queue.collect(); }, "Forgets finished transfers; how many.")
      .def(
          "clear", [](Queue& q) { q.queue.clear(); }, "Forgets all transfers.")
      .def("__repr__", [](const Queue& q) {
        auto stats = q.queue.stats();
        return "AsyncTransferEngine(max_concurrent=" + std::to_string(q.queue.max_concurrent()) +
               ", pending=" + std::to_string(stats.pending_count) +
               ", in_progress=" + std::to_string(stats.in_progress_count) + ")";
      });
}

}  // namespace

void bind_transfer(nb::module_& core) {
  nb::module_ top = runtime_module(core), transfer = runtime_module(core, "transfer");
  bind_stream_type(transfer);
  bind_queue(transfer);
  top.attr("AsyncTransferEngine") = transfer.attr("AsyncTransferEngine");
}

}  // namespace gpukit
