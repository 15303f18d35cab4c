// Graphs: what a thread submits between begin and end, replayed with one call and with the same bits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/storage.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/workspace.h"

namespace gpukit::runtime {

/// What a running capture collects. Reached by the gate through Stream::capture. The thread that captures holds it
/// until the capture is over, and so does the graph.
class Capture : public std::enable_shared_from_this<Capture> {
 public:
  explicit Capture(std::shared_ptr<driver::Stream> origin) : origin_(std::move(origin)) {}
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  void pin(const std::shared_ptr<memory::Storage>& storage, bool write);
  void keep(std::function<int(const driver::Stream&)> again) { steps_.push_back(std::move(again)); }
  /// Keeps anything a captured node reads (a host function's state) alive as long as the graph.
  void keep_alive(std::shared_ptr<void> object) { kept_.push_back(std::move(object)); }
  /// What captured calls make and use up; what is left there is no result.
  CaptureWorkspace workspace;
  /// The graph, or the thread, went away: nothing becomes of it.
  bool dropped() const { return dropped_.load(std::memory_order_acquire); }

 private:
  friend struct ThreadCapture;
  friend class Graph;
  friend class Submission;
  struct Pinned {
    std::shared_ptr<memory::Storage> storage;
    bool written;
  };
  /// Blocks that may move otherwise; they keep their addresses while the graph knows them.
  std::vector<std::shared_ptr<memory::Storage>> managed_;
  std::shared_ptr<driver::Stream> origin_;
  std::atomic<bool> dropped_{false};
  uint64_t id_ = 0;
  std::vector<std::shared_ptr<driver::Stream>> joined_;
  std::vector<Pinned> pinned_;
  std::vector<std::function<int(const driver::Stream&)>> steps_;
  std::vector<std::shared_ptr<void>> kept_;
};

/// The capture of this thread, or null.
Capture* thread_capture();

/// A graph that is destroyed while it is captured ends the capture, in whichever thread.
class Graph {
 public:
  explicit Graph(Device device);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Waits for the streams of this session, then captures what this thread submits to stream(). The caller makes that
  /// stream current (Python: ContextVar; C++: ScopedCapture does both). Throws Error when a capture is running in this
  /// thread or the graph is ready.
  void begin_capture();
  /// Instantiates. On failure the graph is empty again and the thread captures no more.
  void end_capture();
  /// Ends a capture whose body failed; nothing is kept. Never throws.
  void abandon() noexcept;
  /// Asynchronous, on the current stream: after the work already there and before what is submitted later. Throws
  /// Error from another session than the capture's, and when that session's SMs have changed. Threads may replay one
  /// graph at the same time.
  void replay();
  /// What it holds leaves the device and comes back with the group from now on, and at the same addresses. Throws Error
  /// when it holds no capture or a block of it belongs to another group.
  void join(memory::EvictionGroup& group);
  /// Waits for the last replay.
  void synchronize();
  /// Drops the capture and lets go of its buffers. Throws Error while another thread replays.
  void reset();
  bool ready() const { return exec_ != nullptr; }
  /// Ready, and captured in this session on the SMs it has now: replay() would not refuse it.
  bool fits_session() const;
  bool capturing() const { return capture_ != nullptr && !capture_->dropped(); }
  int64_t num_nodes() const { return num_nodes_; }
  const std::shared_ptr<driver::Stream>& stream() const { return stream_; }
  /// Replays, issues the same work eagerly from the same start, compares every written byte, and puts the start back.
  /// True when equal; throws Error naming the first differing buffer and byte otherwise.
  bool verify();

 private:
  void check_session(const driver::Stream& stream) const;
  void submit_replay();
  Device device_;
  std::shared_ptr<driver::Stream> stream_;
  std::shared_ptr<Capture> capture_;   // while capturing
  std::shared_ptr<Capture> captured_;  // what the graph holds
  driver::GraphExecHandle exec_ = nullptr;
  int64_t num_nodes_ = 0;
  std::mutex mutex_;  // what follows
  int replaying_ = 0;
  std::shared_ptr<driver::Stream> last_stream_;               // of the last replay
  uint64_t last_forgotten_ = 0;                               // the blocks know of it while no one forgets
  std::vector<std::shared_ptr<driver::Stream>> replayed_on_;  // every one, when the graph has managed blocks
};

/// Captures into a graph what this thread submits in a scope, whose current stream is the graph's. end() makes the
/// graph ready; a scope that is left without it, by an exception too, leaves the graph empty and the thread free.
///
///     runtime::Graph graph(device);
///     runtime::ScopedCapture capture(graph);
///     add(a, b, &out);
///     capture.end();
///     graph.replay();
class ScopedCapture {
 public:
  /// Throws as Graph::begin_capture.
  explicit ScopedCapture(Graph& graph);
  ~ScopedCapture();
  ScopedCapture(const ScopedCapture&) = delete;
  ScopedCapture& operator=(const ScopedCapture&) = delete;
  /// Throws as Graph::end_capture; the capture is over then too.
  void end();

 private:
  Graph& graph_;
  Session session_;
  std::optional<SessionGuard> guard_;  // empty once ended
};

}  // namespace gpukit::runtime
