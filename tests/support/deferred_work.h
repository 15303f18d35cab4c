// Work held back: what was submitted to streams waits in queues and runs in any order that streams and events allow.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "gpukit/driver/table.h"

namespace gpukit::testing {

/// A point in a stream. Each record makes a new ticket; a ticket is open until its record has run.
struct Marker {
  driver::CUevent handle = nullptr;  // null: internal to the queues
  std::set<uint64_t> open;
  uint64_t latest = 0;
  bool captured = false;   // last recorded inside a capture: the host table knows it, the queues do not
  bool destroyed = false;  // the host event goes with the last operation that names it
  ~Marker();
};

class DeferredWork {
 public:
  void push(driver::CUstream stream, std::function<void()> work);
  void push_record(driver::CUstream stream, std::shared_ptr<Marker> marker);
  void push_wait(driver::CUstream stream, std::shared_ptr<Marker> marker);
  /// The nodes in a random order that their dependencies allow; never beside another launch of the same graph.
  void push_graph(driver::CUstream stream, driver::CUgraphExec exec);

  bool idle(driver::CUstream stream) const { return !queues_.contains(stream); }
  static bool reached(const Marker& marker) { return !marker.open.contains(marker.latest); }
  size_t pending() const;
  std::vector<driver::CUstream> streams() const;

  /// Runs one operation of a stream, and first what it waits for.
  void step(driver::CUstream stream);
  void finish(driver::CUstream stream);
  void finish(const std::shared_ptr<Marker>& marker);
  /// One operation that may run now, of a stream picked at random. False when nothing is pending.
  bool run_one();
  void run_all() {
    while (run_one()) {
    }
  }
  void seed(uint64_t value) { random_.seed(value); }

  /// Called when a stream's last operation has run.
  std::function<void(driver::CUstream)> on_idle;

 private:
  struct Operation {
    std::function<void()> work;
    std::shared_ptr<Marker> waits_for;
    uint64_t ticket = 0;
  };
  void finish_ticket(const Marker& marker, uint64_t ticket);
  void pop_and_run(driver::CUstream stream);

  std::map<driver::CUstream, std::deque<Operation>> queues_;  // no entry is empty
  std::map<std::pair<const Marker*, uint64_t>, driver::CUstream> records_;
  std::map<driver::CUgraphExec, std::shared_ptr<Marker>> launches_;
  std::mt19937_64 random_{1};
};

}  // namespace gpukit::testing
