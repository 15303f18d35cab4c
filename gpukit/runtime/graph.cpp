#include "gpukit/runtime/graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/fence.h"
#include "gpukit/memory/hold.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::runtime {

namespace {
thread_local Capture* t_capture = nullptr;

/// For what a capture began and will not be used. An invalidated capture ends with an error and leaves no graph.
void end_in_driver(const driver::Stream& stream) noexcept {
  try {
    stream.api().destroy_graph(stream.api().end_capture(stream.handle()));
  } catch (...) {
  }
}
}  // namespace

/// The capture of a thread, which alone may end it in the driver: also when the graph was destroyed by another thread,
/// and when the thread itself ends.
struct ThreadCapture {
  std::shared_ptr<Capture> capture;

  ~ThreadCapture() {
    if (capture != nullptr) drop();
  }
  void set(std::shared_ptr<Capture> next) {
    capture = std::move(next);
    t_capture = capture.get();
  }
  /// It takes no more submissions.
  std::shared_ptr<Capture> leave() {
    t_capture = nullptr;
    capture->origin_->capture.store(nullptr, std::memory_order_release);
    for (const auto& stream : capture->joined_) stream->capture.store(nullptr, std::memory_order_release);
    return std::move(capture);
  }
  void drop() noexcept {
    const std::shared_ptr<Capture> left = leave();
    left->dropped_.store(true, std::memory_order_release);
    end_in_driver(*left->origin_);
  }
};

namespace {
thread_local ThreadCapture t_owner;
}  // namespace

Capture* thread_capture() {
  if (t_capture != nullptr && t_capture->dropped()) [[unlikely]]
    t_owner.drop();
  return t_capture;
}

void Capture::pin(const std::shared_ptr<memory::Storage>& storage, bool write) {
  for (Pinned& entry : pinned_) {
    if (entry.storage != storage) continue;
    entry.written = entry.written || write;
    return;
  }
  pinned_.push_back({storage, write});
  if (!storage->managed()) return;
  managed_.push_back(storage);
  storage->graph_hold();
}

Capture::~Capture() {
  for (const auto& storage : managed_) storage->graph_release();
}

namespace {

using GroupOf = std::weak_ptr<StreamGroup>;

/// The same one, or both none. A group that is gone differs from every other, and from none.
bool same_group(const GroupOf& a, const GroupOf& b) { return !a.owner_before(b) && !b.owner_before(a); }

/// Streams of one session on the same SMs. A stream of no session goes with all.
bool same_session(const driver::Stream& a, const driver::Stream& b) {
  const bool in_both = same_group(a.group, b.group) || same_group(a.group, {}) || same_group(b.group, {});
  return in_both && a.green() == b.green();
}

}  // namespace

Graph::Graph(Device device) : device_(device), stream_(new_stream(device, 0, false)) {}

Graph::~Graph() {
  if (capture_ != nullptr) abandon();
  try {
    reset();
  } catch (...) {
  }
}

void Graph::begin_capture() {
  if (thread_capture() != nullptr) throw Error("begin_capture: this thread is already capturing a graph");
  if (capturing()) throw Error("begin_capture: the graph is being captured by another thread");
  if (ready()) throw Error("begin_capture: the graph already holds a capture; call reset() first");
  // A graph runs on the SMs of the stream it was captured on, so that must be one of this session's.
  const std::shared_ptr<driver::Stream> current = current_stream(device_);
  synchronize_streams(device_, "begin_capture",
                      [&](const driver::Stream& stream) { return same_session(stream, *current); });
  if (!same_session(*stream_, *current)) stream_ = new_stream(device_, 0, false);
  auto capture = std::make_shared<Capture>(stream_);
  const driver::Api& api = stream_->api();
  open_device(device_).context.make_current();
  api.begin_capture(stream_->handle());
  try {
    capture->id_ = api.capture_info(stream_->handle()).id;
  } catch (...) {
    end_in_driver(*stream_);
    throw;
  }
  capture_ = capture;
  t_owner.set(std::move(capture));
  stream_->capture.store(t_capture, std::memory_order_release);
}

void Graph::end_capture() {
  if (!capturing()) throw Error("end_capture: no capture is running on this graph");
  if (t_capture != capture_.get()) throw Error("end_capture: the capture was begun by another thread");
  const driver::Api& api = stream_->api();
  driver::GraphHandle graph = nullptr;
  try {
    graph = api.end_capture(stream_->handle());
  } catch (const CudaError& error) {
    t_owner.leave();
    capture_.reset();
    if (error.code != driver::kErrorCaptureUnjoined) throw;
    throw Error("end_capture: work on a second stream was not joined; make the graph's stream wait for its last event");
  }
  std::shared_ptr<Capture> captured = t_owner.leave();
  capture_.reset();
  captured->joined_.clear();
  try {
    num_nodes_ = static_cast<int64_t>(api.graph_nodes(graph));
    exec_ = api.instantiate(graph);
  } catch (...) {
    api.destroy_graph(graph);
    num_nodes_ = 0;
    throw;
  }
  api.destroy_graph(graph);
  captured_ = std::move(captured);
}

void Graph::abandon() noexcept {
  if (capture_ == nullptr) return;
  if (t_capture == capture_.get())
    t_owner.drop();
  else
    capture_->dropped_.store(true, std::memory_order_release);  // its thread ends it when it next looks
  capture_.reset();
}

void Graph::replay() {
  {
    std::lock_guard lock(mutex_);
    if (!ready()) throw Error("replay: the graph holds no capture; call begin_capture and end_capture first");
    ++replaying_;
  }
  struct Leave {
    Graph& graph;
    ~Leave() {
      std::lock_guard lock(graph.mutex_);
      --graph.replaying_;
    }
  } leave{*this};
  submit_replay();
}

void Graph::submit_replay() {
  refuse_in_capture("replay", "launches a graph");
  const std::shared_ptr<driver::Stream>& stream = borrow_stream(device_);
  check_session(*stream);
  if (transfers_active()) {
    for (const Capture::Pinned& entry : captured_->pinned_) {
      const memory::Use use{&entry.storage, 0, entry.written};
      settle({&use, 1}, *stream);
    }
  }
  memory::GroupHold hold(captured_->managed_);
  Submission submission(stream, "graph replay", SubmitKind::graph);
  int code = code_of([&] { submission.api().launch_graph(exec_, stream->handle()); });
  submission.done(code, {});
  hold.note_use(stream);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint64_t forgotten = memory::g_forgotten_streams.load(std::memory_order_seq_cst);
  std::shared_ptr<driver::Stream> last;  // may be destroyed: after the lock
  {
    std::lock_guard lock(mutex_);
    if (last_stream_ == stream && last_forgotten_ == forgotten) return;
    last = std::exchange(last_stream_, stream);
    last_forgotten_ = forgotten;
    if (!captured_->managed_.empty() &&
        std::find(replayed_on_.begin(), replayed_on_.end(), stream) == replayed_on_.end())
      replayed_on_.push_back(stream);
  }
  for (const Capture::Pinned& entry : captured_->pinned_) entry.storage->note_use(stream);
}

bool Graph::fits_session() const { return ready() && same_session(*stream_, *current_stream(device_)); }

void Graph::check_session(const driver::Stream& stream) const {
  if (same_session(*stream_, stream)) return;
  if (!same_group(stream_->group, stream.group))
    throw Error("replay: the graph was captured in another session, whose SMs it would run on; capture it in this one");
  throw Error("replay: the session's SMs have changed since the capture; capture the graph again");
}

void Graph::join(memory::EvictionGroup& group) {
  if (!ready()) throw Error("join: the graph holds no capture; call begin_capture and end_capture first");
  for (const auto& storage : captured_->managed_) group.add(storage);
}

void Graph::synchronize() {
  std::shared_ptr<driver::Stream> last;
  {
    std::lock_guard lock(mutex_);
    last = last_stream_ != nullptr ? last_stream_ : stream_;
  }
  runtime::synchronize(*last, "synchronize");
}

void Graph::reset() {
  if (capturing()) throw Error("reset: the graph is being captured");
  driver::GraphExecHandle exec = nullptr;
  std::shared_ptr<Capture> captured;
  std::shared_ptr<driver::Stream> last;
  std::vector<std::shared_ptr<driver::Stream>> replayed_on;
  {
    std::lock_guard lock(mutex_);
    if (replaying_ > 0) throw Error("reset: another thread replays the graph");
    exec = std::exchange(exec_, nullptr);
    captured = std::move(captured_);
    last = std::move(last_stream_);
    replayed_on.swap(replayed_on_);
    num_nodes_ = 0;
  }
  if (exec != nullptr) stream_->api().destroy_graph_exec(exec);
  // Blocks that may move again do so after the replays until now. Buffers of a replay still running are given back in
  // the order of its stream.
  for (const auto& stream : replayed_on)
    for (const auto& storage : captured->managed_) storage->note_use(stream);
}

bool Graph::verify() {
  if (!ready()) throw Error("verify: the graph holds no capture; call begin_capture and end_capture first");
  refuse_in_capture("verify", "waits for the device");
  // The eager steps use the addresses of the capture.
  std::vector<memory::Pin> pins;
  for (const auto& storage : captured_->managed_) pins.emplace_back(storage);
  using Bytes = std::vector<std::vector<char>>;
  std::vector<const Capture::Pinned*> written;
  for (const Capture::Pinned& entry : captured_->pinned_)
    if (entry.written && entry.storage->bytes() != 0 && !captured_->workspace.has(*entry.storage))
      written.push_back(&entry);

  runtime::synchronize(device_);
  auto save = [&] {
    Bytes bytes;
    for (const Capture::Pinned* entry : written) {
      bytes.emplace_back(entry->storage->bytes());
      copy_to_host(bytes.back().data(), {&entry->storage, 0, false}, entry->storage->bytes(), "verify");
    }
    return bytes;
  };
  auto restore = [&](const Bytes& bytes) {
    for (size_t i = 0; i < written.size(); ++i)
      copy_from_host({&written[i]->storage, 0, true}, bytes[i].data(), bytes[i].size());
  };

  const Bytes start = save();
  const std::shared_ptr<driver::Stream>& stream = borrow_stream(device_);
  Bytes replayed, eager;
  try {
    replay();
    replayed = save();
    restore(start);
    for (const auto& step : captured_->steps_)
      if (int code = step(*stream))
        throw CudaError("verify", code, stream->api().error_name(code), "an eager step failed");
    eager = save();
  } catch (...) {
    // A failure, or a signal that ended a wait: that is what is told.
    try {
      restore(start);
    } catch (...) {
    }
    throw;
  }
  restore(start);
  runtime::synchronize(*stream, "verify");
  for (size_t i = 0; i < written.size(); ++i) {
    auto [a, b] = std::mismatch(replayed[i].begin(), replayed[i].end(), eager[i].begin());
    if (a == replayed[i].end()) continue;
    throw Error("verify: replay and eager differ: written buffer " + std::to_string(i) + " of " +
                std::to_string(written.size()) + " (" + std::to_string(replayed[i].size()) + " bytes), first at byte " +
                std::to_string(a - replayed[i].begin()));
  }
  return true;
}

ScopedCapture::ScopedCapture(Graph& graph) : graph_(graph) {
  graph.begin_capture();
  try {
    session_ = current_session().with_stream(graph.stream()).with_device(graph.stream()->device());
    guard_.emplace(session_);
  } catch (...) {
    graph.abandon();
    throw;
  }
}

ScopedCapture::~ScopedCapture() {
  if (!guard_) return;
  guard_.reset();
  graph_.abandon();
}

void ScopedCapture::end() {
  if (!guard_) throw Error("ScopedCapture.end: the capture is over");
  guard_.reset();
  graph_.end_capture();
}

}  // namespace gpukit::runtime
