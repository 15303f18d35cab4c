#include "tests/emulator/launch.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>

#include "tests/emulator/shadow.h"
#include "tests/emulator/threads.h"
#include "tests/emulator/trace.h"

emulator::Place emulator_place;
emulator::Index emulator_grid, emulator_block;

namespace emulator {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr int kMaxThreads = 1024 * static_cast<int>(kMaxBlocks);

struct LateCopy {
  void* to;
  const void* from;
  unsigned whole, bytes;
};

enum class State { ready, at_barrier, at_meeting, waiting, absent, left };

/// One thread of the block, or of the cluster: whole warps a block, the last ones' rest is absent.
struct Fiber {
  ucontext_t start;
  jmp_buf at;
  bool started = false;
  State state = State::ready;
  Index index{}, block{};
  std::function<bool()> until;
  const char* site = "";  // of the barrier, or the name of the meeting
  int vote = 0;
  unsigned mask = 0;
  void* mine = nullptr;
  Finish finish = nullptr;
  bool orders_memory = false;
  std::vector<std::vector<LateCopy>> closed;
  std::vector<LateCopy> open;
};

struct Machine {
  std::mutex mutex;
  unsigned char* stacks = nullptr;
  std::vector<Fiber> fibers;
  int threads = 0, blocks = 1, current = -1;  // threads of a block, a multiple of 32
  unsigned cluster = 1;                       // what the kernel asked for
  uint64_t waits_over = 0;                    // of wait_until
  bool again = false;                         // its blocks come in clusters: start anew
  jmp_buf scheduler;
  Entry entry = nullptr;
  void** arguments = nullptr;
  EmulatorVotes votes{};
  std::map<const void*, size_t> objects;  // static shared memory: key and offset in a block
  size_t objects_start = 0, objects_end = 0;
  std::string error;
  std::vector<void*> failed_at;
};

Machine& machine() {
  static Machine* instance = new Machine;
  return *instance;
}

// Switching by setjmp makes no system call; a fiber's first run is by its context.
void run(Machine& m, int thread) {
  Fiber& f = m.fibers[thread];
  m.current = thread;
  emulator_place = {f.index, f.block};
  set_current_thread(thread);
  if (_setjmp(m.scheduler) == 0) {
    if (f.started) _longjmp(f.at, 1);
    f.started = true;
    setcontext(&f.start);
  }
  set_current_thread(-1);
}

void pause(Machine& m, Fiber& f) {
  set_current_thread(-1);
  if (_setjmp(f.at) == 0) _longjmp(m.scheduler, 1);
}

void thread_main() {
  Machine& m = machine();
  m.entry(m.arguments);
  set_current_thread(-1);
  Fiber& f = m.fibers[m.current];
  for (const auto& group : f.closed)
    if (!group.empty() || !f.open.empty()) emulator_fail("a thread leaves with copies under way");
  f.state = State::left;
  _longjmp(m.scheduler, 1);
}

void prepare(Machine& m, int thread) {
  Fiber& f = m.fibers[thread];
  f.started = false;
  const unsigned n = static_cast<unsigned>(thread % m.threads);
  const Index of = emulator_block;
  f.index = {n % of.x, n / of.x % of.y, n / of.x / of.y};
  f.state = n < of.x * of.y * of.z ? State::ready : State::absent;
  f.closed.clear();
  f.open.clear();
  getcontext(&f.start);
  f.start.uc_stack.ss_sp = m.stacks + thread * kStackBytes;
  f.start.uc_stack.ss_size = kStackBytes;
  f.start.uc_link = nullptr;
  makecontext(&f.start, thread_main, 0);
}

bool gone(const Fiber& f) { return f.state == State::left || f.state == State::absent; }

/// Lets the lanes of a warp go whose meeting is complete.
bool finish_meetings(Machine& m, int warp) {
  bool any = false;
  const int first = warp * 32, lanes = 32;
  for (int lane = 0; lane < lanes; ++lane) {
    Fiber& f = m.fibers[first + lane];
    if (f.state != State::at_meeting) continue;
    void* brought[32] = {};
    bool complete = true;
    for (int other = 0; other < lanes && complete; ++other) {
      Fiber& o = m.fibers[first + other];
      if ((f.mask >> other & 1) == 0 || gone(o)) continue;
      if (o.state != State::at_meeting) {
        complete = false;
      } else if (o.mask != f.mask || o.finish != f.finish || std::strcmp(o.site, f.site) != 0) {
        m.error = "lanes of a warp differ: lane " + std::to_string(lane) + " is at " + f.site + ", lane " +
                  std::to_string(other) + " at " + o.site + (o.mask != f.mask ? " with another mask" : "");
        return false;
      } else {
        brought[other] = o.mine;
      }
    }
    if (!complete) continue;
    f.finish(brought);
    if (f.orders_memory) order_lanes(warp, f.mask);
    for (int other = 0; other < lanes; ++other)
      if (brought[other] != nullptr) m.fibers[first + other].state = State::ready;
    any = true;
  }
  return any;
}

/// Lets a block go on when all that have not left are at the barrier.
bool finish_barrier(Machine& m, int block) {
  const Fiber* first = nullptr;
  int waiting = 0, count = 0;
  const int begin = block * m.threads, end = begin + m.threads;
  for (int i = begin; i < end; ++i) {
    const Fiber& f = m.fibers[i];
    if (gone(f)) continue;
    if (f.state != State::at_barrier) return false;
    if (first != nullptr && std::strcmp(first->site, f.site) != 0) {
      m.error = std::string("threads wait at different barriers: ") + first->site + " and " + f.site;
      return false;
    }
    first = &f;
    ++waiting;
    count += f.vote != 0;
  }
  if (waiting == 0) return false;
  m.votes = {count, count == waiting, count != 0};
  order_block();
  for (int i = begin; i < end; ++i)
    if (m.fibers[i].state == State::at_barrier) m.fibers[i].state = State::ready;
  return true;
}

std::string stuck(const Machine& m) {
  std::string text = "the block cannot go on:";
  for (int i = 0, told = 0; i < m.blocks * m.threads && told < 8; ++i) {
    const Fiber& f = m.fibers[i];
    if (gone(f)) continue;
    if (i > 0 && m.fibers[i - 1].state == f.state && std::strcmp(m.fibers[i - 1].site, f.site) == 0) continue;
    text += " thread " + std::to_string(i) + " waits at " + f.site + ";";
    ++told;
  }
  return text;
}

/// Runs the blocks that are prepared, those of a cluster side by side.
template <typename Random>
void run_blocks(Machine& m, Random& random, const Options& options) {
  const int all = m.blocks * m.threads;
  m.objects_end = m.objects_start;
  m.objects.clear();
  begin_block(all, m.blocks);
  begin_hopper(all);
  std::vector<int> order(all);
  std::iota(order.begin(), order.end(), 0);
  constexpr int kWarpgroup = 128;
  for (bool all_run = options.late < 0;;) {
    if (options.seed != 0) std::shuffle(order.begin(), order.end(), random);
    bool moved = false, left = true;
    for (int thread : order) {
      if (!all_run && thread % m.threads / kWarpgroup == options.late) continue;
      Fiber& f = m.fibers[thread];
      if (f.state != State::ready && f.state != State::waiting) continue;
      const bool waited = f.state == State::waiting;
      const uint64_t before = m.waits_over;
      run(m, thread);
      moved = moved || !waited || m.waits_over != before;
      if (!m.error.empty() || m.again) return;
    }
    for (int warp = 0; warp * 32 < all; ++warp) {
      moved = finish_meetings(m, warp) || moved;
      if (!m.error.empty()) return;
    }
    for (int i = 0; i < all; ++i) left = left && gone(m.fibers[i]);
    if (left) break;
    for (int block = 0; block < m.blocks; ++block) {
      moved = finish_barrier(m, block) || moved;
      if (!m.error.empty()) return;
    }
    if (!moved && all_run) m.error = stuck(m);
    if (!m.error.empty()) return;
    all_run = options.late < 0 || !moved;
  }
  m.error = end_hopper();
}

/// Prepares the cluster of `block`, and runs it when that block is its first.
template <typename Random>
void run_cluster_of(Machine& m, const Shape& shape, uint64_t block, Random& random, const Options& options) {
  const Index at = {static_cast<unsigned>(block % shape.grid.x),
                    static_cast<unsigned>(block / shape.grid.x % shape.grid.y),
                    static_cast<unsigned>(block / shape.grid.x / shape.grid.y)};
  if (at.x % m.cluster != 0) return;
  m.blocks = static_cast<int>(m.cluster);
  if (m.fibers.size() < size_t{m.cluster} * m.threads) m.fibers.resize(m.cluster * m.threads);
  for (int i = 0; i < m.blocks * m.threads; ++i) {
    prepare(m, i);
    m.fibers[i].block = {at.x + static_cast<unsigned>(i / m.threads), at.y, at.z};
  }
  run_blocks(m, random, options);
}

}  // namespace

std::string launch(const char* name, Entry entry, const Shape& shape, void** arguments, std::vector<Range> ranges,
                   const Options& options) {
  Machine& m = machine();
  std::lock_guard lock(m.mutex);
  if (m.stacks == nullptr) {
    const size_t bytes = kStackBytes * kMaxThreads;
    m.stacks = static_cast<unsigned char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    add_unchecked({reinterpret_cast<uintptr_t>(m.stacks), reinterpret_cast<uintptr_t>(m.stacks) + bytes});
  }
  m.entry = entry;
  m.arguments = arguments;
  m.error.clear();
  m.failed_at.clear();
  m.cluster = 1;
  m.threads = static_cast<int>((shape.block.x * shape.block.y * shape.block.z + 31) / 32 * 32);
  m.objects_start = (kDynamicStart + shape.shared_bytes + 1023) / 1024 * 1024;
  emulator_grid = shape.grid;
  emulator_block = shape.block;
  begin_launch(std::move(ranges), shape.shared_bytes, options.strict, shape.early || options.early);
  std::mt19937_64 random(options.seed);
  std::vector<uint64_t> blocks(size_t{shape.grid.x} * shape.grid.y * shape.grid.z);
  std::iota(blocks.begin(), blocks.end(), 0);
  if (options.seed != 0) std::shuffle(blocks.begin(), blocks.end(), random);
  for (size_t i = 0; i < blocks.size(); ++i) {
    run_cluster_of(m, shape, blocks[i], random, options);
    if (std::exchange(m.again, false)) {
      i = static_cast<size_t>(-1);
      continue;
    }
    if (m.error.empty()) continue;
    const Index at = emulator_place.block;
    return std::string(name) + ", block (" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " +
           std::to_string(at.z) + ") of " + std::to_string(m.threads) + " threads: " + m.error + lines_of(m.failed_at);
  }
  return {};
}

void leave_unchecked(Range range) {
  std::lock_guard lock(machine().mutex);
  add_unchecked(range);
}

int current_thread() { return machine().current; }
int current_lane() { return machine().current % 32; }
int current_block() {
  const Machine& m = machine();
  return m.current < 0 ? 0 : m.current / m.threads;
}
int cluster_blocks() { return machine().blocks; }
bool has_left(int thread) { return gone(machine().fibers[thread]); }

void wait_until(const char* site, std::function<bool()> ready) {
  Machine& m = machine();
  const int thread = m.current;
  while (!ready()) {
    Fiber& f = m.fibers[thread];
    f.state = State::waiting;
    f.site = site;
    pause(m, f);
    f.state = State::ready;
  }
  ++m.waits_over;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

void emulator_fail(const char* format, ...) {
  set_current_thread(-1);
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  Machine& m = machine();
  m.error = text;
  m.failed_at = return_addresses();
  _longjmp(m.scheduler, 1);
}

EmulatorVotes emulator_barrier(const char* site, int value) {
  Machine& m = machine();
  Fiber& f = m.fibers[m.current];
  f.state = State::at_barrier;
  f.site = site;
  f.vote = value;
  pause(m, f);
  return m.votes;
}

void emulator_meet(const char* name, unsigned mask, void* mine, Finish finish, bool orders_memory) {
  Machine& m = machine();
  Fiber& f = m.fibers[m.current];
  if ((mask >> (m.current % 32) & 1) == 0) emulator_fail("%s: the mask %#x lacks the lane itself", name, mask);
  f.state = State::at_meeting;
  f.site = name;
  f.mask = mask;
  f.mine = mine;
  f.finish = finish;
  f.orders_memory = orders_memory;
  pause(m, f);
}

void* emulator_shared(const void* key, unsigned long bytes) {
  Machine& m = machine();
  auto [found, fresh] = m.objects.try_emplace(key, m.objects_end);
  if (fresh) {
    if (found->second + bytes > kBlockBytes) emulator_fail("more shared memory than a block can have");
    m.objects_end = (found->second + bytes + 255) / 128 * 128;
  }
  const size_t offset = current_block() * kBlockBytes + found->second;
  declare_shared(offset, bytes);
  return arena() + offset;
}

void* emulator_dynamic_shared() { return arena() + current_block() * kBlockBytes + kDynamicStart; }

void emulator_cluster(unsigned blocks) {
  Machine& m = machine();
  if (m.cluster == blocks || blocks == 1) return;
  if (m.cluster != 1 || blocks > kMaxBlocks || emulator_grid.x % blocks != 0)
    emulator_fail("a grid of %u blocks cannot come in clusters of %u", emulator_grid.x, blocks);
  set_current_thread(-1);
  m.cluster = blocks;
  m.again = true;
  _longjmp(m.scheduler, 1);
}

unsigned emulator_shared_number(const void* address) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(address) - arena());
}
void* emulator_shared_address(unsigned number) { return arena() + number; }

void emulator_copy_later(void* to, const void* from, unsigned whole, unsigned bytes) {
  Machine& m = machine();
  check_previous_ended("asks for bytes");
  m.fibers[m.current].open.push_back({to, from, whole, bytes});
}
void emulator_close_copies() {
  Machine& m = machine();
  Fiber& f = m.fibers[m.current];
  f.closed.push_back(std::move(f.open));
  f.open.clear();
}
void emulator_wait_copies(unsigned pending) {
  Machine& m = machine();
  Fiber& f = m.fibers[m.current];
  while (f.closed.size() > pending) {
    for (const LateCopy& copy : f.closed.front()) {
      emulator_access(copy.from, copy.bytes, Access::read);
      emulator_access(copy.to, copy.whole, Access::write);
      std::memcpy(copy.to, copy.from, copy.bytes);
      std::memset(static_cast<unsigned char*>(copy.to) + copy.bytes, 0, copy.whole - copy.bytes);
    }
    f.closed.erase(f.closed.begin());
  }
}

}  // extern "C"
