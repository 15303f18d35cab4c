#include "gpukit/scheduler/tasks/admission.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/scheduler/tasks/scheduler_rate.h"

namespace gpukit::scheduler {
namespace {

constexpr int64_t MiB = 1 << 20;

TEST(Admission, QueuesOrRejectsWhatDoesNotFit) {
  AdmissionController loose(AdmissionConfig(100 * MiB, 1.0));
  EXPECT_EQ(loose.try_admit("a", 80 * MiB, 0.5).kind, AdmissionKind::admit);
  const AdmissionDecision queued = loose.try_admit("b", 50 * MiB, 0.3);
  EXPECT_EQ(queued.kind, AdmissionKind::queue);
  EXPECT_EQ(queued.queue_position, 1u);
  EXPECT_EQ(loose.stats().pending_count, 1u);
  loose.release("a");
  EXPECT_EQ(loose.try_admit("b", 50 * MiB, 0.3).kind, AdmissionKind::admit);
  EXPECT_EQ(loose.stats().pending_count, 0u);
  EXPECT_EQ(loose.stats().reserved_memory, 50 * MiB);

  AdmissionController strict(AdmissionConfig(100 * MiB, 1.0, 1000, false));
  const AdmissionDecision refused = strict.try_admit("a", 200 * MiB, 0.1);
  ASSERT_EQ(refused.kind, AdmissionKind::reject);
  EXPECT_EQ(refused.rejection->reason, RejectReason::insufficient_memory);
  EXPECT_EQ(refused.rejection->requested_memory, 200 * MiB);
  EXPECT_EQ(refused.rejection->available_memory, 100 * MiB);
  EXPECT_NE(refused.rejection->message().find("InsufficientMemory"), std::string::npos);
}

TEST(Admission, BandwidthHasAFloorFromMemory) {
  AdmissionController controller(AdmissionConfig(1024 * MiB, 0.5, 1000, false));
  const AdmissionDecision refused = controller.try_admit("a", 600 * MiB, 0.0);
  ASSERT_EQ(refused.kind, AdmissionKind::reject);
  EXPECT_EQ(refused.rejection->reason, RejectReason::insufficient_bandwidth);
  EXPECT_EQ(controller.try_admit("b", 512 * MiB, 0.0).kind, AdmissionKind::admit);
  EXPECT_EQ(controller.stats().reserved_bandwidth, 0.5);
  controller.release("b");
  EXPECT_EQ(controller.stats().reserved_bandwidth, 0.0);
  EXPECT_EQ(controller.try_admit("c", 0, 0.51).kind, AdmissionKind::reject);
  EXPECT_EQ(controller.try_admit("d", 0, 0.5).kind, AdmissionKind::admit);
}

TEST(Admission, PartsOfAFullMemoryFit) {
  for (int parts : {3, 7, 10, 999}) {
    AdmissionController controller(AdmissionConfig(parts * 1000 + 1, 1.0, 1000, false));
    for (int i = 0; i < parts; ++i)
      ASSERT_EQ(controller.try_admit(std::to_string(i), 1000, 0.0).kind, AdmissionKind::admit) << parts << " " << i;
    ASSERT_EQ(controller.try_admit("last", 1, 0.0).kind, AdmissionKind::admit) << parts;
  }
}

TEST(Admission, AFullQueueRejectsFirst) {
  AdmissionController controller(AdmissionConfig(10, 1.0, 1));
  controller.try_admit("a", 10, 0.0);
  EXPECT_EQ(controller.try_admit("b", 10, 0.0).kind, AdmissionKind::queue);
  const AdmissionDecision full = controller.try_admit("c", 0, 0.0);
  ASSERT_EQ(full.kind, AdmissionKind::reject);
  EXPECT_EQ(full.rejection->reason, RejectReason::queue_full);
  EXPECT_EQ(controller.try_admit("b", 10, 0.0).kind, AdmissionKind::queue);  // asked again, not full for itself
  controller.release("b");
  EXPECT_EQ(controller.try_admit("c", 0, 0.0).kind, AdmissionKind::admit);
}

TEST(Admission, RefusesBadArguments) {
  AdmissionController controller(AdmissionConfig(10, 1.0));
  EXPECT_THROW(AdmissionConfig(-1, 1.0), ArgumentError);
  EXPECT_THROW(AdmissionConfig(1, -0.1), ArgumentError);
  EXPECT_THROW(controller.try_admit("a", -1, 0.0), ArgumentError);
  EXPECT_THROW(controller.try_admit("a", 1, std::nan("")), ArgumentError);
  EXPECT_THROW(controller.release("a"), ArgumentError);
  controller.try_admit("a", 1, 0.0);
  EXPECT_THROW(controller.try_admit("a", 1, 0.0), ArgumentError);
  EXPECT_EQ(controller.stats().reserved_memory, 1);
}

/// Plays the request log of `seed` and gives the decision log.
std::string play(unsigned seed, int requests, AdmissionStats* stats) {
  std::mt19937 random(seed);
  AdmissionController controller(AdmissionConfig(1000 * MiB, 1.0, 50, seed % 2 == 0), 200'000);
  std::map<std::string, int64_t> admitted;
  std::set<std::string> waiting;
  int64_t reserved = 0;
  for (int i = 0; i < requests; ++i) {
    if (random() % 3 == 0 && !admitted.empty()) {
      auto any = admitted.lower_bound("t" + std::to_string(random() % 100));
      if (any == admitted.end()) any = admitted.begin();
      controller.release(any->first);
      reserved -= any->second;
      admitted.erase(any);
      continue;
    }
    const std::string id = "t" + std::to_string(random() % 100);
    if (admitted.count(id) != 0) continue;
    const int64_t memory = static_cast<int64_t>(random() % 200) * MiB;
    const AdmissionDecision decision = controller.try_admit(id, memory, static_cast<double>(random() % 20) / 100);
    if (decision.kind == AdmissionKind::admit) {
      admitted[id] = memory;
      reserved += memory;
    }
    EXPECT_LE(reserved, 1000 * MiB);
    EXPECT_EQ(controller.stats().reserved_memory, reserved);
    EXPECT_LE(controller.stats().reserved_bandwidth, 1.0);
    EXPECT_LE(controller.stats().pending_count, 50u);
  }
  for (const auto& [id, memory] : admitted) controller.release(id);
  *stats = controller.stats();
  return controller.log().json_lines();
}

TEST(Admission, TheSameRequestsGiveTheSameLog) {
  for (unsigned seed : {1u, 2u}) {
    AdmissionStats first, second;
    const std::string log = play(seed, 100'000, &first);
    EXPECT_EQ(log, play(seed, 100'000, &second));
    EXPECT_EQ(first.reserved_memory, 0);
    EXPECT_EQ(first.reserved_bandwidth, 0.0);
    EXPECT_GT(first.admitted_count, 1000u);
    EXPECT_GT(seed % 2 == 0 ? first.queued_count : first.rejected_count, 1000u);
  }
}

TEST(Admission, IsFast) {
  // A tenth of what a quiet core does: sanitizers and loaded machines run this too.
  EXPECT_GT(measure_admission(50'000), 1e5);
}

}  // namespace
}  // namespace gpukit::scheduler
