#include "gpukit/scheduler/tasks/simulate.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <unordered_map>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {

const char* name(TaskOutcome outcome) {
  switch (outcome) {
    case TaskOutcome::completed: return "completed";
    case TaskOutcome::failed: return "failed";
    case TaskOutcome::rejected: return "rejected";
  }
  return "";
}

namespace {

constexpr int64_t kNever = Clock::kForever;

/// Limits that a task must pass one after the other, all or none.
struct Walls {
  std::vector<AdmissionController*> chain;

  /// Whether a task of this size could ever pass.
  bool may_pass(int64_t bytes) const {
    return std::all_of(chain.begin(), chain.end(),
                       [&](const AdmissionController* wall) { return bytes <= wall->config().max_memory; });
  }
  bool pass(const std::string& id, int64_t bytes) const {
    for (size_t i = 0; i < chain.size(); ++i) {
      if (chain[i]->try_admit(id, bytes, 0).kind == AdmissionKind::admit) continue;
      for (size_t j = 0; j <= i; ++j) chain[j]->release(id);
      return false;
    }
    return true;
  }
  void leave(const std::string& id) const {
    for (AdmissionController* wall : chain) wall->release(id);
  }
};

enum class Stage : uint8_t { ahead, waiting, submitted, running, over };

struct Machine {
  std::unique_ptr<Scheduler> scheduler;
  std::vector<bool> lanes;  // taken
  uint64_t failed = 0;      // tasks that were taken note of
};

class Player {
 public:
  explicit Player(const Workload& workload) : workload_(workload) {
    result_.workload = workload;
    result_.tasks.resize(workload.tasks.size());
    result_.devices.resize(workload.devices.size());
    stages_.assign(workload.tasks.size(), Stage::ahead);
    SchedulerConfig config = workload.config;
    config.history = workload.tasks.size() + 1;
    config.log_capacity = 8 * workload.tasks.size() + 64;
    for (const WorkloadDevice& device : workload.devices) {
      config.total_memory = device.memory;
      devices_.push_back({std::make_unique<Scheduler>(config, clock_),
                          std::vector<bool>(static_cast<size_t>(device.streams), false), 0});
      result_.devices[devices_.size() - 1].memory.push_back({0, 0});
    }
    build_walls();
    for (size_t i = 0; i < workload.tasks.size(); ++i) {
      ahead_.push_back(i);
      by_id_.emplace(workload.tasks[i].id, i);
    }
    std::stable_sort(ahead_.begin(), ahead_.end(),
                     [&](size_t a, size_t b) { return workload.tasks[a].arrival_ns < workload.tasks[b].arrival_ns; });
  }

  Simulation play() {
    for (;;) {
      while (act()) {
      }
      note_memory();
      const int64_t next = next_time();
      if (next == kNever) break;
      clock_.advance_ns(next - now());
    }
    result_.end_ns = now();
    for (size_t d = 0; d < devices_.size(); ++d) result_.devices[d].decisions = devices_[d].scheduler->log().read();
    return std::move(result_);
  }

 private:
  int64_t now() const { return clock_.now_ns(); }
  const WorkloadTask& task(size_t i) const { return workload_.tasks[i]; }
  size_t device_of(size_t i) const { return workload_.contexts[task(i).context].device; }
  Scheduler& scheduler_of(size_t i) { return *devices_[device_of(i)].scheduler; }
  int64_t deadline(size_t i) const {
    return task(i).deadline_ns == 0 ? kNever : task(i).arrival_ns + task(i).deadline_ns;
  }
  int64_t finish_time(size_t i) const { return result_.tasks[i].started_ns + task(i).duration_ns; }

  AdmissionController* add_wall(int64_t bytes) {
    walls_.push_back(std::make_unique<AdmissionController>(
        AdmissionConfig(std::max<int64_t>(bytes, 0), 1.0, SIZE_MAX, true), size_t{1}));
    return walls_.back().get();
  }

  /// The classes as the evaluator decides them, and what each leaves to those below it.
  void build_walls() {
    std::vector<QosPolicyEvaluator*> evaluators;
    std::vector<std::unique_ptr<QosPolicyEvaluator>> owned;
    for (const WorkloadDevice& device : workload_.devices) {
      owned.push_back(std::make_unique<QosPolicyEvaluator>(device.memory));
      evaluators.push_back(owned.back().get());
    }
    std::vector<int64_t> guaranteed(workload_.devices.size(), 0), burstable(workload_.devices.size(), 0);
    for (const WorkloadContext& context : workload_.contexts) {
      QosPolicyEvaluator& evaluator = *evaluators[context.device];
      const QosTaskMeta meta{context.name, context.name, QosPolicy(context.memory), context.priority};
      QosEvaluation decision = evaluator.evaluate(meta);
      if (decision.decision != QosDecision::reject) {
        evaluator.reserve(decision);
        if (decision.qos_class == QosClass::guaranteed) guaranteed[context.device] += context.memory.memory_request;
        if (decision.qos_class == QosClass::burstable) burstable[context.device] += context.memory.memory_request;
      }
      result_.contexts.push_back({std::move(decision)});
    }
    std::vector<AdmissionController*> shared, best_effort;
    for (size_t d = 0; d < workload_.devices.size(); ++d) {
      const int64_t memory = workload_.devices[d].memory;
      shared.push_back(add_wall(memory - guaranteed[d]));
      best_effort.push_back(add_wall(memory - guaranteed[d] - burstable[d]));
    }
    for (size_t c = 0; c < workload_.contexts.size(); ++c) {
      const WorkloadContext& context = workload_.contexts[c];
      const QosClass qos = result_.contexts[c].decision.qos_class;
      Walls walls;
      if (context.memory.memory_limit) walls.chain.push_back(add_wall(*context.memory.memory_limit));
      if (qos != QosClass::guaranteed) walls.chain.push_back(shared[context.device]);
      if (qos == QosClass::best_effort) walls.chain.push_back(best_effort[context.device]);
      context_walls_.push_back(std::move(walls));
    }
  }

  /// Everything that happens now; true when something did.
  bool act() {
    bool acted = end_running();
    while (!ahead_.empty() && task(ahead_.front()).arrival_ns <= now()) {
      arrive(ahead_.front());
      ahead_.pop_front();
      acted = true;
    }
    acted = admit_waiting() || acted;
    acted = collect_ended() || acted;
    return start_some() || acted;
  }

  bool end_running() {
    std::vector<size_t> due;
    for (size_t i : running_)
      if (std::min(finish_time(i), deadline(i)) <= now()) due.push_back(i);
    std::stable_sort(due.begin(), due.end(), [&](size_t a, size_t b) { return finish_time(a) < finish_time(b); });
    for (size_t i : due) {
      Scheduler& scheduler = scheduler_of(i);
      // Past its deadline the scheduler fails it, whatever is said here.
      if (task(i).fails && deadline(i) > now())
        scheduler.fail(task(i).id, "failed as described");
      else
        scheduler.complete(task(i).id);
      std::erase(running_, i);
      const int lane = result_.tasks[i].lane;
      devices_[device_of(i)].lanes[static_cast<size_t>(lane)] = false;
      result_.devices[device_of(i)].busy_ns += now() - result_.tasks[i].started_ns;
      close(i);
    }
    return !due.empty();
  }

  void arrive(size_t i) {
    const size_t c = task(i).context;
    const QosEvaluation& decision = result_.contexts[c].decision;
    if (decision.decision == QosDecision::reject)
      return end(i, TaskOutcome::rejected, "its context was rejected: " + decision.reject_reason);
    if (task(i).memory > workload_.devices[device_of(i)].memory)
      return end(i, TaskOutcome::rejected, "it needs more memory than the device has");
    if (!context_walls_[c].may_pass(task(i).memory))
      return end(i, TaskOutcome::rejected, "it needs more memory than its context may have");
    stages_[i] = Stage::waiting;
    if (deadline(i) != kNever) deadlines_.emplace(deadline(i), i);
    // Higher classes and priorities first, then in the order of arrival.
    auto rank = [&](size_t t) {
      return std::pair(-priority(result_.contexts[task(t).context].decision.qos_class), -task(t).priority);
    };
    const auto place =
        std::upper_bound(waiting_.begin(), waiting_.end(), i, [&](size_t a, size_t b) { return rank(a) < rank(b); });
    waiting_.insert(place, i);
  }

  /// Empty when the task may be submitted; else why it fails. `wait` when neither yet.
  std::string dependencies(size_t i, bool* wait, std::vector<std::string>* ids) const {
    *wait = false;
    for (size_t other : task(i).after) {
      const bool over = stages_[other] == Stage::over;
      if (over && result_.tasks[other].outcome != TaskOutcome::completed)
        return "its dependency '" + task(other).id + "' " + name(result_.tasks[other].outcome);
      const bool known = stages_[other] == Stage::submitted || stages_[other] == Stage::running;
      if (known && device_of(other) == device_of(i))
        ids->push_back(task(other).id);
      else if (!over)
        *wait = true;
    }
    return {};
  }

  bool admit_waiting() {
    bool acted = false;
    for (size_t at = 0; at < waiting_.size();) {
      const size_t i = waiting_[at];
      bool wait = false;
      std::vector<std::string> ids;
      const std::string broken = dependencies(i, &wait, &ids);
      const bool late = deadline(i) <= now();
      if (broken.empty() && !late && (wait || !context_walls_[task(i).context].pass(task(i).id, task(i).memory))) {
        ++at;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
      acted = true;
      if (!broken.empty())
        end(i, TaskOutcome::failed, broken);
      else if (late)
        end(i, TaskOutcome::failed, "its deadline passed before it started");
      else
        submit(i, std::move(ids));
    }
    return acted;
  }

  void submit(size_t i, std::vector<std::string> ids) {
    TaskSpec spec;
    spec.id = task(i).id;
    spec.memory_bytes = task(i).memory;
    spec.priority = task(i).priority;
    spec.policy = task(i).policy;
    spec.qos_class = result_.contexts[task(i).context].decision.qos_class;
    spec.expected_ns = task(i).duration_ns;
    spec.timeout_ns = deadline(i) == kNever ? 0 : deadline(i) - now();
    spec.dependencies = std::move(ids);
    scheduler_of(i).submit(std::move(spec));
    result_.tasks[i].admitted_ns = now();
    stages_[i] = Stage::submitted;
    submitted_.insert(i);
  }

  /// Those that ended without having run.
  bool collect_ended() {
    bool more = false;
    for (Machine& device : devices_) {
      device.scheduler->take(0);  // looks at the deadlines
      more = more || device.scheduler->stats().failed_count != device.failed;
    }
    if (!more) return false;
    std::vector<size_t> ended;
    for (size_t i : submitted_)
      if (is_terminal(scheduler_of(i).phase(*scheduler_of(i).find(task(i).id)))) ended.push_back(i);
    for (size_t i : ended) {
      submitted_.erase(i);
      close(i);
    }
    return !ended.empty();
  }

  bool start_some() {
    bool acted = false;
    for (Machine& device : devices_) {
      const auto free = static_cast<size_t>(std::count(device.lanes.begin(), device.lanes.end(), false));
      for (const std::string& id : device.scheduler->take(free)) {
        const size_t i = by_id_.at(id);
        submitted_.erase(i);
        const auto lane = std::find(device.lanes.begin(), device.lanes.end(), false);
        *lane = true;
        result_.tasks[i].lane = static_cast<int>(lane - device.lanes.begin());
        result_.tasks[i].started_ns = now();
        stages_[i] = Stage::running;
        running_.push_back(i);
        acted = true;
      }
    }
    return acted;
  }

  /// Takes what the scheduler says about a task that has ended there.
  void close(size_t i) {
    const TaskInfo info = scheduler_of(i).info(*scheduler_of(i).find(task(i).id));
    context_walls_[task(i).context].leave(task(i).id);
    if (info.phase != TaskPhase::completed) ++devices_[device_of(i)].failed;
    end(i, info.phase == TaskPhase::completed ? TaskOutcome::completed : TaskOutcome::failed, info.error);
  }

  void end(size_t i, TaskOutcome outcome, std::string reason) {
    result_.tasks[i].outcome = outcome;
    result_.tasks[i].reason = std::move(reason);
    result_.tasks[i].finished_ns = now();
    stages_[i] = Stage::over;
    deadlines_.erase({deadline(i), i});
  }

  void note_memory() {
    for (size_t d = 0; d < devices_.size(); ++d) {
      SimulatedDevice& device = result_.devices[d];
      const int64_t bytes = devices_[d].scheduler->stats().reserved_memory;
      device.peak_memory = std::max(device.peak_memory, bytes);
      if (device.memory.back().second == bytes) continue;
      if (device.memory.back().first == now())
        device.memory.back().second = bytes;
      else
        device.memory.push_back({now(), bytes});
    }
  }

  int64_t next_time() const {
    int64_t next = ahead_.empty() ? kNever : task(ahead_.front()).arrival_ns;
    for (size_t i : running_) next = std::min(next, finish_time(i));
    if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
    return next;
  }

  const Workload& workload_;
  Simulation result_;
  VirtualClock clock_;
  std::vector<Machine> devices_;
  std::vector<std::unique_ptr<AdmissionController>> walls_;
  std::vector<Walls> context_walls_;
  std::vector<Stage> stages_;
  std::deque<size_t> ahead_;
  std::vector<size_t> waiting_, running_;
  std::set<size_t> submitted_;
  std::set<std::pair<int64_t, size_t>> deadlines_;  // of those that have arrived and are not over
  std::unordered_map<std::string, size_t> by_id_;
};

}  // namespace

Simulation simulate(const Workload& workload) { return Player(workload).play(); }

}  // namespace gpukit::scheduler
