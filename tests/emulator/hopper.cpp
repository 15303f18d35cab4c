// Instructions of sm_90 but for products: barriers in shared memory, named ones, clusters, and copies that go on behind
// the threads. Copies into shared memory are made when somebody waits for them, out of it when their thread does.
#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulator/machine.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/shadow.h"
#include "tests/emulator/tensor_map.h"
#include "tests/emulator/threads.h"

namespace emulator {
namespace {

struct BulkCopy {
  int thread;
  Clocks clocks;
  int64_t bytes;
  std::function<void()> make;
};

struct Mbarrier {
  int expected = 0, pending = 0;
  int64_t bytes = 0;  // announced and not there
  unsigned phase = 0;
  Clocks gathering, released;
  std::deque<BulkCopy> copies;
};

struct Meeting {  // a named barrier
  int count = 0;
  unsigned phase = 0;
  Clocks gathering, released;
};

struct Stores {
  std::vector<std::function<void()>> open;
  std::deque<std::vector<std::function<void()>>> closed;
};

struct Hopper {
  std::map<uint32_t, Mbarrier> barriers;         // by address
  std::map<std::pair<int, int>, Meeting> named;  // by block and number
  Clocks cluster;                                // what all knew that came to its barrier
  std::vector<unsigned> cluster_arrivals;        // by thread
  std::vector<Stores> stores;                    // by thread
};

Hopper& hopper() {
  static Hopper* instance = new Hopper;
  return *instance;
}

uint32_t number_of(Frame& f, const Argument& a) { return static_cast<uint32_t>(f.value(a)); }

Mbarrier& barrier_at(uint32_t address, const Instruction& i) {
  emulator_access(emulator_shared_address(address), 8, Access::atomic);
  auto found = hopper().barriers.find(address);
  if (found == hopper().barriers.end()) emulator_fail("%s: no barrier at %#x", i.name.c_str(), address);
  return found->second;
}

void end_phase(Mbarrier& b) {
  if (b.pending != 0 || b.bytes != 0) return;
  ++b.phase;
  b.pending = b.expected;
  b.released = b.gathering;
}

void initialise(Frame& f, const Instruction& i) {
  const uint32_t address = number_of(f, i.arguments[0]);
  void* p = emulator_shared_address(address);
  check_aligned(p, 8, i);
  emulator_access(p, 8, Access::write);
  Mbarrier& b = hopper().barriers[address];
  if (!b.copies.empty()) emulator_fail("%s: copies are under way to the barrier", i.name.c_str());
  b = {};
  b.expected = b.pending = static_cast<int>(f.value(i.arguments[1]));
}

void count_arrival(Mbarrier& b, const Instruction& i) {
  if (b.pending == 0) emulator_fail("%s: more arrivals than the barrier was made for", i.name.c_str());
  release(b.gathering);
  --b.pending;
  end_phase(b);
}
void arrive(Frame& f, const Instruction& i) { count_arrival(barrier_at(number_of(f, i.arguments[1]), i), i); }
void arrive_and_expect(Frame& f, const Instruction& i) {
  Mbarrier& b = barrier_at(number_of(f, i.arguments[1]), i);
  b.bytes += static_cast<int64_t>(f.value(i.arguments[2]));
  count_arrival(b, i);
}

/// Makes the copies a barrier counts, once nothing else is missing.
void make_copies(Mbarrier& b) {
  if (b.pending != 0) return;
  while (b.bytes > 0 && !b.copies.empty()) {
    BulkCopy copy = std::move(b.copies.front());
    b.copies.pop_front();
    {
      Acting acting(copy.thread, copy.clocks);
      copy.make();
    }
    b.bytes -= copy.bytes;
    b.gathering.resize(copy.clocks.size(), 0);
    for (size_t k = 0; k < copy.clocks.size(); ++k) b.gathering[k] = std::max(b.gathering[k], copy.clocks[k]);
  }
  if (b.bytes < 0) emulator_fail("a barrier counts more bytes than were announced");
  end_phase(b);
}

void wait_for_phase(Frame& f, const Instruction& i) {
  Mbarrier& b = barrier_at(number_of(f, i.arguments[1]), i);
  const unsigned parity = static_cast<unsigned>(f.value(i.arguments[2])) & 1;
  wait_until("mbarrier.try_wait", [&b, parity] {
    if ((b.phase & 1) == parity) make_copies(b);
    return (b.phase & 1) != parity;
  });
  acquire(b.released);
  f.set(i.arguments[0], uint64_t{1});
}

/// Asks for a copy that the barrier counts.
void copy_later(uint32_t barrier, int64_t bytes, const Instruction& i, std::function<void()> make) {
  Mbarrier& b = barrier_at(barrier, i);
  b.copies.push_back({current_thread(), asked(), bytes, std::move(make)});
}

// Boxes of tensors

const TensorMap& map_at(Frame& f, const Argument& a) {
  return *reinterpret_cast<const TensorMap*>(f.value(a.items[0]));
}

int64_t box_bytes(const TensorMap& map) {
  int64_t bytes = map.element_bytes;
  for (int d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

/// Calls `row` for each row of the box: its place in shared memory, its first element in memory or null, how many bytes
/// lie before it outside of the tensor, and how many inside.
template <typename Row>
void for_each_row(const TensorMap& map, const std::vector<int32_t>& at, uint32_t shared, Row row) {
  int64_t rows = 1;
  for (int d = 1; d < map.rank; ++d) rows *= map.box[d];
  const int64_t width = int64_t{map.box[0]} * map.element_bytes;
  for (int64_t r = 0; r < rows; ++r) {
    int64_t rest = r, offset = 0;
    bool inside = true;
    for (int d = 1; d < map.rank; ++d) {
      const int64_t index = at[d] + rest % map.box[d];
      rest /= map.box[d];
      inside = inside && index >= 0 && index < static_cast<int64_t>(map.shape[d]);
      offset += index * static_cast<int64_t>(map.strides[d - 1]);
    }
    const int64_t length = static_cast<int64_t>(map.shape[0]);
    const int64_t first = std::clamp<int64_t>(at[0], 0, length),
                  last = std::clamp<int64_t>(at[0] + map.box[0], 0, length);
    const int64_t bytes = inside ? (last - first) * map.element_bytes : 0;
    row(static_cast<uint32_t>(shared + r * width), map.base + offset + first * map.element_bytes,
        (first - at[0]) * map.element_bytes, bytes, width);
  }
}

/// Bytes of a row to or from their swizzled places.
template <typename Move>
void for_each_chunk(uint32_t shared, int64_t width, int swizzle, Move move) {
  for (int64_t done = 0; done < width; done += 16)
    move(static_cast<unsigned char*>(emulator_shared_address(swizzled(static_cast<uint32_t>(shared + done), swizzle))),
         done, std::min<int64_t>(16, width - done));
}

void load_box(const TensorMap& map, const std::vector<int32_t>& at, uint32_t to) {
  begin_box();
  for_each_row(map, at, to,
               [&](uint32_t shared, const unsigned char* from, int64_t before, int64_t bytes, int64_t width) {
                 std::vector<unsigned char> row(width, 0);
                 if (bytes > 0) {
                   emulator_access(from, bytes, Access::read);
                   std::memcpy(row.data() + before, from, bytes);
                 }
                 if (map.to_tf32 != 0)
                   for (int64_t k = 0; k + 4 <= width; k += 4) {
                     uint32_t word;
                     std::memcpy(&word, &row[k], 4);
                     if ((word & 0x7f800000u) != 0x7f800000u) word = (word + 0xfffu + (word >> 13 & 1u)) & ~0x1fffu;
                     std::memcpy(&row[k], &word, 4);
                   }
                 for_each_chunk(shared, width, map.swizzle, [&](unsigned char* place, int64_t done, int64_t part) {
                   emulator_access(place, part, Access::write);
                   std::memcpy(place, &row[done], part);
                 });
               });
  end_box();
}

void store_box(const TensorMap& map, const std::vector<int32_t>& at, uint32_t from) {
  for_each_row(map, at, from, [&](uint32_t shared, unsigned char* to, int64_t before, int64_t bytes, int64_t width) {
    std::vector<unsigned char> row(width);
    for_each_chunk(shared, width, map.swizzle, [&](unsigned char* place, int64_t done, int64_t part) {
      emulator_access(place, part, Access::fragment);
      std::memcpy(&row[done], place, part);
    });
    if (bytes <= 0) return;
    emulator_access(to, bytes, Access::write);
    std::memcpy(to, row.data() + before, bytes);
  });
}

std::vector<int32_t> coordinates(Frame& f, const Argument& a) {
  std::vector<int32_t> at;
  for (const Argument& item : a.items[1].items) at.push_back(static_cast<int32_t>(f.value(item)));
  return at;
}

void check_box(const TensorMap& map, const std::vector<int32_t>& at, uint32_t shared, const Instruction& i) {
  if (static_cast<int>(at.size()) != map.rank)
    emulator_fail("%s: a map of rank %d", i.name.c_str(), static_cast<int>(map.rank));
  const uint32_t align = map.swizzle == 0 ? 128 : 128u << map.swizzle;
  if (shared % align != 0)
    emulator_fail("%s: shared address %#x is not a multiple of %u", i.name.c_str(), shared, align);
}

void load_tile(Frame& f, const Instruction& i) {
  const TensorMap map = map_at(f, i.arguments[1]);
  const std::vector<int32_t> at = coordinates(f, i.arguments[1]);
  const uint32_t to = number_of(f, i.arguments[0]), barrier = number_of(f, i.arguments[2]);
  check_box(map, at, to % kBlockBytes, i);
  check_previous_ended("asks for a tile");
  if (i.name.find("multicast") == std::string::npos)
    return copy_later(barrier, box_bytes(map), i, [=] { load_box(map, at, to); });
  const auto blocks = static_cast<unsigned>(f.value(i.arguments[3]));
  for (int block = 0; block < cluster_blocks(); ++block) {
    if ((blocks >> block & 1) == 0) continue;
    const auto base = static_cast<uint32_t>(block * kBlockBytes);
    const uint32_t there = static_cast<uint32_t>(to % kBlockBytes) + base;
    copy_later(static_cast<uint32_t>(barrier % kBlockBytes) + base, box_bytes(map), i,
               [=] { load_box(map, at, there); });
  }
}

/// Plain bytes from memory, or from this block's shared memory to another's.
void load_bytes(Frame& f, const Instruction& i) {
  const bool from_shared = i.name.find("shared::cluster.shared::cta") != std::string::npos;
  void* to = emulator_shared_address(number_of(f, i.arguments[0]));
  const void* from = from_shared ? emulator_shared_address(number_of(f, i.arguments[1]))
                                 : reinterpret_cast<const void*>(f.value(i.arguments[1]));
  const auto bytes = static_cast<int64_t>(number_of(f, i.arguments[2]));
  check_aligned(to, 16, i);
  check_aligned(from, 16, i);
  if (bytes % 16 != 0)
    emulator_fail("%s: %ld bytes are not a multiple of 16", i.name.c_str(), static_cast<long>(bytes));
  if (!from_shared) check_previous_ended("asks for bytes");
  copy_later(number_of(f, i.arguments[3]), bytes, i, [=] {
    emulator_access(from, bytes, Access::read);
    emulator_access(to, bytes, Access::write);
    std::memcpy(to, from, bytes);
  });
}

void send_floats(Frame& f, const Instruction& i) {
  void* to = emulator_shared_address(number_of(f, i.arguments[0]));
  std::vector<uint32_t> values;
  for (const Argument& a : items(i.arguments[1])) values.push_back(number_of(f, a));
  const auto bytes = static_cast<int64_t>(values.size() * 4);
  check_aligned(to, bytes, i);
  copy_later(number_of(f, i.arguments[2]), bytes, i, [=] {
    emulator_access(to, bytes, Access::write);
    std::memcpy(to, values.data(), bytes);
  });
}

Stores& my_stores() { return hopper().stores[current_thread()]; }

void store_tile(Frame& f, const Instruction& i) {
  const TensorMap map = map_at(f, i.arguments[0]);
  const std::vector<int32_t> at = coordinates(f, i.arguments[0]);
  const uint32_t from = number_of(f, i.arguments[1]);
  check_box(map, at, from % kBlockBytes, i);
  my_stores().open.push_back([=] { store_box(map, at, from); });
}
void close_stores(Frame&, const Instruction&) {
  Stores& s = my_stores();
  s.closed.push_back(std::exchange(s.open, {}));
}
void wait_stores(Frame& f, const Instruction& i) {
  Stores& s = my_stores();
  for (const auto pending = f.value(i.arguments[0]); s.closed.size() > pending; s.closed.pop_front())
    for (const auto& store : s.closed.front()) store();
}

// Threads that meet

Meeting& named(Frame& f, const Instruction& i) {
  return hopper().named[{current_block(), static_cast<int>(f.value(i.arguments[0]))}];
}
void come(Meeting& m, int all) {
  release(m.gathering);
  if (++m.count < all) return;
  m.count = 0;
  ++m.phase;
  m.released = m.gathering;
}
void named_arrive(Frame& f, const Instruction& i) { come(named(f, i), static_cast<int>(f.value(i.arguments[1]))); }
void named_wait(Frame& f, const Instruction& i) {
  Meeting& m = named(f, i);
  const unsigned phase = m.phase;
  come(m, static_cast<int>(f.value(i.arguments[1])));
  wait_until("bar.sync", [&m, phase] { return m.phase != phase; });
  acquire(m.released);
}

void cluster_arrive(Frame&, const Instruction&) {
  release(hopper().cluster);
  ++hopper().cluster_arrivals[current_thread()];
}
/// Threads that have left are not waited for.
void cluster_wait(Frame&, const Instruction&) {
  const unsigned mine = hopper().cluster_arrivals[current_thread()];
  wait_until("barrier.cluster.wait", [mine] {
    const std::vector<unsigned>& arrivals = hopper().cluster_arrivals;
    for (size_t thread = 0; thread < arrivals.size(); ++thread)
      if (arrivals[thread] < mine && !has_left(static_cast<int>(thread))) return false;
    return true;
  });
  acquire(hopper().cluster);
}

void address_in_block(Frame& f, const Instruction& i) {
  const auto block = f.value(i.arguments[2]);
  if (block >= static_cast<uint64_t>(cluster_blocks())) emulator_fail("%s: no block %d", i.name.c_str(), (int)block);
  f.set(i.arguments[0], f.value(i.arguments[1]) % kBlockBytes + block * kBlockBytes);
}

void wait_for_previous(Frame&, const Instruction&) { note_previous_ended(); }
void nothing(Frame&, const Instruction&) {}

}  // namespace

const Instructions& hopper_instructions() {
  static const Instructions table = {
      {"mbarrier.init", initialise},
      {"mbarrier.arrive.", arrive},
      {"mbarrier.arrive.expect_tx", arrive_and_expect},
      {"mbarrier.try_wait.parity", wait_for_phase},
      {"cp.async.bulk.tensor.2d.shared::cluster.global", load_tile},
      {"cp.async.bulk.tensor.3d.shared::cluster.global", load_tile},
      {"cp.async.bulk.tensor.4d.shared::cluster.global", load_tile},
      {"cp.async.bulk.tensor.5d.shared::cluster.global", load_tile},
      {"cp.async.bulk.shared::cluster", load_bytes},
      {"cp.async.bulk.tensor.3d.global.shared::cta", store_tile},
      {"cp.async.bulk.tensor.4d.global.shared::cta", store_tile},
      {"cp.async.bulk.commit_group", close_stores},
      {"cp.async.bulk.wait_group", wait_stores},
      {"cp.async.bulk.prefetch", nothing},
      {"st.async", send_floats},
      {"mapa.shared::cluster", address_in_block},
      {"bar.sync", named_wait},
      {"bar.arrive", named_arrive},
      {"barrier.cluster.arrive", cluster_arrive},
      {"barrier.cluster.wait", cluster_wait},
      {"griddepcontrol.launch_dependents", nothing},
      {"griddepcontrol.wait", wait_for_previous},
      {"setmaxnreg", nothing},
      {"fence.", nothing},
  };
  return table;
}

void begin_hopper(int threads) {
  Hopper& h = hopper();
  h.barriers.clear();
  h.named.clear();
  h.cluster.clear();
  h.cluster_arrivals.assign(threads, 0);
  h.stores.assign(threads, {});
  begin_products(threads);
}

const char* end_hopper() {
  for (const auto& [address, barrier] : hopper().barriers)
    if (!barrier.copies.empty()) return "a block leaves with copies under way that nobody waited for";
  for (const Stores& stores : hopper().stores)
    if (!stores.open.empty() || !stores.closed.empty()) return "a thread leaves with stores under way";
  return products_under_way() ? "a thread leaves with products under way" : "";
}

}  // namespace emulator
