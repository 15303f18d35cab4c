// What stands behind FakeDriver. Internal to tests/support.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/deferred_work.h"
#include "tests/support/fake_driver.h"

namespace gpukit::testing {

struct FakeState {
  FakeState();
  void reset();

  std::recursive_mutex mutex;  // work may run under it: a host function makes no driver call
  std::vector<std::string> calls;
  std::string fail_name, failed_call;
  int fail_countdown = 0, fail_code = 0;
  Live live;

  bool deferring = false;
  bool drop_all_waits = false;
  int drop_countdown = 0, dropped_waits = 0;
  DeferredWork work;
  std::map<driver::CUevent, std::shared_ptr<Marker>> markers;
  std::set<driver::CUstream> leaving;  // destroyed while work was pending
  std::map<driver::CUstream, driver::CUcontext> stream_contexts;
  std::map<driver::CUevent, driver::CUcontext> event_contexts;

  driver::CudaTable behind;  // counts and defers, then the host table
};

/// Never destroyed: devices opened through the fake keep its table.
FakeState& fake_state();

}  // namespace gpukit::testing
