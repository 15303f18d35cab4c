// Products of warpgroups. One is made when the first of its threads waits for it: until then its sums are what they
// were, and its tiles must stay.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
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

/// A tile of shared memory as a descriptor tells it: rows along M or N, 32 bytes of K.
struct Tile {
  uint32_t start, leading, stride;
  int swizzle;  // 0: none, 1 to 3: 32, 64, 128 bytes
  bool transposed;

  Tile(uint64_t descriptor, bool transposed, const Instruction& i)
      : start(static_cast<uint32_t>(descriptor & 0x3fff) << 4),
        leading(static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4),
        swizzle(static_cast<int>(4 - (descriptor >> 62)) % 4),
        transposed(transposed) {
    if ((descriptor >> 49 & 7) != 0) emulator_fail("%s: a base offset is not emulated", i.name.c_str());
  }

  /// Where the bytes of a row from `byte` of K on are: 16 of them, or where transposed one element of 2.
  uint32_t address(int row, int byte) const {
    uint32_t at = start;
    if (transposed) {
      const int k = byte / 2, chunk = 8 << swizzle,
                inside = row % chunk;  // elements of a swizzled row, which is of M or N
      at += static_cast<uint32_t>(row / chunk) * leading + static_cast<uint32_t>(k / 8) * stride +
            static_cast<uint32_t>(k % 8 * chunk * 2 + inside * 2);
    } else if (swizzle == 0) {
      at += static_cast<uint32_t>(row / 8) * stride + static_cast<uint32_t>(byte / 16) * leading +
            static_cast<uint32_t>(row % 8 * 16 + byte % 16);
    } else {
      at += static_cast<uint32_t>(row / 8) * stride + static_cast<uint32_t>(row % 8 * (16 << swizzle) + byte);
    }
    return swizzled(at, swizzle);
  }
};

struct Product {
  std::vector<void*> sums;
  std::vector<uint32_t> a;  // when it comes from registers
  uint64_t a_tile = 0, b_tile = 0;
  bool a_transposed = false, b_transposed = false, adds = false;
  const Instruction* instruction = nullptr;
  Element element = Element::f16;
  int columns = 0;
};

/// What a thread asked for, and how many groups of it are closed and made.
struct Queue {
  std::vector<Product> open;
  std::deque<std::vector<Product>> closed;
  uint64_t asked = 0, made = 0;
};

struct Products {
  std::vector<Queue> threads;
  std::vector<Clocks> made;  // by warpgroup: who waited knows of the reads
};

Products& products() {
  static auto* instance = new Products;
  return *instance;
}
Queue& mine() { return products().threads[current_thread()]; }

int bytes_of(Element e) { return e == Element::tf32 ? 4 : e == Element::f16 || e == Element::bf16 ? 2 : 1; }

void ask(Frame& f, const Instruction& i) {
  static const std::pair<const char*, Element> kElements[] = {
      {".f32.f16.f16", Element::f16}, {".f32.bf16.bf16", Element::bf16}, {".f32.tf32.tf32", Element::tf32},
      {".s32.s8.s8", Element::s8},    {".f32.e4m3.e4m3", Element::e4m3}, {".f32.e5m2.e5m2", Element::e5m2}};
  Product p;
  bool known = false;
  for (const auto& [types, element] : kElements) {
    if (i.name.find(types) == std::string::npos) continue;
    p.element = element;
    known = true;
  }
  const size_t n = i.name.find(".m64n");
  if (!known || n == std::string::npos) emulator_fail("%s is not emulated", i.name.c_str());
  p.columns = std::atoi(i.name.c_str() + n + 5);
  for (const Argument& a : items(i.arguments[0])) p.sums.push_back(f.operands[a.reg].value);
  if (static_cast<int>(p.sums.size()) != p.columns / 2) emulator_fail("%s has %zu sums", i.name.c_str(), p.sums.size());
  const bool from_registers = i.arguments[1].kind == Argument::Kind::list;
  if (from_registers)
    for (const Argument& a : items(i.arguments[1])) p.a.push_back(static_cast<uint32_t>(f.value(a)));
  else
    p.a_tile = f.value(i.arguments[1]);
  p.b_tile = f.value(i.arguments[2]);
  p.adds = f.value(i.arguments[3]) != 0;
  const size_t turns = 6;  // after the two signs
  if (i.arguments.size() > turns) {
    p.b_transposed = f.value(i.arguments.back()) != 0;
    p.a_transposed = !from_registers && f.value(i.arguments[turns]) != 0;
  }
  p.instruction = &i;
  mine().open.push_back(std::move(p));
}

void close_products(Frame&, const Instruction&) {
  Queue& q = mine();
  q.closed.push_back(std::exchange(q.open, {}));
  ++q.asked;
}

unsigned char* place(uint32_t address, int block) {
  return static_cast<unsigned char*>(emulator_shared_address(static_cast<uint32_t>(block * kBlockBytes) + address));
}

/// Whether a row may be read. One past the box that brought the first may be of no use, and its bytes on their way.
bool check_row(const Tile& tile, int row, int block) {
  const int step = tile.transposed ? 2 : 16;
  bool settled = true;
  for (int byte = 0; byte < 32; byte += step) {
    const unsigned char* const at = place(tile.address(row, byte), block);
    if (same_box(place(tile.address(0, byte), block), at))
      emulator_access(at, step, Access::fragment);
    else
      settled = settled && is_settled(at, step);
  }
  return settled;
}

/// Rows of a tile as numbers, [row][element of K]. What may not be read is all ones.
std::vector<double> read_tile(const Tile& tile, int rows, Element element, int block) {
  const int size = bytes_of(element), depth = 32 / size;
  std::vector<double> values(static_cast<size_t>(rows) * depth);
  for (int row = 0; row < rows; ++row) {
    const bool settled = check_row(tile, row, block);
    for (int k = 0; k < depth; ++k) {
      uint32_t word = 0;
      std::memcpy(&word, place(tile.address(row, k * size), block), size);
      values[row * depth + k] = element_of(element, settled ? word : ~0u, 0);
    }
  }
  return values;
}

constexpr int kRows = 64, kWarpgroup = 128;

/// One product of a warpgroup: what each of its threads brought to it.
void multiply(const std::vector<const Product*>& brought, int block) {
  const Product& p = *brought[0];
  const int size = bytes_of(p.element), depth = 32 / size, per_word = 4 / size;
  std::vector<double> a;
  if (p.a.empty()) {
    a = read_tile(Tile(p.a_tile, p.a_transposed, *p.instruction), kRows, p.element, block);
  } else {
    a.resize(kRows * static_cast<size_t>(depth));
    for (int thread = 0; thread < kWarpgroup; ++thread)
      for (int r = 0; r < 4; ++r)
        for (int e = 0; e < per_word; ++e) {
          const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (r & 1);
          const int k = (r >> 1) * 4 * per_word + thread % 4 * per_word + e;
          a[row * depth + k] = element_of(p.element, brought[thread]->a[r], e);
        }
  }
  const std::vector<double> b = read_tile(Tile(p.b_tile, p.b_transposed, *p.instruction), p.columns, p.element, block);
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    const Product& theirs = *brought[thread];
    for (size_t s = 0; s < theirs.sums.size(); ++s) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * static_cast<int>(s >> 1 & 1);
      const int column = static_cast<int>(s / 4 * 8 + s % 2) + thread % 4 * 2;
      double total = 0;
      if (theirs.adds)
        total =
            p.element == Element::s8 ? *static_cast<int32_t*>(theirs.sums[s]) : *static_cast<float*>(theirs.sums[s]);
      const double *x = &a[row * depth], *y = &b[column * depth];
      for (int k = 0; k < depth; ++k) total += x[k] * y[k];
      if (p.element == Element::s8)
        *static_cast<int32_t*>(theirs.sums[s]) = static_cast<int32_t>(static_cast<int64_t>(total));
      else
        *static_cast<float*>(theirs.sums[s]) = static_cast<float>(total);
    }
  }
}

void wait_products(Frame& f, const Instruction& i) {
  Queue& q = mine();
  const uint64_t pending = f.value(i.arguments[0]), goal = q.asked > pending ? q.asked - pending : 0;
  const int group = current_thread() / kWarpgroup, first = group * kWarpgroup;
  auto asked_by_all = [=] {
    for (int thread = first; thread < first + kWarpgroup; ++thread)
      if (products().threads[thread].asked < goal) return false;
    return true;
  };
  wait_until("wgmma.wait_group", asked_by_all);
  const bool makes = q.made < goal;
  while (q.made < goal) {
    const size_t count = q.closed.front().size();
    for (size_t j = 0; j < count; ++j) {
      std::vector<const Product*> brought;
      for (int thread = first; thread < first + kWarpgroup; ++thread) {
        const std::vector<Product>& theirs = products().threads[thread].closed.front();
        if (theirs.size() != count || theirs[j].instruction != q.closed.front()[j].instruction)
          emulator_fail("threads %d and %d of a warpgroup asked for different products", first, thread);
        brought.push_back(&theirs[j]);
      }
      multiply(brought, current_block());
    }
    for (int thread = first; thread < first + kWarpgroup; ++thread) {
      products().threads[thread].closed.pop_front();
      ++products().threads[thread].made;
    }
  }
  Clocks& made = products().made[group];
  if (makes) release(made);
  if (goal > 0) acquire(made);
}

void nothing(Frame&, const Instruction&) {}

}  // namespace

const Instructions& wgmma_instructions() {
  static const Instructions table = {
      {"wgmma.fence", nothing},
      {"wgmma.mma_async", ask},
      {"wgmma.commit_group", close_products},
      {"wgmma.wait_group", wait_products},
  };
  return table;
}

void begin_products(int threads) {
  products().threads.assign(threads, {});
  products().made.assign(threads / kWarpgroup + 1, {});
}

bool products_under_way() {
  return std::any_of(products().threads.begin(), products().threads.end(),
                     [](const Queue& q) { return !q.open.empty() || !q.closed.empty(); });
}

}  // namespace emulator
