#include "tests/emulator/launch.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <random>

#include "tests/emulator/shadow.h"
#include "tests/emulator/trace.h"

emulator::Place emulator_place;
emulator::Index emulator_grid, emulator_block;

namespace emulator {
namespace {

constexpr size_t kStackBytes = 128 * 1024;
constexpr int kMaxThreads = 1024;

struct LateCopy {
  void* to;
  const void* from;
  unsigned whole, bytes;
};

enum class State { ready, at_barrier, at_meeting, left };

/// One thread of the block.
struct Fiber {
  ucontext_t start;
  jmp_buf at;
  bool started = false;
  State state = State::ready;
  Index index{};
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
  std::vector<Fiber> fibers = std::vector<Fiber>(kMaxThreads);
  int threads = 0, current = -1;
  jmp_buf scheduler;
  Entry entry = nullptr;
  void** arguments = nullptr;
  EmulatorVotes votes{};
  std::map<const void*, size_t> objects;  // static shared memory: key and offset
  size_t objects_end = 0;
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
  emulator_place.thread = f.index;
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
  f.state = State::ready;
  f.closed.clear();
  f.open.clear();
  getcontext(&f.start);
  f.start.uc_stack.ss_sp = m.stacks + thread * kStackBytes;
  f.start.uc_stack.ss_size = kStackBytes;
  f.start.uc_link = nullptr;
  makecontext(&f.start, thread_main, 0);
}

/// Lets the lanes of a warp go whose meeting is complete.
bool finish_meetings(Machine& m, int warp) {
  bool any = false;
  const int first = warp * 32, lanes = std::min(32, m.threads - first);
  for (int lane = 0; lane < lanes; ++lane) {
    Fiber& f = m.fibers[first + lane];
    if (f.state != State::at_meeting) continue;
    void* brought[32] = {};
    bool complete = true;
    for (int other = 0; other < lanes && complete; ++other) {
      Fiber& o = m.fibers[first + other];
      if ((f.mask >> other & 1) == 0 || o.state == State::left) continue;
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

/// Lets the block go on when all that have not left are at the barrier.
bool finish_barrier(Machine& m) {
  const Fiber* first = nullptr;
  int waiting = 0, count = 0;
  for (int i = 0; i < m.threads; ++i) {
    const Fiber& f = m.fibers[i];
    if (f.state == State::left) continue;
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
  for (int i = 0; i < m.threads; ++i)
    if (m.fibers[i].state == State::at_barrier) m.fibers[i].state = State::ready;
  return true;
}

std::string stuck(const Machine& m) {
  std::string text = "the block cannot go on:";
  for (int i = 0, told = 0; i < m.threads && told < 8; ++i) {
    const Fiber& f = m.fibers[i];
    if (f.state == State::left) continue;
    if (i > 0 && m.fibers[i - 1].state == f.state && std::strcmp(m.fibers[i - 1].site, f.site) == 0) continue;
    text += " thread " + std::to_string(i) + " waits at " + f.site + ";";
    ++told;
  }
  return text;
}

template <typename Random>
void run_block(Machine& m, Random& random, bool shuffled) {
  m.objects_end = 0;
  m.objects.clear();
  begin_block(m.threads);
  for (int i = 0; i < m.threads; ++i) prepare(m, i);
  std::vector<int> order(m.threads);
  std::iota(order.begin(), order.end(), 0);
  for (;;) {
    if (shuffled) std::shuffle(order.begin(), order.end(), random);
    bool moved = false, left = true;
    for (int thread : order) {
      if (m.fibers[thread].state != State::ready) continue;
      run(m, thread);
      moved = true;
      if (!m.error.empty()) return;
    }
    for (int warp = 0; warp * 32 < m.threads; ++warp) {
      moved = finish_meetings(m, warp) || moved;
      if (!m.error.empty()) return;
    }
    for (int i = 0; i < m.threads; ++i) left = left && m.fibers[i].state == State::left;
    if (left) return;
    moved = finish_barrier(m) || moved;
    if (m.error.empty() && !moved) m.error = stuck(m);
    if (!m.error.empty()) return;
  }
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
  m.threads = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
  emulator_grid = shape.grid;
  emulator_block = shape.block;
  for (int i = 0; i < m.threads; ++i) {
    const unsigned n = static_cast<unsigned>(i);
    m.fibers[i].index = {n % shape.block.x, n / shape.block.x % shape.block.y, n / shape.block.x / shape.block.y};
  }
  begin_launch(std::move(ranges), shape.shared_bytes, options.strict);
  std::mt19937_64 random(options.seed);
  std::vector<uint64_t> blocks(size_t{shape.grid.x} * shape.grid.y * shape.grid.z);
  std::iota(blocks.begin(), blocks.end(), 0);
  if (options.seed != 0) std::shuffle(blocks.begin(), blocks.end(), random);
  for (uint64_t block : blocks) {
    emulator_place.block = {static_cast<unsigned>(block % shape.grid.x),
                            static_cast<unsigned>(block / shape.grid.x % shape.grid.y),
                            static_cast<unsigned>(block / shape.grid.x / shape.grid.y)};
    run_block(m, random, options.seed != 0);
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
    if (found->second + bytes > kDynamicStart) emulator_fail("more than 64 KB of static shared memory");
    declare_shared(found->second, bytes);
    m.objects_end = (found->second + bytes + 255) / 128 * 128;
  }
  return arena() + found->second;
}

void* emulator_dynamic_shared() { return arena() + kDynamicStart; }

unsigned emulator_shared_number(const void* address) {
  return static_cast<unsigned>(static_cast<const unsigned char*>(address) - arena());
}
void* emulator_shared_address(unsigned number) { return arena() + number; }

void emulator_copy_later(void* to, const void* from, unsigned whole, unsigned bytes) {
  Machine& m = machine();
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
