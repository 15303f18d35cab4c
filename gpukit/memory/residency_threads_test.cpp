// Eviction under threads: every byte right, no deadlock, no refusal that need not be.
#include <gtest/gtest.h>

#include <mutex>
#include <random>
#include <thread>

#include "gpukit/base/error.h"
#include "tests/support/residency_fixture.h"

namespace gpukit::memory {
namespace {

TEST_F(ResidencyTest, FourThreadsWithThreeTimesTheQuotaReadWhatTheyWrote) {
  constexpr int kThreads = 4, kBlocks = 24;
  std::vector<StoragePtr> blocks;
  std::vector<std::unique_ptr<std::mutex>> owners;
  std::vector<int> value(kBlocks);
  for (int i = 0; i < kBlocks; ++i) {
    blocks.push_back(make(i % 3 == 0 ? 600000 : 2 * kMiB + kMiB / 2, value[static_cast<size_t>(i)] = i));
    owners.push_back(std::make_unique<std::mutex>());
  }
  std::atomic<int> wrong{0}, over{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto own = std::make_shared<driver::Stream>(context, 0);
      std::mt19937 random(static_cast<unsigned>(t));
      for (int step = 0; step < 150; ++step) {
        size_t x = random() % kBlocks, y = random() % kBlocks;
        if (x == y) continue;
        std::scoped_lock both(*owners[std::min(x, y)], *owners[std::max(x, y)]);
        const Use uses[] = {{&blocks[x], 0, true}, {&blocks[y], 0, false}};
        const Hold hold(uses);
        auto* p = reinterpret_cast<char*>(blocks[x]->address());
        auto* q = reinterpret_cast<char*>(blocks[y]->address());
        for (auto [at, of] : {std::pair(p, x), std::pair(q, y)})
          for (size_t i = 0; i < blocks[of]->bytes(); i += 509) wrong += at[i] != static_cast<char>(value[of]);
        value[x] = static_cast<int>(random() % 100);
        std::memset(p, value[x], blocks[x]->bytes());
        for (const auto& use : uses) (*use.storage)->note_use(own);
        over += account->charged() > 16 * kMiB;
        if (step % 10 == 0) {
          // A new block takes the place of an old one now and then.
          StoragePtr spare = Storage::allocate(pool, 100, own, pool.root());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(over, 0);
  EXPECT_GT(account->stats().evictions, 50);
  for (size_t i = 0; i < kBlocks; ++i) EXPECT_TRUE(holds(blocks[i], value[i]));
}

TEST_F(ResidencyTest, ThreadsThatNeedAlmostTheWholeQuotaDoNotDeadlock) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto own = std::make_shared<driver::Stream>(context, 0);
      StoragePtr a = Storage::allocate(pool, 6 * kMiB, own, account),
                 b = Storage::allocate(pool, 6 * kMiB, own, account);
      for (int step = 0; step < 30; ++step) {
        const Use uses[] = {{&b, 0, true}, {&a, 0, true}};
        const Hold hold(uses);
        for (const auto& use : uses) {
          auto* p = reinterpret_cast<char*>((*use.storage)->address());
          if (step > 0) wrong += p[0] != t || p[6 * kMiB - 1] != t;
          p[0] = p[6 * kMiB - 1] = static_cast<char>(t);
          (*use.storage)->note_use(own);
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ResidencyTest, ThreadsAllocateUseAndDropWithoutAFalseRefusal) {
  // Each needs 3 MiB at a time and 16 are there: none may ever be refused.
  std::vector<std::thread> threads;
  std::atomic<int> refused{0}, wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto own = std::make_shared<driver::Stream>(context, 0);
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<StoragePtr> mine;
      for (int step = 0; step < 200; ++step) {
        try {
          if (mine.size() < 4) {
            StoragePtr made = Storage::allocate(pool, 2 * kMiB + 4096 * (random() % 100), own, account);
            const Use use{&made, 0, true};
            const Hold hold({&use, 1});
            *reinterpret_cast<int*>(made->address()) = t;
            made->note_use(own);
            mine.push_back(made);
          } else {
            StoragePtr& any = mine[random() % mine.size()];
            {
              const Use use{&any, 0, false};
              const Hold hold({&use, 1});
              wrong += *reinterpret_cast<int*>(any->address()) != t;
              any->note_use(own);
            }
            any = mine.back();
            mine.pop_back();
          }
        } catch (const OutOfMemoryError&) {
          ++refused;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace gpukit::memory
