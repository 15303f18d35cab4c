#include "gpukit/memory/account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "gpukit/base/error.h"

namespace gpukit::memory {
namespace {

constexpr Device kDevice{DeviceKind::cpu, 9};

TEST(Account, ChargesToTheLastByteAndNoFurther) {
  auto account = Account::create("a", kDevice, 1000);
  EXPECT_EQ(account->try_charge(1001), account.get());
  EXPECT_EQ(account->try_charge(999), nullptr);
  EXPECT_EQ(account->available(), 1u);
  EXPECT_EQ(account->try_charge(2), account.get());
  EXPECT_EQ(account->try_charge(1), nullptr);
  EXPECT_EQ(account->try_charge(SIZE_MAX), account.get());
  EXPECT_EQ(account->charged(), 1000u);
  account->uncharge(1000);
  EXPECT_EQ(account->charged(), 0u);
  EXPECT_EQ(account->stats().peak_charged_bytes, 1000u);
  EXPECT_EQ(account->stats().refusals, 3);
}

TEST(Account, ChargesTheWholeChainOrNothing) {
  auto top = Account::create("top", kDevice, 100);
  auto middle = Account::create("middle", kDevice, 0, false, top);
  auto low = Account::create("low", kDevice, 80, false, middle);
  EXPECT_EQ(low->try_charge(60), nullptr);
  EXPECT_EQ(low->try_charge(30), low.get());
  EXPECT_EQ(middle->try_charge(41), top.get());
  EXPECT_EQ(middle->charged(), 60u);
  EXPECT_EQ(middle->try_charge(40), nullptr);
  EXPECT_EQ(low->try_charge(1), top.get());
  EXPECT_EQ(low->charged(), 60u);
  EXPECT_EQ(low->stats().peak_charged_bytes, 60u);
  EXPECT_EQ(low->available(), 0u);
  EXPECT_TRUE(top->contains(*low) && low->contains(*low));
  EXPECT_FALSE(low->contains(*top));
  EXPECT_EQ(low->stats().parent, "middle");
  EXPECT_EQ(Account::create("free", kDevice)->available(), SIZE_MAX);
}

TEST(Account, WhatIsKeptForOneIsOutOfReachForOthers) {
  auto top = Account::create("top", kDevice, 100);
  auto other = Account::create("other", kDevice, 0, false, top);
  {
    auto account = Account::create("kept", kDevice, 60, false, top);
    EXPECT_EQ(account->try_keep(101), top.get());
    EXPECT_EQ(account->try_keep(40), nullptr);
    EXPECT_EQ(top->charged(), 40u);
    EXPECT_EQ(other->available(), 60u);
    EXPECT_EQ(other->try_charge(61), top.get());
    EXPECT_EQ(other->try_charge(50), nullptr);
    EXPECT_EQ(account->available(), 50u);
    EXPECT_EQ(account->try_charge(51), top.get());
    EXPECT_EQ(account->charged(), 0u);
    EXPECT_EQ(account->try_charge(30), nullptr);
    EXPECT_EQ(top->charged(), 90u);
    EXPECT_EQ(account->try_charge(20), nullptr);  // 10 above what is kept
    EXPECT_EQ(top->charged(), 100u);
    account->uncharge(30);
    EXPECT_EQ(top->charged(), 90u);
    EXPECT_EQ(account->try_keep(0), nullptr);
    EXPECT_EQ(top->charged(), 70u);
    EXPECT_EQ(account->try_keep(30), nullptr);
    EXPECT_EQ(top->charged(), 80u);
    account->uncharge(20);
    EXPECT_EQ(top->charged(), 80u);
  }
  EXPECT_EQ(top->charged(), 50u);  // what was kept went with it
}

TEST(Account, WhatIsKeptCountsOnceWhenManyCharge) {
  auto top = Account::create("top", kDevice, 1000);
  auto account = Account::create("kept", kDevice, 0, false, top);
  ASSERT_EQ(account->try_keep(300), nullptr);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = random() % 400;
        if (account->try_charge(bytes) == nullptr) account->uncharge(bytes);
        if (i % 50 == static_cast<int>(t)) account->try_keep(300 + random() % 100);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(account->charged(), 0u);
  EXPECT_EQ(account->try_keep(300), nullptr);
  EXPECT_EQ(top->charged(), 300u);
}

TEST(Account, AQuotaBelowUseRefusesUntilEnoughIsGone) {
  auto account = Account::create("a", kDevice, 1000);
  EXPECT_EQ(account->try_charge(800), nullptr);
  account->set_quota(500);
  EXPECT_EQ(account->try_charge(1), account.get());
  EXPECT_EQ(account->available(), 0u);
  account->uncharge(301);
  EXPECT_EQ(account->try_charge(1), nullptr);
  EXPECT_EQ(account->try_charge(1), account.get());
}

TEST(Account, IsNeverAboveItsQuotaAtAnyInstant) {
  auto top = Account::create("top", kDevice, 5000);
  std::shared_ptr<Account> low[] = {Account::create("x", kDevice, 3000, false, top),
                                    Account::create("y", kDevice, 3001, false, top)};
  std::atomic<int> breaches{0}, refused{0};
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      breaches += top->charged() > 5000 || low[0]->charged() > 3000 || low[1]->charged() > 3001;
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<size_t> held;
      for (int i = 0; i < 20000; ++i) {
        if (!held.empty() && random() % 2 == 0) {
          low[t % 2]->uncharge(held.back());
          held.pop_back();
        } else if (const size_t bytes = random() % 700 + 1; low[t % 2]->try_charge(bytes) == nullptr) {
          held.push_back(bytes);
        } else {
          ++refused;
        }
      }
      for (size_t bytes : held) low[t % 2]->uncharge(bytes);
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  watcher.join();
  EXPECT_EQ(breaches, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(top->charged() + low[0]->charged() + low[1]->charged(), 0u);
  EXPECT_LE(top->stats().peak_charged_bytes, 5000u);
}

TEST(Account, AllAreListedWhileTheyLive) {
  auto has = [](const std::string& name) {
    auto list = accounts(kDevice);
    return std::any_of(list.begin(), list.end(), [&](const auto& account) { return account->name() == name; });
  };
  {
    auto account = Account::create("listed", kDevice);
    EXPECT_TRUE(has("listed"));
    EXPECT_GE(accounts().size(), accounts(kDevice).size());
  }
  EXPECT_FALSE(has("listed"));
  EXPECT_THROW(Account::create("x", {DeviceKind::cuda, 1}, 0, false, Account::create("y", kDevice)), ArgumentError);
}

}  // namespace
}  // namespace gpukit::memory
