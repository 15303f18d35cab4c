// A driver for tests: the host table behind a layer that records calls, fails the n-th, counts what is alive, and can
// hold submitted work back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpukit/driver/table.h"

namespace gpukit::testing {

/// Driver objects made and not yet released.
struct Live {
  int contexts = 0, memory = 0, pinned = 0, streams = 0, events = 0, graphs = 0, execs = 0;
  int pages = 0, ranges = 0, mappings = 0, registrations = 0, green = 0;
  friend bool operator==(const Live&, const Live&) = default;
};
std::string str(const Live& live);

/// The CPU device of the runtime uses it while it exists. One at a time; arrays and streams made meanwhile must go
/// before it.
class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const driver::CudaTable& table() const;
  /// Makes the runtime forget its CPU devices, so that the next use opens them again.
  void reopen_devices();

  /// Names of the calls since the last clear, in order. cuGetErrorName is not one of them.
  std::vector<std::string> calls() const;
  int count(const std::string& name) const;
  void clear_calls();

  /// The n-th call from now on (1 is the next) is not made and gives `code`; later ones are made again.
  void fail_nth(int n, int code);
  /// The same, counting only calls of `name`.
  void fail_nth_of(const std::string& name, int n, int code);
  void stop_failing();
  /// The call that was made to fail; empty while none was.
  std::string failed_call() const;

  Live live() const;

  /// From now on submitted work waits. Turning it off runs what is waiting. Unmapping and releasing pages does not wait
  /// for it: an operation that still needs them faults when it runs.
  void defer(bool on);
  /// A query of something that waits runs one operation, so that a loop of them ends. Off: work runs only when the test
  /// says, or when something waits for it. Each FakeDriver starts with it on.
  void queries_run(bool on);
  size_t pending() const;
  /// Everything, in an order that streams and events allow, chosen by `seed`.
  void run_all(uint64_t seed);
  /// One operation of a stream picked at random; false when nothing waits.
  bool run_one();
  /// The order of everything the driver runs by itself from now on.
  void seed(uint64_t value);
  /// The n-th cuStreamWaitEvent from now on (1 is the next) says yes and does nothing; 0: all of them.
  void drop_wait(int n);
  int dropped_waits() const;
};

}  // namespace gpukit::testing
