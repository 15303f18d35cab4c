#include "tests/support/fake_driver.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "tests/support/fake_state.h"

namespace gpukit::testing {

using driver::CudaTable;
using driver::CUresult;
using driver::host_table;

FakeState& fake_state() {
  static FakeState* state = new FakeState;
  return *state;
}

namespace {

// What the entry point `name` gives instead of being made, or 0.
CUresult enter(const char* name) {
  FakeState& s = fake_state();
  std::lock_guard lock(s.mutex);
  s.calls.push_back(name);
  if (s.fail_countdown <= 0 || (!s.fail_name.empty() && s.fail_name != name) || --s.fail_countdown > 0) return 0;
  s.failed_call = name;
  return s.fail_code;
}

template <typename... Arguments>
void after_failure(const char*, Arguments...) {}

// A capture is over even when ending it fails; there is no graph then.
void after_failure(const char* name, driver::CUstream stream, driver::CUgraph* graph) {
  if (std::strcmp(name, "cuStreamEndCapture") != 0) return;
  if (host_table().cuStreamEndCapture(stream, graph) == 0) host_table().cuGraphDestroy(*graph);
  *graph = nullptr;
}

// One static function per entry of the table: notes the call, then makes it on the table behind.
template <auto Member>
struct Entry;

template <typename... Arguments, CUresult (*CudaTable::*Member)(Arguments...)>
struct Entry<Member> {
  static inline const char* name = nullptr;
  static CUresult call(Arguments... arguments) {
    if (CUresult code = enter(name)) {
      after_failure(name, arguments...);
      return code;
    }
    return (fake_state().behind.*Member)(arguments...);
  }
};

const CudaTable& recording_table() {
  static const CudaTable table = [] {
    CudaTable made;
#define GPUKIT_FAKE_ENTRY(member, version, symbol, parameters) \
  Entry<& CudaTable::member>::name = #member;                  \
  made.member = Entry<&CudaTable::member>::call;
    GPUKIT_CUDA_FUNCTIONS(GPUKIT_FAKE_ENTRY)
    GPUKIT_CUDA_OPTIONAL_FUNCTIONS(GPUKIT_FAKE_ENTRY)
#undef GPUKIT_FAKE_ENTRY
    made.cuGetErrorName = host_table().cuGetErrorName;
    return made;
  }();
  return table;
}

}  // namespace

std::string str(const Live& live) {
  auto part = [](const char* name, int count) { return std::string(name) + " " + std::to_string(count) + " "; };
  return part("contexts", live.contexts) + part("memory", live.memory) + part("pinned", live.pinned) +
         part("streams", live.streams) + part("events", live.events) + part("graphs", live.graphs) +
         part("execs", live.execs) + part("pages", live.pages) + part("ranges", live.ranges) +
         part("mappings", live.mappings) + part("registrations", live.registrations) + part("green", live.green);
}

FakeDriver::FakeDriver() {
  fake_state().reset();
  reopen_devices();
}

FakeDriver::~FakeDriver() {
  defer(false);
  stop_failing();
  runtime::replace_host_driver(host_table());
}

const CudaTable& FakeDriver::table() const { return recording_table(); }

void FakeDriver::reopen_devices() { runtime::replace_host_driver(recording_table()); }

std::vector<std::string> FakeDriver::calls() const {
  std::lock_guard lock(fake_state().mutex);
  return fake_state().calls;
}

int FakeDriver::count(const std::string& name) const {
  std::vector<std::string> all = calls();
  return static_cast<int>(std::count(all.begin(), all.end(), name));
}

void FakeDriver::clear_calls() {
  std::lock_guard lock(fake_state().mutex);
  fake_state().calls.clear();
}

void FakeDriver::fail_nth(int n, int code) { fail_nth_of("", n, code); }

void FakeDriver::fail_nth_of(const std::string& name, int n, int code) {
  std::lock_guard lock(fake_state().mutex);
  fake_state().fail_name = name;
  fake_state().fail_countdown = n;
  fake_state().fail_code = code;
  fake_state().failed_call.clear();
}

void FakeDriver::stop_failing() {
  std::lock_guard lock(fake_state().mutex);
  fake_state().fail_countdown = 0;
}

std::string FakeDriver::failed_call() const {
  std::lock_guard lock(fake_state().mutex);
  return fake_state().failed_call;
}

Live FakeDriver::live() const {
  std::lock_guard lock(fake_state().mutex);
  return fake_state().live;
}

void FakeDriver::defer(bool on) {
  std::lock_guard lock(fake_state().mutex);
  if (!on) fake_state().work.run_all();
  fake_state().deferring = on;
}

size_t FakeDriver::pending() const {
  std::lock_guard lock(fake_state().mutex);
  return fake_state().work.pending();
}

void FakeDriver::queries_run(bool on) {
  std::lock_guard lock(fake_state().mutex);
  fake_state().queries_run = on;
}

void FakeDriver::run_all(uint64_t seed) {
  std::lock_guard lock(fake_state().mutex);
  fake_state().work.seed(seed);
  fake_state().work.run_all();
}

bool FakeDriver::run_one() {
  std::lock_guard lock(fake_state().mutex);
  return fake_state().work.run_one();
}

void FakeDriver::seed(uint64_t value) {
  std::lock_guard lock(fake_state().mutex);
  fake_state().work.seed(value);
}

void FakeDriver::drop_wait(int n) {
  std::lock_guard lock(fake_state().mutex);
  fake_state().drop_all_waits = n == 0;
  fake_state().drop_countdown = n;
}

int FakeDriver::dropped_waits() const {
  std::lock_guard lock(fake_state().mutex);
  return fake_state().dropped_waits;
}

}  // namespace gpukit::testing
