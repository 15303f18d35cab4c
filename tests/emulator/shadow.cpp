#include "tests/emulator/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "tests/emulator/threads.h"

namespace emulator {
namespace {

/// The last write and the last read of a byte. Epochs count barriers and blocks and never go back.
struct Cell {
  uint64_t written = 0, read = 0;            // epochs; 0: never
  uint32_t write_clock = 0, read_clock = 0;  // of the thread's lane, see `seen`
  int16_t writer = -1, reader = -1;
  bool atomic = false, declared = false;
  uint32_t box = 0;  // whose copy wrote it; 0: a thread
};

constexpr size_t kPage = 4096, kStaticBytes = 48 * 1024;
using Page = std::array<Cell, kPage>;

struct Shadow {
  std::vector<Range> ranges, unchecked;
  size_t last_range = 0;
  Cell* shared = static_cast<Cell*>(std::calloc(kArenaBytes, sizeof(Cell)));
  std::vector<std::pair<size_t, size_t>> declared;  // static objects of the launch: offset and bytes
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages;
  uintptr_t last_page = ~uintptr_t{0};
  Page* last_cells = nullptr;
  uint64_t epoch = 1, first_of_launch = 1, first_of_block = 1;
  unsigned shared_bytes = 0;
  bool strict = false;
  /// Threads of the block that waited for the kernel before, and since when. Only where that matters.
  bool early = false;
  struct Wait {
    int thread;
    uint64_t epoch;
    uint32_t clock;
  };
  std::vector<Wait> waits;
  bool acquired = false;  // the block has counted in global memory, and may read what other blocks wrote before
  int thread = -1;
  uint32_t box = 0, boxes = 0;  // that is copied now, all until now
  std::vector<uint32_t> clock;  // by thread: how often it was ordered
  std::vector<uint32_t> seen;   // by thread: the clocks of the threads that came before it, of its warp alone or of all
  size_t known = 32;            // how many of them

  uint32_t& seen_by(int thread, int other) { return seen[thread * known + (known == 32 ? other % 32 : other)]; }
};

Shadow& shadow() {
  static Shadow* instance = new Shadow;
  return *instance;
}

bool inside(const std::vector<Range>& ranges, uintptr_t begin, uintptr_t end) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), begin,
                                [](uintptr_t address, const Range& range) { return address < range.begin; });
  return after != ranges.begin() && end <= (after - 1)->end;
}

/// Whether an access of `thread` at an epoch comes before what the current thread does now, within a cluster.
bool ordered(Shadow& s, uint64_t epoch, int thread, uint32_t clock) {
  if (epoch != s.epoch || thread == s.thread) return true;
  if (s.known == 32 && thread / 32 != s.thread / 32) return false;
  return s.seen_by(s.thread, thread) > clock;
}

[[noreturn]] void race(const char* what, const char* memory, uintptr_t address, int other) {
  emulator_fail("race: thread %d %s of %s memory at %#lx with thread %d, no barrier between", shadow().thread, what,
                memory, static_cast<unsigned long>(address), other);
}

void check_cell(Shadow& s, Cell& c, Access access, bool is_shared, uintptr_t address) {
  const char* memory = is_shared ? "shared" : "global";
  const bool is_atomic = access == Access::atomic, is_write = access == Access::write || is_atomic;
  if (s.strict && is_shared && c.written < s.first_of_block && (access == Access::read || is_atomic))
    emulator_fail("thread %d reads shared memory at offset %#lx that nobody wrote", s.thread,
                  static_cast<unsigned long>(address - reinterpret_cast<uintptr_t>(arena())));
  const bool atomics = is_atomic && c.atomic, checked = is_shared || s.strict;
  if (c.written >= s.first_of_block) {
    if (!atomics && (is_write || checked) && !ordered(s, c.written, c.writer, c.write_clock))
      race(is_write ? "writes what was written" : "reads what was written", memory, address, c.writer);
  } else if (!is_shared && c.written >= s.first_of_launch && !atomics && !s.acquired) {
    emulator_fail("race: thread %d %s global memory at %#lx that another block wrote", s.thread,
                  is_write ? "writes" : "reads", static_cast<unsigned long>(address));
  }
  if (is_write) {
    if (c.read >= s.first_of_block) {
      if (checked && !ordered(s, c.read, c.reader, c.read_clock))
        race("writes what was read", memory, address, c.reader);
    } else if (!is_shared && c.read >= s.first_of_launch && !is_atomic && !s.acquired) {
      emulator_fail("race: thread %d writes global memory at %#lx that another block read", s.thread,
                    static_cast<unsigned long>(address));
    }
    c.written = s.epoch;
    c.writer = static_cast<int16_t>(s.thread);
    c.write_clock = s.clock[s.thread];
    c.atomic = is_atomic;
    c.box = s.box;
  } else {
    c.read = s.epoch;
    c.reader = static_cast<int16_t>(s.thread);
    c.read_clock = s.clock[s.thread];
  }
}

Cell& global_cell(Shadow& s, uintptr_t address) {
  const uintptr_t page = address / kPage;
  if (page != s.last_page) {
    std::unique_ptr<Page>& cells = s.pages[page];
    if (cells == nullptr) cells = std::make_unique<Page>();
    s.last_page = page;
    s.last_cells = cells.get();
  }
  return (*s.last_cells)[address % kPage];
}

}  // namespace

unsigned char* arena() {
  static auto* memory = [] {
    void* made = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return static_cast<unsigned char*>(made);
  }();
  return memory;
}

void begin_launch(std::vector<Range> ranges, unsigned shared_bytes, bool strict, bool early) {
  Shadow& s = shadow();
  for (auto [offset, bytes] : s.declared)
    for (size_t i = 0; i < bytes; ++i) s.shared[offset + i].declared = false;
  s.declared.clear();
  s.strict = strict;
  s.early = early;
  s.ranges = std::move(ranges);
  s.shared_bytes = shared_bytes;
  s.box = 0;
  s.first_of_launch = ++s.epoch;
  if (s.pages.size() > 4096) s.pages.clear();
  s.last_page = ~uintptr_t{0};
}

void begin_block(int threads, int blocks) {
  Shadow& s = shadow();
  s.first_of_block = ++s.epoch;
  s.acquired = false;
  s.waits.clear();
  s.clock.assign(threads, 1);
  s.known = 32;
  s.seen.assign(threads * s.known, 0);
  const size_t used = std::min(kBlockBytes, kDynamicStart + s.shared_bytes + kStaticBytes);
  for (int block = 0; block < blocks; ++block) std::memset(arena() + block * kBlockBytes, 0xff, used);
}

void begin_box() { shadow().box = ++shadow().boxes; }
void end_box() { shadow().box = 0; }

bool same_box(const void* a, const void* b) {
  Shadow& s = shadow();
  const auto box = [&](const void* p) {
    const Cell& c = s.shared[static_cast<const unsigned char*>(p) - arena()];
    return c.written >= s.first_of_block ? c.box : 0;
  };
  return s.strict || box(a) == 0 || box(a) == box(b);
}

bool is_settled(const void* p, size_t bytes) {
  Shadow& s = shadow();
  const Cell* const first = &s.shared[static_cast<const unsigned char*>(p) - arena()];
  return std::all_of(first, first + bytes, [&](const Cell& c) {
    return c.written < s.first_of_block || ordered(s, c.written, c.writer, c.write_clock);
  });
}

void order_block() { ++shadow().epoch; }

void note_previous_ended() {
  Shadow& s = shadow();
  if (s.early) s.waits.push_back({s.thread, s.epoch, s.clock[s.thread]});
}

void check_previous_ended(const char* what) {
  Shadow& s = shadow();
  if (!s.early || s.thread < 0) return;
  // Mostly one's own, which is among the last of its warp.
  for (auto wait = s.waits.rbegin(); wait != s.waits.rend(); ++wait)
    if (ordered(s, wait->epoch, wait->thread, wait->clock)) return;
  emulator_fail("thread %d %s before the kernel before has ended", s.thread, what);
}

void order_threads() {
  Shadow& s = shadow();
  const size_t threads = s.clock.size();
  if (s.known == threads) return;
  std::vector<uint32_t> wide(threads * threads, 0);
  for (size_t thread = 0; thread < threads; ++thread)
    for (size_t lane = 0; lane < 32 && thread / 32 * 32 + lane < threads; ++lane)
      wide[thread * threads + thread / 32 * 32 + lane] = s.seen[thread * 32 + lane];
  s.seen = std::move(wide);
  s.known = threads;
}

void order_lanes(int warp, uint32_t lanes) {
  Shadow& s = shadow();
  std::vector<uint32_t> all(s.known, 0);
  const int first = warp * 32;
  auto taking_part = [&](int lane) {
    return (lanes >> lane & 1) != 0 && first + lane < static_cast<int>(s.clock.size());
  };
  for (int lane = 0; lane < 32; ++lane) {
    if (!taking_part(lane)) continue;
    const uint32_t* row = &s.seen[(first + lane) * s.known];
    for (size_t other = 0; other < s.known; ++other) all[other] = std::max(all[other], row[other]);
    const uint32_t mine = ++s.clock[first + lane];
    uint32_t& slot = all[s.known == 32 ? lane : first + lane];
    slot = std::max(slot, mine);
  }
  for (int lane = 0; lane < 32; ++lane)
    if (taking_part(lane)) std::copy(all.begin(), all.end(), &s.seen[(first + lane) * s.known]);
}

void release(Clocks& clocks) {
  order_threads();
  Shadow& s = shadow();
  clocks.resize(s.known, 0);
  const uint32_t* row = &s.seen[s.thread * s.known];
  for (size_t other = 0; other < s.known; ++other) clocks[other] = std::max(clocks[other], row[other]);
  clocks[s.thread] = ++s.clock[s.thread];
}

void acquire(const Clocks& clocks) {
  order_threads();
  Shadow& s = shadow();
  uint32_t* row = &s.seen[s.thread * s.known];
  for (size_t other = 0; other < clocks.size(); ++other) row[other] = std::max(row[other], clocks[other]);
}

Clocks asked() {
  Clocks clocks;
  release(clocks);
  return clocks;
}

Acting::Acting(int thread, const Clocks& clocks) : was_(shadow().thread), thread_(thread), kept_(clocks) {
  Shadow& s = shadow();
  s.thread = thread;
  clock_ = std::exchange(s.clock[thread], clocks[thread] - 1);
  std::swap_ranges(kept_.begin(), kept_.end(), &s.seen[thread * s.known]);
}
Acting::~Acting() {
  Shadow& s = shadow();
  s.clock[thread_] = clock_;
  std::swap_ranges(kept_.begin(), kept_.end(), &s.seen[thread_ * s.known]);
  s.thread = was_;
}

void declare_shared(size_t offset, size_t bytes) {
  if (shadow().shared[offset].declared) return;
  for (size_t i = 0; i < bytes; ++i) shadow().shared[offset + i].declared = true;
  shadow().declared.emplace_back(offset, bytes);
}

void set_current_thread(int thread) { shadow().thread = thread; }

void add_unchecked(Range range) {
  std::vector<Range>& list = shadow().unchecked;
  list.push_back(range);
  std::sort(list.begin(), list.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

}  // namespace emulator

extern "C" void emulator_access(const void* pointer, unsigned long bytes, emulator::Access access) {
  using namespace emulator;
  Shadow& s = shadow();
  if (s.thread < 0 || bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t end = begin + bytes;
  const auto base = reinterpret_cast<uintptr_t>(arena());
  const char* verb = access == Access::read || access == Access::fragment ? "reads" : "writes";
  if (begin >= base && begin < base + kArenaBytes) {
    for (uintptr_t at = begin; at < end; ++at) {
      const size_t offset = at - base;
      const size_t in_block = offset % kBlockBytes;
      const bool dynamic = in_block >= kDynamicStart && in_block < kDynamicStart + s.shared_bytes;
      if (!dynamic && !s.shared[offset].declared)
        emulator_fail("thread %d %s %lu bytes at shared memory dynamic offset %#lx, of which not all are the block's",
                      s.thread, verb, bytes, static_cast<unsigned long>(in_block - kDynamicStart));
      check_cell(s, s.shared[offset], access, true, at);
    }
    return;
  }
  if (s.last_range < s.ranges.size() && begin >= s.ranges[s.last_range].begin && end <= s.ranges[s.last_range].end) {
  } else if (inside(s.ranges, begin, end)) {
    auto after = std::upper_bound(s.ranges.begin(), s.ranges.end(), begin,
                                  [](uintptr_t address, const Range& range) { return address < range.begin; });
    s.last_range = static_cast<size_t>(after - s.ranges.begin()) - 1;
  } else if (inside(s.unchecked, begin, end)) {
    return;
  } else {
    std::string near;
    for (const Range& r : s.ranges)
      if (end + 4096 > r.begin && begin < r.end + 4096)
        near += begin >= r.begin
                    ? ", " + std::to_string(static_cast<long>(begin - r.end)) + " from the end of " +
                          std::to_string(r.end - r.begin) + " bytes"
                    : ", " + std::to_string(r.begin - begin) + " before " + std::to_string(r.end - r.begin) + " bytes";
    emulator_fail("thread %d %s %lu bytes at %#lx, out of bounds%s", s.thread, verb, bytes,
                  static_cast<unsigned long>(begin), near.c_str());
  }
  check_previous_ended(verb);
  for (uintptr_t at = begin; at < end; ++at) check_cell(s, global_cell(s, at), access, false, at);
  if (access == Access::atomic) s.acquired = true;
}
