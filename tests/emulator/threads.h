// What instructions ask about the threads that run: those of a block, or of the blocks of a cluster.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace emulator {

/// Of the cluster: the running thread, its lane, its block, and how many blocks there are.
int current_thread();
int current_lane();
int current_block();
int cluster_blocks();
bool has_left(int thread);

/// Lets other threads run until `ready`, which is asked again and again. `site` is told when it never comes.
void wait_until(const char* site, std::function<bool()> ready);

/// What a thread knows of the others: how often each was ordered before it.
using Clocks = std::vector<uint32_t>;
/// What the running thread did so far comes before whatever acquires `clocks`.
void release(Clocks& clocks);
void acquire(const Clocks& clocks);

/// Accesses in its scope count as those of `thread` when it asked for them: `clocks` as asked() gave them.
class Acting {
 public:
  Acting(int thread, const Clocks& clocks);
  ~Acting();
  Acting(const Acting&) = delete;
  Acting& operator=(const Acting&) = delete;

 private:
  int was_;
  int thread_;
  uint32_t clock_;
  Clocks kept_;
};
/// What the running thread knows, and from where on what it does comes after.
Clocks asked();

/// The blocks of a cluster start or end: barriers, copies and products under way. The end gives what is not done.
void begin_hopper(int threads);
const char* end_hopper();
void begin_products(int threads);
bool products_under_way();

}  // namespace emulator
