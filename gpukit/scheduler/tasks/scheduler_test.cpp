#include "gpukit/scheduler/tasks/scheduler.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/scheduler/tasks/scheduler_rate.h"

namespace gpukit::scheduler {
namespace {

TaskSpec spec(std::string id, int64_t memory = 0, std::vector<std::string> dependencies = {}) {
  TaskSpec spec;
  spec.id = std::move(id);
  spec.memory_bytes = memory;
  spec.dependencies = std::move(dependencies);
  return spec;
}

/// Appends its id to `order` when it runs.
TaskSpec recorded(std::vector<std::string>* order, std::string id, int64_t memory = 0,
                  std::vector<std::string> dependencies = {}) {
  TaskSpec task = spec(std::move(id), memory, std::move(dependencies));
  task.work = [order](const TaskControl& control) { order->push_back(control.id()); };
  return task;
}

struct SchedulerTest : testing::Test {
  VirtualClock clock{1000};
  SchedulerConfig config;
  std::vector<std::string> order;
  TaskPhase phase(Scheduler& scheduler, const std::string& id) { return scheduler.phase(*scheduler.find(id)); }
  TaskInfo info(Scheduler& scheduler, const std::string& id) { return scheduler.info(*scheduler.find(id)); }
};

TEST_F(SchedulerTest, RunsInOrderOfSubmission) {
  Scheduler scheduler(config, clock);
  for (const char* id : {"c", "a", "b"}) scheduler.submit(recorded(&order, id));
  EXPECT_EQ(scheduler.step(), 3u);
  EXPECT_EQ(order, (std::vector<std::string>{"c", "a", "b"}));
  EXPECT_EQ(scheduler.stats().completed_count, 3u);
  EXPECT_EQ(scheduler.step(), 0u);
}

TEST_F(SchedulerTest, StepRunsAtMostMax) {
  Scheduler scheduler(config, clock);
  for (int i = 0; i < 25; ++i) scheduler.submit(recorded(&order, ""));
  EXPECT_EQ(scheduler.step(), 10u);
  EXPECT_EQ(scheduler.step(1), 1u);
  EXPECT_EQ(scheduler.run(), 14u);
}

TEST_F(SchedulerTest, PoliciesOrderByRank) {
  config.aging = 2;
  Scheduler scheduler(config, clock);
  const auto add = [&](const char* id, TaskPolicy policy, int64_t priority, int64_t expected_ms) {
    TaskSpec task = recorded(&order, id);
    task.policy = policy;
    task.priority = priority;
    task.expected_ns = expected_ms * 1'000'000;
    scheduler.submit(std::move(task));
  };
  add("plain0", TaskPolicy::fifo, 7, 0);      // rank 0: the priority of a fifo task does not count
  add("long", TaskPolicy::sjf, 0, 500);       // rank 1 + 2 (at most aging)
  add("short", TaskPolicy::sjf, 0, 0);        // rank 2
  add("urgent", TaskPolicy::priority, 3, 0);  // rank 3 - 6
  add("late", TaskPolicy::priority, 0, 0);    // rank 4
  scheduler.run();
  EXPECT_EQ(order, (std::vector<std::string>{"urgent", "plain0", "short", "long", "late"}));
}

TEST_F(SchedulerTest, AgingBoundsHowManyOvertake) {
  config.aging = 10;
  Scheduler scheduler(config, clock);
  TaskSpec low = recorded(&order, "low");
  low.priority = 0;
  scheduler.submit(std::move(low));
  int overtook = 0;
  // Ever more urgent tasks: one is added for each that runs.
  while (order.empty() || order.back() != "low") {
    ASSERT_LT(overtook, 1000);
    TaskSpec high = recorded(&order, "");
    high.priority = 3;
    scheduler.submit(std::move(high));
    scheduler.step(1);
    ++overtook;
  }
  EXPECT_EQ(overtook - 1, 3 * 10 - 1);  // ranks 1-30 .. 29-30 are lower than 0; equal ranks keep the order
}

TEST_F(SchedulerTest, DependenciesGateAndFailuresSpreadWithTheirName) {
  Scheduler scheduler(config, clock);
  TaskSpec first = spec("first");
  first.work = [](const TaskControl&) { throw std::runtime_error("boom"); };
  scheduler.submit(std::move(first));
  scheduler.submit(recorded(&order, "second", 0, {"first"}));
  scheduler.submit(recorded(&order, "third", 0, {"second"}));
  scheduler.submit(recorded(&order, "other", 0, {"never submitted"}));
  EXPECT_EQ(phase(scheduler, "second"), TaskPhase::queued);
  scheduler.run();
  EXPECT_EQ(order, (std::vector<std::string>{"other"}));
  EXPECT_EQ(phase(scheduler, "third"), TaskPhase::failed);
  EXPECT_EQ(info(scheduler, "second").error, "dependency 'first' failed: boom");
  EXPECT_EQ(info(scheduler, "second").failure, Failure::dependency);
  EXPECT_NE(info(scheduler, "third").error.find("dependency 'second' failed"), std::string::npos);
  scheduler.submit(recorded(&order, "too late", 0, {"first"}));
  EXPECT_EQ(phase(scheduler, "too late"), TaskPhase::failed);
  EXPECT_THROW(throw_failure(info(scheduler, "third")), Error);
}

TEST_F(SchedulerTest, ADependencySubmittedLateIsWaitedFor) {
  config.total_memory = 10;
  Scheduler scheduler(config, clock);
  scheduler.submit(recorded(&order, "child", 6, {"parent"}));
  EXPECT_EQ(phase(scheduler, "child"), TaskPhase::pending);
  EXPECT_EQ(scheduler.stats().reserved_memory, 6);
  scheduler.submit(recorded(&order, "parent", 8));  // would not fit beside the child
  EXPECT_EQ(phase(scheduler, "child"), TaskPhase::queued);
  EXPECT_EQ(scheduler.stats().reserved_memory, 8);
  scheduler.run();
  EXPECT_EQ(order, (std::vector<std::string>{"parent", "child"}));
  EXPECT_EQ(scheduler.stats().reserved_memory, 0);
}

TEST_F(SchedulerTest, CirclesAreRefused) {
  Scheduler scheduler(config, clock);
  scheduler.submit(spec("a", 0, {"c"}));
  scheduler.submit(spec("b", 0, {"a"}));
  EXPECT_THROW(scheduler.submit(spec("c", 0, {"b"})), ArgumentError);
  EXPECT_THROW(scheduler.submit(spec("d", 0, {"d"})), ArgumentError);
  EXPECT_EQ(scheduler.stats().total_submitted, 2u);
  scheduler.submit(spec("c"));
  EXPECT_EQ(scheduler.take(9), (std::vector<std::string>{"c"}));
}

TEST_F(SchedulerTest, MemoryReallyGates) {
  config.total_memory = 100;
  Scheduler scheduler(config, clock);
  scheduler.submit(spec("a", 60));
  scheduler.submit(spec("b", 60));
  scheduler.submit(spec("c", 40));
  EXPECT_EQ(scheduler.stats().reserved_memory, 100);  // a and c; b waits
  EXPECT_EQ(phase(scheduler, "b"), TaskPhase::queued);
  EXPECT_FALSE(scheduler.may_start("b"));
  EXPECT_FALSE(scheduler.start("b"));
  EXPECT_EQ(scheduler.take(5), (std::vector<std::string>{"a", "c"}));
  EXPECT_TRUE(scheduler.fail("a", "no reason"));
  EXPECT_EQ(scheduler.take(5), (std::vector<std::string>{"b"}));
  EXPECT_TRUE(scheduler.cancel("b"));
  EXPECT_TRUE(scheduler.complete("c"));
  EXPECT_EQ(scheduler.stats().reserved_memory, 0);
  EXPECT_THROW(scheduler.submit(spec("huge", 101)), OutOfMemoryError);
  EXPECT_THROW(scheduler.submit(spec("negative", -1)), ArgumentError);
  EXPECT_THROW(scheduler.submit(spec("a", 1)), ArgumentError);
}

TEST_F(SchedulerTest, ALargeTaskIsOvertakenABoundedNumberOfTimes) {
  config.total_memory = 100;
  config.max_overtakes = 5;
  Scheduler scheduler(config, clock);
  scheduler.submit(spec("holder", 50));
  scheduler.submit(spec("large", 100));
  scheduler.take(1);
  int granted = 0;
  for (int i = 0; i < 50; ++i) {
    const std::string id = "small" + std::to_string(i);
    scheduler.submit(spec(id, 1));
    if (!scheduler.start(id)) break;
    EXPECT_TRUE(scheduler.complete(id));
    ++granted;
  }
  EXPECT_EQ(granted, 5);
  scheduler.complete("holder");
  EXPECT_EQ(scheduler.take(9), (std::vector<std::string>{"large"}));
}

TEST_F(SchedulerTest, GuaranteedTasksGetMemoryFirst) {
  config.total_memory = 100;
  Scheduler scheduler(config, clock);
  scheduler.submit(spec("holder", 100));
  scheduler.take(1);
  scheduler.submit(spec("best effort", 80));
  TaskSpec guaranteed = spec("guaranteed", 80);
  guaranteed.qos_class = QosClass::guaranteed;
  scheduler.submit(std::move(guaranteed));
  scheduler.complete("holder");
  EXPECT_EQ(scheduler.take(9), (std::vector<std::string>{"guaranteed"}));
}

TEST_F(SchedulerTest, IllegalMovesAreRefused) {
  Scheduler scheduler(config, clock);
  auto task = scheduler.submit(spec("a"));
  EXPECT_FALSE(scheduler.complete("a"));
  EXPECT_TRUE(scheduler.start("a"));
  EXPECT_FALSE(scheduler.start("a"));
  EXPECT_TRUE(scheduler.complete("a"));
  for (bool done : {scheduler.complete("a"), scheduler.fail("a", "x"), scheduler.cancel("a"), scheduler.start("a")})
    EXPECT_FALSE(done);
  EXPECT_FALSE(scheduler.complete("unknown"));
  EXPECT_THROW(scheduler.set_phase(task, TaskPhase::running), Error);
  auto other = scheduler.submit(spec("b"));
  EXPECT_THROW(scheduler.set_phase(other, TaskPhase::completed), Error);
  EXPECT_THROW(scheduler.set_phase(other, TaskPhase::queued), Error);
  scheduler.set_phase(other, TaskPhase::running);
  scheduler.set_phase(other, TaskPhase::completed);
  EXPECT_EQ(scheduler.stats().completed_count, 2u);
}

TEST_F(SchedulerTest, DeadlinesFailWaitingTasksAndDiscardLateResults) {
  Scheduler scheduler(config, clock);
  TaskSpec waiting = recorded(&order, "waiting", 0, {"running"});
  waiting.timeout_ns = 50;
  TaskSpec running = spec("running");
  running.timeout_ns = 100;
  bool asked = false;
  running.work = [&](const TaskControl& control) {
    EXPECT_FALSE(control.stop_requested());
    clock.advance_ns(100);
    asked = control.stop_requested();
  };
  scheduler.submit(std::move(running));
  scheduler.submit(std::move(waiting));
  scheduler.run();
  EXPECT_TRUE(asked);
  EXPECT_TRUE(order.empty());
  for (const char* id : {"running", "waiting"}) {
    EXPECT_EQ(phase(scheduler, id), TaskPhase::failed) << id;
    EXPECT_EQ(info(scheduler, id).failure, Failure::deadline) << id;
    EXPECT_THROW(throw_failure(info(scheduler, id)), DeadlineError);
  }
}

TEST_F(SchedulerTest, ALateCompleteIsRefused) {
  Scheduler scheduler(config, clock);
  TaskSpec task = spec("a", 10);
  task.timeout_ns = 5;
  scheduler.submit(std::move(task));
  ASSERT_TRUE(scheduler.start("a"));
  clock.advance_ns(5);
  EXPECT_EQ(scheduler.stats().reserved_memory, 10);
  EXPECT_FALSE(scheduler.complete("a"));
  EXPECT_EQ(info(scheduler, "a").failure, Failure::deadline);
  EXPECT_EQ(scheduler.stats().reserved_memory, 0);
}

TEST_F(SchedulerTest, CancellingRunningWorkKeepsItsMemoryUntilItReturns) {
  config.total_memory = 10;
  Scheduler scheduler(config, clock);
  TaskSpec task = spec("a", 10);
  task.work = [&](const TaskControl& control) {
    EXPECT_TRUE(scheduler.cancel("a"));
    EXPECT_TRUE(control.stop_requested());
    EXPECT_EQ(scheduler.stats().reserved_memory, 10);
    EXPECT_EQ(phase(scheduler, "a"), TaskPhase::running);
  };
  scheduler.submit(std::move(task));
  scheduler.submit(recorded(&order, "b", 10, {"a"}));
  scheduler.run();
  EXPECT_EQ(phase(scheduler, "a"), TaskPhase::cancelled);
  EXPECT_EQ(info(scheduler, "b").error, "dependency 'a' cancelled: cancelled while it ran");
  EXPECT_EQ(scheduler.stats().reserved_memory, 0);
}

TEST_F(SchedulerTest, InterruptedWorkFailsAndIsThrownOn) {
  Scheduler scheduler(config, clock);
  TaskSpec task = spec("a");
  task.work = [](const TaskControl&) { throw Interrupted("stop now"); };
  scheduler.submit(std::move(task));
  scheduler.submit(recorded(&order, "b"));
  EXPECT_THROW(scheduler.run(), Interrupted);
  EXPECT_EQ(phase(scheduler, "a"), TaskPhase::failed);
  EXPECT_EQ(phase(scheduler, "b"), TaskPhase::pending);
  EXPECT_EQ(scheduler.run(), 1u);
}

TEST_F(SchedulerTest, WorkThatThrowsAnythingFailsItsTask) {
  Scheduler scheduler(config, clock);
  TaskSpec task = spec("a");
  task.work = [](const TaskControl&) { throw 42; };
  scheduler.submit(std::move(task));
  scheduler.run();
  EXPECT_EQ(phase(scheduler, "a"), TaskPhase::failed);
}

TEST_F(SchedulerTest, EndedTasksAreCollectedAndCountsStay) {
  config.history = 3;
  Scheduler scheduler(config, clock);
  for (int i = 0; i < 10; ++i) scheduler.submit(recorded(&order, "t" + std::to_string(i)));
  scheduler.run();
  EXPECT_EQ(scheduler.stats().completed_count, 10u);
  EXPECT_EQ(scheduler.find("t6"), nullptr);
  EXPECT_NE(scheduler.find("t7"), nullptr);
  scheduler.submit(recorded(&order, "t0"));  // the id is free again
  scheduler.clear();
  EXPECT_EQ(scheduler.stats().total_submitted, 0u);
  EXPECT_EQ(scheduler.stats().pending_count, 0u);
  EXPECT_EQ(scheduler.find("t9"), nullptr);
}

TEST_F(SchedulerTest, ALongChainNeedsNoStack) {
  for (bool run : {true, false}) {
    Scheduler scheduler(config, clock);
    scheduler.submit(spec("0"));
    for (int i = 1; i < 200'000; ++i) scheduler.submit(spec(std::to_string(i), 0, {std::to_string(i - 1)}));
    if (run) {
      EXPECT_TRUE(scheduler.cancel("0"));
      EXPECT_EQ(scheduler.stats().failed_count, 199'999u);
    }
  }
}

TEST_F(SchedulerTest, AdmissionAgreesWithWhatHappens) {
  config.total_memory = 100;
  config.max_pending_tasks = 3;
  Scheduler scheduler(config, clock);
  EXPECT_EQ(scheduler.evaluate_admission(spec("a", 60)).kind, AdmissionKind::admit);
  EXPECT_EQ(scheduler.stats().total_submitted, 0u);
  const AdmissionDecision first = scheduler.admit(spec("a", 60));
  EXPECT_EQ(first.kind, AdmissionKind::admit);
  EXPECT_EQ(first.reserved_memory, 60);
  EXPECT_EQ(first.reserved_bandwidth, 0.6);
  EXPECT_EQ(scheduler.admit(spec("b", 60)).kind, AdmissionKind::queue);
  const AdmissionDecision never = scheduler.admit(spec("c", 101));
  ASSERT_EQ(never.kind, AdmissionKind::reject);
  EXPECT_EQ(never.rejection->reason, RejectReason::insufficient_memory);
  scheduler.admit(spec("d"));
  EXPECT_EQ(scheduler.admit(spec("e")).rejection->reason, RejectReason::queue_full);
  scheduler.cancel("d");
  EXPECT_EQ(scheduler.admit(spec("f", 0, {"d"})).rejection->reason, RejectReason::unsatisfiable_dependencies);
  EXPECT_EQ(scheduler.admit(spec("g", 0, {"a"})).kind, AdmissionKind::queue);
  const AdmissionStats stats = scheduler.admission_stats();
  EXPECT_EQ(stats.admitted_count, 2u);
  EXPECT_EQ(stats.queued_count, 2u);
  EXPECT_EQ(stats.rejected_count, 3u);
  scheduler.start("a");
  scheduler.complete("a");
  EXPECT_EQ(scheduler.admission_stats().reserved_memory, 60);  // b's
}

TEST_F(SchedulerTest, TimesAreOfTheClock) {
  Scheduler scheduler(config, clock);
  scheduler.submit(spec("a"));
  clock.advance_ns(2'000'000'000);
  scheduler.start("a");
  clock.advance_ns(1'000'000'000);
  scheduler.complete("a");
  const TaskInfo a = info(scheduler, "a");
  EXPECT_EQ(a.wait_ns(clock.now_ns()), 2'000'000'000);
  EXPECT_EQ(a.execution_ns(clock.now_ns()), 1'000'000'000);
  EXPECT_DOUBLE_EQ(scheduler.stats().avg_wait_s, 2.0);
  EXPECT_DOUBLE_EQ(scheduler.stats().avg_execution_s, 1.0);
}

TEST_F(SchedulerTest, WhoLooksSeesADeadlineThatHasPassed) {
  config.total_memory = 100;
  Scheduler scheduler(config, clock);
  const auto late = [&](const char* id) {
    TaskSpec task = spec(id, 100);
    task.timeout_ns = 5;
    auto made = scheduler.submit(std::move(task));
    clock.advance_ns(5);
    return made;
  };
  EXPECT_EQ(scheduler.phase(*late("a")), TaskPhase::failed);
  EXPECT_EQ(scheduler.info(*late("b")).failure, Failure::deadline);
  late("c");
  EXPECT_EQ(scheduler.stats_so_far().reserved_memory, 100);
  EXPECT_EQ(scheduler.stats().reserved_memory, 0);
  late("d");
  EXPECT_EQ(scheduler.admission_stats().pending_count, 0u);
  EXPECT_EQ(scheduler.stats_so_far().failed_count, 4u);
}

TEST(SchedulerWait, AVirtualClockEndsWaits) {
  VirtualClock clock(0, true);
  Scheduler scheduler({}, clock);
  TaskSpec task = spec("a");
  task.timeout_ns = 3'600'000'000'000;
  auto kept = scheduler.submit(std::move(task));
  EXPECT_FALSE(scheduler.wait(*kept, 1'000'000'000));
  EXPECT_EQ(clock.now_ns(), 1'000'000'000);
  EXPECT_TRUE(scheduler.wait(*kept));  // until its deadline
  EXPECT_GE(clock.now_ns(), 3'600'000'000'000);
  EXPECT_EQ(scheduler.info(*kept).failure, Failure::deadline);
  EXPECT_TRUE(scheduler.wait_idle());
}

TEST(Pacing, WaitsTheUnusedPartOfTheWindow) {
  EXPECT_TRUE(pacing_allows(0.5, 0.0, 1e9, 0.1));
  EXPECT_FALSE(pacing_allows(0.5, 100.0, 100.049, 0.1));
  EXPECT_TRUE(pacing_allows(0.5, 100.0, 100.051, 0.1));
  EXPECT_TRUE(pacing_allows(1.0, 100.0, 100.0, 0.1));
}

TEST(SchedulerRate, IsFast) {
  // Far below what a quiet core does: sanitizers and loaded machines run this too.
  EXPECT_GT(measure_scheduler(20'000, 20'000), 1e4);
}

}  // namespace
}  // namespace gpukit::scheduler
