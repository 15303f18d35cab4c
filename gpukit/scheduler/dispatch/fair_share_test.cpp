#include "gpukit/scheduler/dispatch/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

namespace gpukit::scheduler {
namespace {

struct Player {
  double weight = 1;
  double shortest_us = 50, longest_us = 500;  // of its kernels
  double between_us = 8;                      // from one launch to the next
  bool waits_for_each = false;                // launches again only when its kernel is over
  double until_us = 1e18;
  double received_us = 0;
};

/// Plays tenants that launch back to back on one device with a place behind the running kernel. Returns the time the
/// device was busy.
double play(std::vector<Player>& players, double seconds, uint64_t seed) {
  struct Running {
    size_t player;
    double charged_us, cost_us, end_us;
  };
  FairShare fair;
  std::mt19937_64 random(seed);
  std::vector<double> arrives(players.size(), 0);  // next arrival; infinite while it waits or is held up
  std::vector<bool> waiting(players.size(), false);
  std::deque<Running> running;
  constexpr double kNever = 1e18;
  for (size_t i = 0; i < players.size(); ++i) fair.add(i, players[i].weight);
  double now = 0, busy = 0;
  auto ns = [&] { return static_cast<int64_t>(now * 1e3); };
  while (now < seconds * 1e6) {
    double next = running.empty() ? kNever : running.front().end_us;
    if (running.empty() && std::find(waiting.begin(), waiting.end(), true) != waiting.end())
      next = now + 1e-3 * FairShare::kHoldNs;
    for (double at : arrives) next = std::min(next, at);
    now = next;
    if (!running.empty() && running.front().end_us <= now) {
      const Running done = running.front();
      running.pop_front();
      fair.finish(done.player, done.charged_us, done.cost_us, ns());
      players[done.player].received_us += done.cost_us;
      busy += done.cost_us;
      if (players[done.player].waits_for_each) arrives[done.player] = now + players[done.player].between_us;
    }
    for (size_t i = 0; i < players.size(); ++i) {
      if (arrives[i] > now) continue;
      arrives[i] = kNever;
      if (now > players[i].until_us) continue;
      waiting[i] = true;
      fair.arrive(i, ns());
    }
    while (running.size() < 2) {
      const FairShare::Id picked = fair.pick(running.empty(), ns());
      if (picked == FairShare::kNone) break;
      Player& player = players[picked];
      EXPECT_TRUE(waiting[picked]);
      waiting[picked] = false;
      std::uniform_real_distribution<double> cost(player.shortest_us, player.longest_us);
      const double begin = running.empty() ? now : running.back().end_us;
      const double us = cost(random);
      running.push_back({static_cast<size_t>(picked), fair.start(picked, ns()), us, begin + us});
      if (!player.waits_for_each) arrives[picked] = now + player.between_us;
    }
  }
  return busy;
}

TEST(FairShare, GivesTenThirtySixtyOfTheTime) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<Player> players{{.weight = 1}, {.weight = 3}, {.weight = 6}};
    const double busy = play(players, 5, seed);
    EXPECT_GT(busy, 4.9e6);
    EXPECT_NEAR(players[0].received_us / busy, 0.1, 0.01) << seed;
    EXPECT_NEAR(players[1].received_us / busy, 0.3, 0.01) << seed;
    EXPECT_NEAR(players[2].received_us / busy, 0.6, 0.01) << seed;
  }
}

TEST(FairShare, SharesDoNotDependOnTheLengthOfTheKernels) {
  std::vector<Player> players{{.weight = 1, .shortest_us = 450, .longest_us = 500},
                              {.weight = 3, .shortest_us = 200, .longest_us = 300},
                              {.weight = 6, .shortest_us = 50, .longest_us = 60}};
  double busy = play(players, 5, 7);
  EXPECT_NEAR(players[0].received_us / busy, 0.1, 0.02);
  EXPECT_NEAR(players[1].received_us / busy, 0.3, 0.02);
  EXPECT_NEAR(players[2].received_us / busy, 0.6, 0.02);

  players = {{.weight = 1, .shortest_us = 60'000, .longest_us = 80'000},
             {.weight = 1, .shortest_us = 50, .longest_us = 60}};
  busy = play(players, 20, 7);
  EXPECT_NEAR(players[0].received_us / busy, 0.5, 0.03);
}

TEST(FairShare, WhatOneLeavesTheOthersUse) {
  std::vector<Player> players{{.weight = 1}, {.weight = 9, .until_us = 1e6}};
  const double busy = play(players, 5, 3);
  EXPECT_GT(busy, 4.9e6);  // the device never idles
  EXPECT_NEAR(players[1].received_us, 0.9e6, 0.05e6);
}

TEST(FairShare, WhoComesBackDoesNotCatchUp) {
  FairShare fair;
  fair.add(0, 1);
  fair.add(1, 1);
  int64_t now = 0;
  for (int i = 0; i < 10000; ++i) {  // tenant 0 alone for a second
    fair.arrive(0, now);
    ASSERT_EQ(fair.pick(true, now), 0u);
    const double charged = fair.start(0, now);
    now += 100'000;
    fair.finish(0, charged, 100, now);
  }
  int first = 0;
  for (int i = 0; i < 100; ++i) {
    if (i == 0) fair.arrive(0, now), fair.arrive(1, now);
    const FairShare::Id picked = fair.pick(true, now);
    first += picked == 1 ? 1 : 0;
    const double charged = fair.start(picked, now);
    now += 100'000;
    fair.finish(picked, charged, 100, now);
    fair.arrive(picked, now);
  }
  EXPECT_NEAR(first, 50, 5);
}

TEST(FairShare, OneThatWaitsForEachKernelIsServedAtOnce) {
  std::vector<Player> players{{.weight = 1, .shortest_us = 100, .longest_us = 100, .waits_for_each = true},
                              {.weight = 1, .shortest_us = 100, .longest_us = 100}};
  const double busy = play(players, 2, 5);
  EXPECT_GT(busy, 1.8e6);
  EXPECT_GT(players[0].received_us / busy, 0.3);
}

TEST(FairShare, PausesForOneTenantCostTheOthersLittle) {
  // Comes back soon enough to be waited for, and is always behind.
  std::vector<Player> players{
      {.weight = 9, .shortest_us = 50, .longest_us = 50, .between_us = 400, .waits_for_each = true},
      {.weight = 1, .shortest_us = 100, .longest_us = 100}};
  const double busy = play(players, 2, 5);
  EXPECT_GT(busy, 0.8 * 2e6);
}

TEST(FairShare, ChargesAreTakenBackWhenNothingRan) {
  FairShare fair;
  fair.add(4, 2);
  fair.arrive(4, 0);
  EXPECT_EQ(fair.pick(false, 0), 4u);
  fair.finish(4, fair.start(4, 0), -1, 10);
  EXPECT_EQ(fair.pick(true, 10), FairShare::kNone);
  fair.arrive(4, 20);
  fair.leave(4, 30);
  EXPECT_EQ(fair.pick(true, 30), FairShare::kNone);
  fair.remove(4);
  fair.finish(4, 0, 1, 40);  // of a tenant that is gone
  EXPECT_EQ(fair.size(), 0u);
}

}  // namespace
}  // namespace gpukit::scheduler
