// Random use against a model: no overcommit, no lost task, no illegal move, no starvation, memory back to zero.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::scheduler {
namespace {

struct Model {
  int64_t memory = 0;
  TaskPhase phase = TaskPhase::queued;
  std::vector<std::string> dependencies;
};

class RandomUse {
 public:
  explicit RandomUse(unsigned seed) : random_(seed), clock_(0), scheduler_(config(seed), clock_) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      act();
      if (i % 16 == 0) check();
      if (testing::Test::HasFatalFailure()) return;
    }
    drain();
  }
  std::string log() { return scheduler_.log().json_lines(); }

 private:
  static SchedulerConfig config(unsigned seed) {
    SchedulerConfig config;
    if (seed % 4 != 0) config.total_memory = kTotal;
    config.aging = seed % 3 == 0 ? 1 : 20;
    config.max_overtakes = static_cast<int>(seed % 5);
    config.history = 1'000'000;
    config.log_capacity = 100'000;
    return config;
  }

  int64_t pick(int64_t below) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(below)); }
  std::string any_id() { return "t" + std::to_string(pick(next_ + 3)); }

  void submit() {
    TaskSpec spec;
    // Sometimes an id that others may already have named as a dependency.
    spec.id = "t" + std::to_string(next_ + (pick(4) == 0 ? 1 : 0));
    if (model_.count(spec.id) != 0) spec.id = "t" + std::to_string(++next_);
    while (model_.count(spec.id) != 0) spec.id = "t" + std::to_string(++next_);
    ++next_;
    spec.memory_bytes = pick(3) == 0 ? 0 : pick(kTotal) + 1;
    spec.priority = pick(9) - 4;
    spec.policy = static_cast<TaskPolicy>(pick(3));
    spec.expected_ns = pick(50) * 1'000'000;
    spec.qos_class = static_cast<QosClass>(pick(3));
    if (pick(4) == 0) spec.timeout_ns = pick(2000) + 1;
    for (int64_t i = pick(3); i > 0 && next_ > 0; --i) spec.dependencies.push_back(any_id());
    const AdmissionDecision expected = scheduler_.evaluate_admission_or(spec);
    named_.insert(spec.dependencies.begin(), spec.dependencies.end());
    Model entry{spec.memory_bytes, TaskPhase::queued, spec.dependencies};
    const std::string id = spec.id;
    std::shared_ptr<Task> task;
    try {
      task = scheduler_.submit(std::move(spec));
    } catch (const ArgumentError&) {
      return;  // a circle
    }
    model_.emplace(id, entry);
    const TaskPhase phase = scheduler_.phase(*task);
    ASSERT_TRUE(expected.kind != AdmissionKind::admit || phase == TaskPhase::pending) << id;
    // A task that others named before it came takes their turn, which may free the memory it needs.
    ASSERT_TRUE(expected.kind != AdmissionKind::queue || phase == TaskPhase::queued || named_.count(id) != 0) << id;
  }

  void act() {
    clock_.advance_ns(pick(20));
    const std::string id = any_id();
    switch (pick(8)) {
      case 0:
      case 1:
      case 2: submit(); break;
      case 3: scheduler_.take(static_cast<size_t>(pick(3))); break;
      case 4: start(id); break;
      case 5: scheduler_.complete(id); break;
      case 6: scheduler_.fail(id, "failed by the test"); break;
      case 7:
        if (pick(3) == 0) scheduler_.cancel(id);
        break;
    }
  }

  void start(const std::string& id) {
    const bool could = scheduler_.may_start(id);
    ASSERT_EQ(scheduler_.start(id), could) << id;
    ASSERT_TRUE(!could || scheduler_.phase(*scheduler_.find(id)) == TaskPhase::running) << id;
  }

  /// Everything the scheduler says must be possible after what the model knows.
  void check() {
    size_t counts[kTaskPhases] = {};
    int64_t reserved = 0;
    for (auto& [id, entry] : model_) {
      const std::shared_ptr<Task> task = scheduler_.find(id);
      ASSERT_NE(task, nullptr) << id << " is lost";
      const TaskInfo now = scheduler_.info(*task);
      ++counts[static_cast<int>(now.phase)];
      ASSERT_FALSE(is_terminal(entry.phase) && now.phase != entry.phase) << id << " came back";
      ASSERT_TRUE(now.phase != TaskPhase::completed || now.started_ns >= 0) << id;
      ASSERT_EQ(now.reserved, now.phase == TaskPhase::pending || now.phase == TaskPhase::running) << id;
      if (now.reserved) reserved += entry.memory;
      if (now.phase == TaskPhase::pending) {
        for (const std::string& dependency : entry.dependencies) {
          const std::shared_ptr<Task> known = scheduler_.find(dependency);
          ASSERT_TRUE(known == nullptr || scheduler_.phase(*known) == TaskPhase::completed) << id << " " << dependency;
        }
      }
      entry.phase = now.phase;
    }
    const SchedulerStats stats = scheduler_.stats();
    ASSERT_EQ(stats.total_submitted, model_.size());
    ASSERT_EQ(stats.pending_count, counts[0] + counts[1]);
    ASSERT_EQ(stats.running_count, counts[2]);
    ASSERT_EQ(stats.completed_count, counts[3]);
    ASSERT_EQ(stats.failed_count, counts[4]);
    ASSERT_EQ(stats.cancelled_count, counts[5]);
    ASSERT_EQ(stats.reserved_memory, reserved);
    ASSERT_TRUE(!scheduler_.config().total_memory || reserved <= kTotal);
  }

  /// Whatever waits gets its turn once what runs ends.
  void drain() {
    for (size_t turns = 0; scheduler_.stats().pending_count + scheduler_.stats().running_count > 0; ++turns) {
      ASSERT_LT(turns, model_.size() + 10) << "starvation";
      scheduler_.take(1);
      for (auto& [id, entry] : model_) {
        const std::shared_ptr<Task> task = scheduler_.find(id);
        if (scheduler_.phase(*task) == TaskPhase::running) scheduler_.complete(id);
      }
    }
    check();
    ASSERT_EQ(scheduler_.stats().reserved_memory, 0);
  }

  static constexpr int64_t kTotal = 1000;
  /// A scheduler whose evaluation of a circle, which throws, counts as a rejection.
  struct Evaluating : Scheduler {
    using Scheduler::Scheduler;
    AdmissionDecision evaluate_admission_or(const TaskSpec& spec) {
      try {
        return evaluate_admission(spec);
      } catch (const ArgumentError&) {
        return AdmissionDecision::rejected({});
      }
    }
  };

  std::mt19937 random_;
  VirtualClock clock_;
  Evaluating scheduler_;
  std::map<std::string, Model> model_;
  std::set<std::string> named_;
  int64_t next_ = 0;
};

TEST(SchedulerProperty, HoldsUnderRandomUse) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomUse(seed).run(600);
    if (HasFatalFailure()) return;
  }
}

TEST(SchedulerProperty, TheSameUseGivesTheSameLog) {
  RandomUse first(99), second(99);
  first.run(2000);
  second.run(2000);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_GT(first.log().size(), 10'000u);
  EXPECT_EQ(first.log(), second.log());
}

TEST(SchedulerProperty, NoTaskWaitsForMemoryLongerThanTheBound) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    VirtualClock clock;
    SchedulerConfig config;
    config.total_memory = 100;
    config.max_overtakes = 3;
    config.aging = 5;
    Scheduler scheduler(config, clock);
    std::vector<std::string> running;
    const auto submit = [&](const std::string& id, int64_t memory) {
      TaskSpec spec;
      spec.id = id;
      spec.memory_bytes = memory;
      scheduler.submit(std::move(spec));
    };
    submit("holder", 60);
    running = scheduler.take(1);
    submit("victim", 100);
    int grants = 0;
    // A stream of small tasks that never ends by itself.
    for (int i = 0; scheduler.phase(*scheduler.find("victim")) == TaskPhase::queued; ++i) {
      ASSERT_LT(i, 200);
      submit("s" + std::to_string(i), 1 + static_cast<int64_t>(random() % 40));
      for (std::string& id : scheduler.take(1)) {
        running.push_back(std::move(id));
        ++grants;
      }
      if (!running.empty() && i % 2 == 1) {
        std::swap(running[random() % running.size()], running.back());
        ASSERT_TRUE(scheduler.complete(running.back()));
        running.pop_back();
      }
      if (running.empty() && i % 2 == 1) scheduler.take(100);
    }
    EXPECT_LE(grants, config.max_overtakes);  // none waits before it: (0 + 1) * (3 + 1), its own included
  }
}

}  // namespace
}  // namespace gpukit::scheduler
