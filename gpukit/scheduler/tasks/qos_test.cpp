#include "gpukit/scheduler/tasks/qos.h"

#include <gtest/gtest.h>

#include <random>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {
namespace {

constexpr int64_t MiB = 1 << 20;

TEST(Qos, ClassFollowsFromRequestAndLimit) {
  EXPECT_EQ(ResourceRequirements(100, 100).qos_class(), QosClass::guaranteed);
  EXPECT_EQ(ResourceRequirements(100, 150).qos_class(), QosClass::burstable);
  EXPECT_EQ(ResourceRequirements(100).qos_class(), QosClass::burstable);
  EXPECT_EQ(ResourceRequirements(0, 150).qos_class(), QosClass::burstable);
  EXPECT_EQ(ResourceRequirements(0).qos_class(), QosClass::best_effort);
  EXPECT_EQ(ResourceRequirements(0, std::nullopt, 0.1).qos_class(), QosClass::burstable);
  EXPECT_THROW(ResourceRequirements(100, 50), ArgumentError);
  EXPECT_THROW(ResourceRequirements(-1), ArgumentError);
  EXPECT_THROW(ResourceRequirements(0, std::nullopt, 1.5), ArgumentError);
  EXPECT_THROW(ResourceRequirements::burstable(100, 0.5), ArgumentError);
}

TEST(Qos, NumbersOfTheClasses) {
  const QosClass g = QosClass::guaranteed, b = QosClass::burstable, e = QosClass::best_effort;
  EXPECT_EQ(priority(g), 100);
  EXPECT_EQ(priority(b), 50);
  EXPECT_EQ(priority(e), 0);
  EXPECT_TRUE(can_preempt(g, b));
  EXPECT_FALSE(can_preempt(b, b));
  EXPECT_FALSE(can_preempt(e, b));
  EXPECT_EQ(memory_overcommit_ratio(b), 1.5);
  EXPECT_EQ(bandwidth_ratio(e), 0.5);
}

TEST(Qos, WhatEachClassReserves) {
  EXPECT_EQ(QosPolicy::guaranteed(100).memory_to_reserve(), 100);
  EXPECT_EQ(QosPolicy::burstable(100, 2.0).memory_to_reserve(), 100);
  EXPECT_EQ(QosPolicy::burstable(100, 2.0).requirements.memory_limit, 200);
  EXPECT_EQ(QosPolicy::best_effort().memory_to_reserve(), 0);
  QosTaskMeta high = QosTaskMeta::best_effort("a", "a"), low = QosTaskMeta::burstable("b", "b", 1, 1.0);
  high.priority = 1'000'000'000;
  low.priority = -1'000'000'000;
  EXPECT_GT(low.effective_priority(), high.effective_priority());
  EXPECT_EQ(QosTaskMeta::burstable("b", "b", 128, 2.0).burst_ratio(), 2.0);
}

TEST(Qos, RulesByClass) {
  QosPolicyEvaluator evaluator(1000 * MiB, 0.5);
  const auto guaranteed = [](int64_t memory) { return QosTaskMeta::guaranteed("g", "g", memory); };
  EXPECT_EQ(evaluator.evaluate(guaranteed(1001 * MiB)).decision, QosDecision::reject);
  const QosEvaluation fits = evaluator.evaluate(guaranteed(800 * MiB));
  ASSERT_EQ(fits.decision, QosDecision::admit);
  evaluator.reserve(fits);
  EXPECT_EQ(evaluator.stats().guaranteed_memory, 800 * MiB);
  EXPECT_THROW(evaluator.reserve(fits), OutOfMemoryError);

  EXPECT_EQ(evaluator.evaluate(QosTaskMeta::burstable("b", "b", 100 * MiB, 3.0)).decision, QosDecision::throttle);
  EXPECT_EQ(evaluator.evaluate(QosTaskMeta::burstable("b", "b", 100 * MiB, 2.0)).decision, QosDecision::admit);
  EXPECT_EQ(evaluator.evaluate(QosTaskMeta::burstable("b", "b", 201 * MiB, 1.0)).decision, QosDecision::reject);
  EXPECT_EQ(evaluator.evaluate(QosTaskMeta::best_effort("e", "e")).decision, QosDecision::admit);
  evaluator.reserve(evaluator.evaluate(QosTaskMeta::burstable("b", "b", 200 * MiB, 1.0)));
  const QosEvaluation waits = evaluator.evaluate(QosTaskMeta::best_effort("e", "e"));
  EXPECT_EQ(waits.decision, QosDecision::queue);
  evaluator.reserve(waits);
  EXPECT_EQ(evaluator.stats().best_effort_queue, 1);
  EXPECT_EQ(evaluator.stats().available_memory, 0);
  const QosEvaluation refused = evaluator.evaluate(guaranteed(1));
  EXPECT_FALSE(refused.reject_reason.empty());
  EXPECT_THROW(evaluator.reserve(refused), Error);

  evaluator.release(QosClass::guaranteed, 800 * MiB, 0);
  EXPECT_THROW(evaluator.release(QosClass::guaranteed, 1, 0), ArgumentError);
  evaluator.reset();
  EXPECT_EQ(evaluator.stats().available_memory, 1000 * MiB);
}

TEST(Qos, BandwidthThrottlesTheBurstable) {
  QosPolicyEvaluator evaluator(1000, 1.0);
  QosTaskMeta task = QosTaskMeta::burstable("b", "b", 10, 1.0);
  task.policy.requirements.bandwidth_request = 0.5;
  const QosEvaluation first = evaluator.evaluate(task);
  EXPECT_EQ(first.decision, QosDecision::admit);
  evaluator.reserve(first);
  const QosEvaluation second = evaluator.evaluate(task);  // 1.0 of the 0.8 the class may fill
  EXPECT_EQ(second.decision, QosDecision::throttle);
  EXPECT_NEAR(second.reserved_bandwidth, 0.3, 1e-9);
  evaluator.reserve(second);
  task.policy.qos_class = QosClass::guaranteed;
  EXPECT_EQ(evaluator.evaluate(task).decision, QosDecision::reject);
}

TEST(Qos, NoOvercommitUnderRandomUse) {
  std::mt19937 random(5);
  QosPolicyEvaluator evaluator(10'000, 1.0);
  std::vector<QosEvaluation> held;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 3 == 0 && !held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const QosEvaluation one = held.back();
      held.pop_back();
      evaluator.release(one.qos_class, one.reserved_memory, one.reserved_bandwidth);
    } else {
      const int64_t memory = static_cast<int64_t>(random() % 3000);
      QosTaskMeta task =
          random() % 2 == 0 ? QosTaskMeta::guaranteed("g", "g", memory) : QosTaskMeta::burstable("b", "b", memory, 1.5);
      task.policy.requirements.bandwidth_request = static_cast<double>(random() % 30) / 100;
      const QosEvaluation one = evaluator.evaluate(task);
      if (one.decision == QosDecision::reject) continue;
      evaluator.reserve(one);
      held.push_back(one);
    }
    const QosStats stats = evaluator.stats();
    ASSERT_GE(stats.available_memory, 0);
    ASSERT_GE(stats.available_bandwidth, 0.0);
  }
  for (const QosEvaluation& one : held) evaluator.release(one.qos_class, one.reserved_memory, one.reserved_bandwidth);
  EXPECT_EQ(evaluator.stats().available_memory, 10'000);
  EXPECT_EQ(evaluator.stats().available_bandwidth, 1.0);
}

TEST(Qos, EvictionOrderIsThatOfKubernetes) {
  const QosClass g = QosClass::guaranteed, b = QosClass::burstable, e = QosClass::best_effort;
  const QosUsage usages[] = {
      {g, 0, 100, 100},  // 0: within its request
      {b, 0, 100, 150},  // 1
      {b, 0, 100, 300},  // 2: more above than 1
      {b, 5, 100, 900},  // 3: higher priority than 1 and 2
      {e, 9, 0, 10},     // 4: class before priority
      {e, 9, 0, 0},      // 5: holds nothing
      {b, 0, 100, 99},   // 6: within its request
      {g, 0, 100, 101},  // 7: above: last
      {b, 0, 100, 150},  // 8: the same as 1
  };
  EXPECT_EQ(qos_eviction_order(usages), (std::vector<size_t>{4, 2, 1, 8, 3, 7}));
  EXPECT_TRUE(qos_eviction_order({}).empty());
}

}  // namespace
}  // namespace gpukit::scheduler
