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
  bool queries_run = true;
  bool drop_all_waits = false;
  int drop_countdown = 0, dropped_waits = 0;
  DeferredWork work;
  std::map<driver::CUevent, std::shared_ptr<Marker>> markers;
  std::set<driver::CUstream> leaving;  // destroyed while work was pending
  std::map<driver::CUstream, driver::CUcontext> stream_contexts;
  std::map<driver::CUevent, driver::CUcontext> event_contexts;
  std::set<driver::CUdeviceptr> mapped;  // where mappings start

  driver::CudaTable behind;  // counts and defers, then the host table
};

/// Pages, address ranges, page-locking and green contexts: counts what is alive.
void fill_page_entries(driver::CudaTable& behind);
/// Counts a change of one kind when the call succeeded. Needs the lock.
driver::CUresult counted(driver::CUresult code, int Live::*kind, int change);

/// Never destroyed: devices opened through the fake keep its table.
FakeState& fake_state();

}  // namespace gpukit::testing
