#include "gpukit/scheduler/tasks/scheduler_rate.h"

#include <deque>
#include <string>
#include <vector>

#include "gpukit/base/bench.h"
#include "gpukit/scheduler/tasks/admission.h"
#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::scheduler {

namespace {

constexpr int kRounds = 5;
constexpr size_t kAdmitted = 1000;

double per_second(const Timing& timing) { return timing.median_us > 0 ? 1e6 / timing.median_us : 0.0; }

}  // namespace

double measure_scheduler(size_t pending, size_t count) {
  SchedulerConfig config;
  config.total_memory = int64_t{1} << 40;
  Scheduler scheduler(config);
  size_t done = 0;
  const auto submit = [&] {
    TaskSpec spec;
    spec.memory_bytes = 4096;
    spec.priority = static_cast<int64_t>(done % 7);
    spec.work = [&done](const TaskControl&) { ++done; };
    scheduler.submit(std::move(spec));
  };
  for (size_t i = 0; i < pending; ++i) submit();
  const auto one = [&] {
    submit();
    scheduler.step(1);
  };
  return per_second(measure(one, kRounds, static_cast<int64_t>(count / kRounds + 1)));
}

double measure_admission(size_t count) {
  AdmissionController controller(AdmissionConfig(int64_t{1} << 40, 1.0));
  std::vector<std::string> ids;
  for (size_t i = 0; i < 2 * kAdmitted; ++i) ids.push_back("task-" + std::to_string(i));
  size_t next = 0;
  for (; next < kAdmitted; ++next) controller.try_admit(ids[next], 4096, 0.0001);
  const auto one = [&] {
    controller.release(ids[(next + kAdmitted) % ids.size()]);
    controller.try_admit(ids[next % ids.size()], 4096, 0.0001);
    ++next;
  };
  return per_second(measure(one, kRounds, static_cast<int64_t>(count / kRounds + 1)));
}

}  // namespace gpukit::scheduler
