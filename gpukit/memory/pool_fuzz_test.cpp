// The pool against a model. PYGPUKIT_FUZZ is the number of steps; `make fuzz-pool N=...` sets it. A failure names its
// round; PYGPUKIT_FUZZ_ROUND begins there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/memory/hold.h"
#include "gpukit/memory/pool.h"
#include "gpukit/memory/size_class.h"
#include "tests/support/fake_driver.h"

namespace gpukit::memory {
namespace {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;
constexpr size_t kMiB = size_t{1} << 20;
constexpr int kOwnDevice = 3;  // one that no other test leaves memory on
constexpr size_t kDevice = 64 * kMiB;

int64_t steps_wanted() { return std::stoll(env::get("PYGPUKIT_FUZZ").value_or("1000000")); }

driver::Api started(const driver::CudaTable& table) {
  driver::set_host_device_count(kOwnDevice + 1);
  driver::Api api(table, DeviceKind::cpu);
  api.init();
  return api;
}

size_t random_size(std::mt19937_64& random) {
  const uint64_t kind = random() % 100;
  if (kind < 60) return random() % 4096 + 1;
  if (kind < 85) return random() % 100000 + 1;
  if (kind < 95) return random() % (2 * kMiB) + 1;
  return random() % (12 * kMiB) + 1;
}

/// Checks that a block still holds what was written last, then writes something new. Words at both ends and between.
struct Visit {
  char* address;
  size_t bytes;
  uint64_t old_value, new_value;
  std::atomic<int>* wrong;

  void run() const {
    const size_t last = bytes - sizeof(uint64_t);
    const size_t places[] = {0, last / 2 / 8 * 8, last};
    for (size_t at : places) {
      uint64_t word;
      std::memcpy(&word, address + at, sizeof(word));
      if (old_value != 0 && word != old_value) wrong->fetch_add(1);
    }
    for (size_t at : places) std::memcpy(address + at, &new_value, sizeof(new_value));
  }
};

void submit(const driver::Stream& stream, Visit visit) {
  stream.context().make_current();
  auto* task = new Visit(visit);
  stream.api().launch_host(
      stream.handle(),
      [](void* p) {
        std::unique_ptr<Visit> owned(static_cast<Visit*>(p));
        owned->run();
      },
      task);
}

/// One pool, three accounts, four streams; work is held back and runs in any order that streams and events allow.
class Model {
 public:
  Model(FakeDriver& fake, uint64_t seed, PoolConfig::Pages pages)
      : fake_(fake), random_(seed), context_(started(fake.table()), kOwnDevice), pool_(context_, {.pages = pages}) {
    for (int i = 0; i < 4; ++i) streams_.push_back(std::make_shared<driver::Stream>(context_, 0));
    auto outer = Account::create("outer", context_.device(), 24 * kMiB, false, pool_.root());
    accounts_ = {pool_.root(), outer, Account::create("inner", context_.device(), 12 * kMiB, false, outer)};
  }
  ~Model() {
    while (!live_.empty()) free(live_.begin());
    fake_.run_all(1);
  }

  void step() {
    const uint64_t kind = random_() % 1000;
    if (kind < 420 || live_.empty()) {
      if (live_.size() < 400) allocate();
    } else if (kind < 800) {
      free(pick());
    } else if (kind < 990) {
      use(pick());
    } else if (kind < 993) {
      if (unmaps) pool_.trim();
    } else if (kind < 996) {
      pool_.forget(*accounts_[1 + random_() % 2]);
    } else if (kind < 998) {
      const uint64_t which = random_() % 2;
      accounts_[1 + which]->set_quota((which == 0 ? 12 + random_() % 16 : 4 + random_() % 12) * kMiB);
    } else {
      fake_.clear_calls();
    }
    if (roaming || random_() % 64 == 0)
      for (uint64_t i = random_() % (roaming ? 4 : 256); i > 0; --i) fake_.run_one();
    check();
  }

  void finish() {
    for (auto it = live_.begin(); it != live_.end(); ++it) use(it);
    fake_.run_all(random_());
    check();
    while (!live_.empty()) free(live_.begin());
    pool_.trim();
    const ResourceStats stats = pool_.stats();
    EXPECT_EQ(stats.reserved_bytes, 0);
    EXPECT_EQ(stats.live_blocks, 0);
    EXPECT_EQ(stats.cached_bytes, 0);
    EXPECT_EQ(pool_.root()->charged(), 0u);
  }

  std::atomic<int> wrong{0};
  int64_t served = 0, refused = 0;
  bool roaming = true;  // blocks are used on other streams than their own
  bool must_agree = true;
  bool unmaps = true;  // pages may go while work that waits for nothing still runs

 private:
  struct Entry {
    Block block;
    size_t account;
    size_t home, last;
    uint64_t value = 0;
    std::vector<size_t> used_on;
  };
  using Live = std::map<driver::Address, Entry>;

  Live::iterator pick() {
    auto at = live_.lower_bound(live_.begin()->first + random_() % (live_.rbegin()->first - live_.begin()->first + 1));
    return at == live_.end() ? live_.begin() : at;
  }

  void allocate() {
    const size_t size = unmaps ? random_size(random_) : random_() % 100000 + 1;
    const size_t account = random_() % 3, home = random_() % streams_.size();
    const size_t rounded = size <= kSmallLimit ? class_bytes(size_class(size)) : round_up(size, kPageUnit);
    Block block;
    try {
      block = pool_.allocate(size, streams_[home], accounts_[account]);
    } catch (const OutOfMemoryError& error) {
      ++refused;
      refused_bytes_ = rounded;
      check_refusal(account, rounded, error);
      return;
    }
    ++served;
    ASSERT_GE(block.bytes, rounded);
    ASSERT_LE(block.bytes, rounded + rounded / 8);
    ASSERT_EQ(block.address % 256, 0u);
    auto next = live_.lower_bound(block.address);
    ASSERT_TRUE(next == live_.end() || block.address + block.bytes <= next->first);
    ASSERT_TRUE(next == live_.begin() || std::prev(next)->first + std::prev(next)->second.block.bytes <= block.address);
    live_bytes_[account] += block.bytes;
    if (block.bytes > kSmallLimit) live_large_ += block.bytes;
    auto entry = live_.emplace(block.address, Entry{block, account, home, home, 0, {}}).first;
    use(entry);
  }

  /// Refused only when it could not be: what is live leaves no room in a quota, or no pages on the device.
  void check_refusal(size_t account, size_t rounded, const OutOfMemoryError& error) {
    const size_t inner = live_bytes_[2], outer = inner + live_bytes_[1];
    bool wall = account >= 1 && outer + rounded > accounts_[1]->quota();
    wall = wall || (account == 2 && inner + rounded > accounts_[2]->quota());
    const size_t needed = rounded <= kSmallLimit ? slab_bytes(size_class(rounded)) : rounded;
    const size_t taken = live_large_ + static_cast<size_t>(pool_.stats().slab_bytes);
    ASSERT_TRUE(wall || taken + needed > kDevice) << error.what();
  }

  void use(Live::iterator at) {
    Entry& entry = at->second;
    const size_t on = roaming && random_() % 3 == 0 ? random_() % streams_.size() : entry.last;
    if (on != entry.last) {
      driver::Event event(context_);
      event.record(*streams_[entry.last]);
      streams_[on]->wait(event);
      entry.last = on;
    }
    if (on != entry.home && std::find(entry.used_on.begin(), entry.used_on.end(), on) == entry.used_on.end())
      entry.used_on.push_back(on);
    const uint64_t value = random_() | 1;
    submit(*streams_[on],
           {reinterpret_cast<char*>(entry.block.address), entry.block.bytes, entry.value, value, &wrong});
    entry.value = value;
  }

  void free(Live::iterator at) {
    Entry& entry = at->second;
    std::vector<StreamPtr> others;
    for (size_t on : entry.used_on) others.push_back(streams_[on]);
    live_bytes_[entry.account] -= entry.block.bytes;
    if (entry.block.bytes > kSmallLimit) live_large_ -= entry.block.bytes;
    pool_.release(entry.block, streams_[entry.home], others);
    live_.erase(at);
  }

  void check() {
    ASSERT_TRUE(!must_agree || wrong == 0);
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(accounts_[i]->live_bytes(), live_bytes_[i]);
    for (size_t i = 1; i < 3; ++i) {
      // A quota that was lowered below use stays exceeded by what was there, and by no more.
      const size_t charged = accounts_[i]->charged(), quota = accounts_[i]->quota();
      ASSERT_TRUE(charged <= quota || charged <= last_charged_[i]) << charged << " of " << quota;
      last_charged_[i] = charged;
    }
    check_reserved();
  }

  /// More is taken from the driver only up to a quarter above the peak of what was live, or when nothing is cached in
  /// ranges any more: of what is in slabs only whole ones can move.
  void check_reserved() {
    const ResourceStats stats = pool_.stats();
    const auto reserved = static_cast<size_t>(stats.reserved_bytes);
    const size_t peak = static_cast<size_t>(stats.peak_live_bytes) + 4 * kPageUnit;  // of a slab
    const size_t needed = live_large_ + static_cast<size_t>(stats.slab_bytes) + std::exchange(refused_bytes_, 0);
    ASSERT_TRUE(reserved <= last_reserved_ || reserved <= std::max(peak + peak / 4, needed))
        << reserved << " of " << peak << " needed " << needed;
    last_reserved_ = reserved;
  }

  FakeDriver& fake_;
  std::mt19937_64 random_;
  driver::Context context_;
  Pool pool_;
  std::vector<StreamPtr> streams_;
  std::vector<std::shared_ptr<Account>> accounts_;
  Live live_;
  size_t live_bytes_[3] = {}, live_large_ = 0, last_charged_[3] = {};
  size_t refused_bytes_ = 0, last_reserved_ = 0;
};

TEST(PoolFuzz, AgreesWithAModelWhateverOrderTheWorkRunsIn) {
  const int64_t steps = steps_wanted() * 6 / 10;
  constexpr int64_t kRound = 20000;
  int64_t served = 0, refused = 0;
  driver::set_host_memory_limit(kDevice);
  const int64_t first = std::stoll(env::get("PYGPUKIT_FUZZ_ROUND").value_or("0"));
  for (int64_t done = 0, round = first; done < steps; done += kRound, ++round) {
    FakeDriver fake;
    {
      fake.defer(true);
      Model model(fake, static_cast<uint64_t>(round), round % 3 == 2 ? PoolConfig::Pages::off : PoolConfig::Pages::on);
      for (int64_t i = 0; i < std::min(kRound, steps - done); ++i) {
        model.step();
        if (::testing::Test::HasFatalFailure()) {
          ADD_FAILURE() << "round " << round << " step " << i;
          break;
        }
      }
      model.finish();
      served += model.served;
      refused += model.refused;
    }
    fake.defer(false);
    EXPECT_EQ(fake.live().pages + fake.live().ranges + fake.live().mappings + fake.live().memory, 0) << round;
    EXPECT_EQ(fake.live().events + fake.live().streams, 0) << round;
    if (::testing::Test::HasFailure()) break;
  }
  driver::set_host_memory_limit(0);
  driver::set_host_device_count(1);
  if (steps >= kRound) {
    EXPECT_GT(served, steps / 5);
    EXPECT_GT(refused, 0);
  }
}

TEST(PoolFuzz, AMissingWaitIsFound) {
  driver::set_host_memory_limit(kDevice);
  for (auto pages : {PoolConfig::Pages::on, PoolConfig::Pages::off}) {
    int wrong = 0;
    for (uint64_t seed = 0; seed < 20 && wrong == 0; ++seed) {
      FakeDriver fake;
      fake.defer(true);
      {
        Model model(fake, seed, pages);
        model.roaming = model.must_agree = false;  // then only the pool waits for events
        model.unmaps = pages == PoolConfig::Pages::off;
        fake.drop_wait(0);
        for (int i = 0; i < 3000; ++i) model.step();
        model.finish();
        wrong = model.wrong;
      }
      fake.defer(false);
    }
    EXPECT_GT(wrong, 0);
  }
  driver::set_host_memory_limit(0);
  driver::set_host_device_count(1);
}

TEST(PoolFuzz, ThreadsNeverSeeAnothersBytesAndLeaveNothing) {
  constexpr int kThreads = 4;
  const int64_t steps = steps_wanted() * 3 / 10 / kThreads;
  driver::set_host_memory_limit(kDevice);
  driver::Context context(started(driver::host_table()), kOwnDevice);
  {
    Pool pool(context, {.pages = PoolConfig::Pages::on});
    auto outer = Account::create("outer", context.device(), 24 * kMiB, false, pool.root());
    auto inner = Account::create("inner", context.device(), 12 * kMiB, false, outer);
    std::shared_ptr<Account> accounts[] = {pool.root(), outer, inner, inner};
    std::vector<StreamPtr> streams;
    for (int i = 0; i < kThreads; ++i) streams.push_back(std::make_shared<driver::Stream>(context, 0));
    std::atomic<int> wrong{0}, over{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        struct Entry {
          Block block;
          uint64_t value;
          bool shared;
        };
        std::mt19937_64 random(static_cast<uint64_t>(t));
        std::vector<Entry> live;
        const StreamPtr& own = streams[static_cast<size_t>(t)];
        const StreamPtr& next = streams[static_cast<size_t>(t + 1) % kThreads];
        auto free = [&](size_t at) {
          pool.release(live[at].block, own, live[at].shared ? std::span(&next, 1) : std::span<const StreamPtr>());
          live[at] = live.back();
          live.pop_back();
        };
        for (int64_t i = 0; i < steps; ++i) {
          const uint64_t kind = random() % 1000;
          if (kind < 450 && live.size() < 60) {
            try {
              Block block = pool.allocate(random_size(random), own, accounts[t]);
              live.push_back({block, random() | 1, false});
              submit(*own, {reinterpret_cast<char*>(block.address), block.bytes, 0, live.back().value, &wrong});
            } catch (const OutOfMemoryError&) {
            }
          } else if (kind < 800 && !live.empty()) {
            free(random() % live.size());
          } else if (kind < 998 && !live.empty()) {
            Entry& entry = live[random() % live.size()];
            entry.shared = entry.shared || random() % 8 == 0;
            const uint64_t value = random() | 1;
            submit(entry.shared ? *next : *own,
                   {reinterpret_cast<char*>(entry.block.address), entry.block.bytes, entry.value, value, &wrong});
            entry.value = value;
          } else if (kind == 999 && random() % 8 == 0) {
            pool.trim();
          }
          if (outer->charged() > 24 * kMiB || inner->charged() > 12 * kMiB) ++over;
        }
        while (!live.empty()) free(live.size() - 1);
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(over, 0);
    pool.trim();
    EXPECT_EQ(pool.stats().reserved_bytes, 0);
    EXPECT_EQ(pool.root()->charged(), 0u);
  }
  driver::set_host_memory_limit(0);
  driver::set_host_device_count(1);
}

TEST(PoolFuzz, EvictedBlocksComeBackWhole) {
  constexpr int kThreads = 3;
  const int64_t steps = steps_wanted() / 100 / kThreads;
  driver::Context context(started(driver::host_table()), kOwnDevice);
  {
    Pool pool(context, {.pages = PoolConfig::Pages::on, .host_limit = 128 * kMiB});
    auto account = Account::create("tenant", context.device(), 8 * kMiB, true, pool.root());
    std::atomic<int> wrong{0}, over{0}, refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        struct Entry {
          std::shared_ptr<Storage> storage;
          uint64_t value;
        };
        auto own = std::make_shared<driver::Stream>(context, 0);
        std::mt19937_64 random(static_cast<uint64_t>(t));
        std::vector<Entry> live;
        auto visit = [&](std::span<Entry*> entries) {
          std::vector<Use> uses;
          for (Entry* entry : entries) uses.push_back({&entry->storage, 0, true});
          const Hold hold(uses);
          for (Entry* entry : entries) {
            const uint64_t value = random() | 1;
            submit(*own, {reinterpret_cast<char*>(entry->storage->address()), entry->storage->bytes(), entry->value,
                          value, &wrong});
            entry->value = value;
            entry->storage->note_use(own);
          }
        };
        for (int64_t i = 0; i < steps; ++i) {
          const uint64_t kind = random() % 100;
          try {
            if (live.size() < 12 && kind < 40) {
              const size_t size = random() % (random() % 2 == 0 ? 2 * kMiB : 60000) + 64;
              Entry made{Storage::allocate(pool, size, own, account), 0};
              Entry* one[] = {&made};
              visit(one);
              live.push_back(made);
            } else if (kind < 50 && !live.empty()) {
              live[random() % live.size()] = live.back();
              live.pop_back();
            } else if (kind < 55 && !live.empty()) {
              live[random() % live.size()].storage->evict();
            } else if (!live.empty()) {
              Entry* two[] = {&live.front(), &live[random() % live.size()]};
              if (two[0] == two[1])
                visit(std::span(two, 1));
              else
                visit(two);
            }
          } catch (const OutOfMemoryError&) {
            ++refused;
          }
          if (account->charged() > 8 * kMiB) ++over;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(over, 0);
    EXPECT_EQ(refused, 0);
    EXPECT_EQ(account->evicted_bytes(), 0u);
    pool.trim();
    EXPECT_EQ(account->charged(), 0u);
    EXPECT_EQ(pool.stats().reserved_bytes, 0);
  }
  driver::set_host_device_count(1);
}

}  // namespace
}  // namespace gpukit::memory
