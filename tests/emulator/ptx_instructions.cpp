// What each instruction of inline assembly does.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpukit/base/half.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/settings.h"
#include "tests/emulator/threads.h"

namespace emulator {
namespace {

using gpukit::bfloat16;
using gpukit::half;

// Numbers

template <float (*kOf)(float)>
void unary(Frame& f, const Instruction& i) {
  f.set(i.arguments[0], kOf(f.number(i.arguments[1])));
}
float reciprocal(float v) { return 1.0f / v; }
float same_tanh(float v) { return std::tanh(v); }
float flush(float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.0f, v) : v; }
template <float (*kOf)(float)>
float flushed(float v) {
  return flush(kOf(flush(v)));
}
float exp2_of(float v) { return std::exp2(v); }
float log2_of(float v) { return std::log2(v); }
float sqrt_of(float v) { return std::sqrt(v); }

template <typename T>
T from_bits(uint64_t bits) {
  return T{static_cast<uint16_t>(bits)};
}
template <typename T>
uint16_t bits_of(float v) {
  if constexpr (std::is_same_v<T, half>)
    return gpukit::to_half(v).bits;
  else
    return gpukit::to_bfloat16(v).bits;
}

/// A function of two or three, over both halves of a register.
template <typename T, float (*kOf)(float, float, float)>
void pairwise(Frame& f, const Instruction& i) {
  uint64_t result = 0;
  for (int shift : {0, 16}) {
    float v[3] = {};
    for (size_t k = 1; k < i.arguments.size(); ++k)
      v[k - 1] = gpukit::to_float(from_bits<T>(f.value(i.arguments[k]) >> shift));
    result |= uint64_t{bits_of<T>(kOf(v[0], v[1], v[2]))} << shift;
  }
  f.set(i.arguments[0], result);
}
float sum(float a, float b, float) { return a + b; }
float difference(float a, float b, float) { return a - b; }
float product(float a, float b, float) { return a * b; }
float fused(float a, float b, float c) {
  // Exact in double, but for the last rounding, which rounding to odd makes harmless.
  const double exact = static_cast<double>(a) * b;
  const double total = exact + c;
  const double error = std::fma(1.0, exact - total, c);
  double odd = total;
  if (error != 0.0 && (std::bit_cast<uint64_t>(odd) & 1) == 0)
    odd = std::nextafter(odd, error > 0 ? INFINITY : -INFINITY);
  return gpukit::round_to_odd(odd);
}

/// The larger of the magnitudes, with the signs' exclusive or.
float larger_magnitude(float a, float b, float) {
  if (a != a || b != b) return NAN;
  const float larger = std::fmax(std::fabs(a), std::fabs(b));
  return std::signbit(a) != std::signbit(b) ? -larger : larger;
}

template <typename T>
void to_pair(Frame& f, const Instruction& i) {
  f.set(i.arguments[0], uint64_t{bits_of<T>(f.number(i.arguments[1]))} << 16 | bits_of<T>(f.number(i.arguments[2])));
}

/// Two float8 of 16 bits to two halves, and two floats to two float8, the first above the second.
template <typename T>
void from_float8_pair(Frame& f, const Instruction& i) {
  uint64_t result = 0;
  for (int k = 0; k < 2; ++k) {
    const T value{static_cast<uint8_t>(f.value(i.arguments[1]) >> 8 * k)};
    result |= uint64_t{bits_of<half>(gpukit::to_float(value))} << 16 * k;
  }
  f.set(i.arguments[0], result);
}
template <typename T, T (*kOf)(float)>
void to_float8_pair(Frame& f, const Instruction& i) {
  f.set(i.arguments[0], uint64_t{kOf(f.number(i.arguments[1])).bits} << 8 | kOf(f.number(i.arguments[2])).bits);
}

uint32_t tf32_away(uint32_t bits) { return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu; }
uint32_t tf32_even(uint32_t bits) {
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
}

// Memory

void* address(const Instruction& i, const Frame& f, const Argument& a) {
  const uint64_t number = f.value(a);
  if (i.name.find(".shared") != std::string::npos) return emulator_shared_address(static_cast<unsigned>(number));
  return reinterpret_cast<void*>(number);
}

unsigned width(const Instruction& i) {
  const size_t dot = i.name.rfind('.');
  return static_cast<unsigned>(std::atoi(i.name.c_str() + dot + 2)) / 8;
}

}  // namespace

std::vector<Argument> items(const Argument& a) {
  return a.kind == Argument::Kind::list ? a.items : std::vector<Argument>{a};
}

void check_aligned(const void* p, unsigned long bytes, const Instruction& i) {
  if (reinterpret_cast<uintptr_t>(p) % bytes != 0)
    emulator_fail("%s: address %p is not a multiple of %lu", i.name.c_str(), p, bytes);
}

namespace {

void load(Frame& f, const Instruction& i) {
  const auto* from = static_cast<const unsigned char*>(address(i, f, i.arguments[1]));
  const std::vector<Argument> to = items(i.arguments[0]);
  const unsigned each = width(i);
  check_aligned(from, each * to.size(), i);
  emulator_access(from, each * to.size(), Access::read);
  for (const Argument& a : to) {
    uint64_t value = 0;
    std::memcpy(&value, from, each);
    f.set(a, value);
    from += each;
  }
}

void store(Frame& f, const Instruction& i) {
  auto* to = static_cast<unsigned char*>(address(i, f, i.arguments[0]));
  const std::vector<Argument> from = items(i.arguments[1]);
  const unsigned each = width(i);
  check_aligned(to, each * from.size(), i);
  emulator_access(to, each * from.size(), Access::write);
  for (const Argument& a : from) {
    const uint64_t value = f.value(a);
    std::memcpy(to, &value, each);
    to += each;
  }
}

void copy_async(Frame& f, const Instruction& i) {
  void* to = emulator_shared_address(static_cast<unsigned>(f.value(i.arguments[0])));
  const auto* from = reinterpret_cast<const void*>(f.value(i.arguments[1]));
  const auto whole = static_cast<unsigned>(f.value(i.arguments[2]));
  const auto bytes = i.arguments.size() > 3 ? static_cast<unsigned>(f.value(i.arguments[3])) : whole;
  if (bytes > whole) emulator_fail("%s copies %u of %u bytes", i.name.c_str(), bytes, whole);
  check_aligned(to, whole, i);
  check_aligned(from, whole, i);
  emulator_copy_later(to, from, whole, bytes);
}

void count_atomically(Frame& f, const Instruction& i) {
  auto* at = reinterpret_cast<uint32_t*>(f.value(i.arguments[1]));
  emulator_access(at, sizeof *at, Access::atomic);
  f.set(i.arguments[0], uint64_t{*at});
  *at += static_cast<uint32_t>(f.value(i.arguments[2]));
}

// Fragments: g is lane / 4, t is lane % 4.

struct MatrixLoad {
  const uint16_t* row;
  int count;
  bool transposed;
  uint32_t result[4];
  static void finish(void** lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      auto* mine = static_cast<MatrixLoad*>(lanes[lane]);
      if (mine == nullptr) continue;
      const int g = lane / 4, t = lane % 4;
      for (int m = 0; m < mine->count; ++m) {
        auto element = [&](int row, int column) {
          return uint32_t{static_cast<MatrixLoad*>(lanes[m * 8 + row])->row[column]};
        };
        mine->result[m] = mine->transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                                           : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
      }
    }
  }
};

/// The way back, and a matrix transposed in registers.
struct MatrixStore {
  uint16_t* row;
  int count;
  bool transposed;
  uint32_t given[4];
  uint16_t mine[4][8];  // what belongs into this lane's row
  static void finish(void** lanes) {
    for (int m = 0; m < static_cast<MatrixStore*>(lanes[0])->count; ++m)
      for (int lane = 0; lane < 32; ++lane) {
        const auto* from = static_cast<MatrixStore*>(lanes[lane]);
        for (int e = 0; e < 2; ++e) {
          int row = lane / 4, column = lane % 4 * 2 + e;
          if (from->transposed) std::swap(row, column);
          static_cast<MatrixStore*>(lanes[m * 8 + row])->mine[m][column] =
              static_cast<uint16_t>(from->given[m] >> 16 * e);
        }
      }
  }
};

void store_matrices(Frame& f, const Instruction& i) {
  const std::vector<Argument> from = items(i.arguments[1]);
  MatrixStore mine{static_cast<uint16_t*>(address(i, f, i.arguments[0])),
                   static_cast<int>(from.size()),
                   i.name.find(".trans") != std::string::npos,
                   {},
                   {}};
  for (size_t k = 0; k < from.size(); ++k) mine.given[k] = static_cast<uint32_t>(f.value(from[k]));
  emulator_meet(i.name.c_str(), 0xffffffffu, &mine, MatrixStore::finish, false);
  const int lane = current_lane();
  if (lane >= 8 * mine.count) return;
  check_aligned(mine.row, 16, i);
  emulator_access(mine.row, 16, Access::write);
  std::memcpy(mine.row, mine.mine[lane / 8], 16);
}

struct MatrixMove {
  uint32_t given, result;
  static void finish(void** lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      auto element = [&](int row, int column) {
        return static_cast<MatrixMove*>(lanes[row * 4 + column / 2])->given >> 16 * (column % 2) & 0xffffu;
      };
      static_cast<MatrixMove*>(lanes[lane])->result =
          element(lane % 4 * 2, lane / 4) | element(lane % 4 * 2 + 1, lane / 4) << 16;
    }
  }
};

void move_matrix(Frame& f, const Instruction& i) {
  MatrixMove mine{static_cast<uint32_t>(f.value(i.arguments[1])), 0};
  emulator_meet(i.name.c_str(), 0xffffffffu, &mine, MatrixMove::finish, false);
  f.set(i.arguments[0], uint64_t{mine.result});
}

void load_matrices(Frame& f, const Instruction& i) {
  const std::vector<Argument> to = items(i.arguments[0]);
  MatrixLoad mine{static_cast<const uint16_t*>(address(i, f, i.arguments[1])),
                  static_cast<int>(to.size()),
                  i.name.find(".trans") != std::string::npos,
                  {}};
  if (current_lane() < 8 * mine.count) {
    check_aligned(mine.row, 16, i);
    emulator_access(mine.row, 16, Access::fragment);
  }
  emulator_meet(i.name.c_str(), 0xffffffffu, &mine, MatrixLoad::finish, false);
  for (size_t k = 0; k < to.size(); ++k) f.set(to[k], uint64_t{mine.result[k]});
}

}  // namespace

double element_of(Element element, uint32_t word, int index) {
  switch (element) {
    case Element::f16: return gpukit::to_float(half{static_cast<uint16_t>(word >> 16 * index)});
    case Element::bf16: return gpukit::to_float(bfloat16{static_cast<uint16_t>(word >> 16 * index)});
    case Element::tf32: return std::bit_cast<float>(word & ~0x1fffu);
    case Element::s8: return static_cast<int8_t>(word >> 8 * index);
    case Element::e4m3: return gpukit::to_float(gpukit::float8_e4m3{static_cast<uint8_t>(word >> 8 * index)});
    case Element::e5m2: return gpukit::to_float(gpukit::float8_e5m2{static_cast<uint8_t>(word >> 8 * index)});
  }
  return 0;
}

namespace {

struct Multiply {
  Element element;
  int a_count, b_count;
  uint32_t a[4], b[2], c[4];
  uint32_t result[4];
  static void finish(void** lanes) {
    const auto* any = static_cast<Multiply*>(lanes[0]);
    const bool whole_numbers = any->element == Element::s8;
    const int per = any->element == Element::tf32                                   ? 1
                    : any->element == Element::f16 || any->element == Element::bf16 ? 2
                                                                                    : 4;
    double a[16][32] = {}, b[32][8] = {};
    for (int lane = 0; lane < 32; ++lane) {
      const auto* mine = static_cast<Multiply*>(lanes[lane]);
      const int g = lane / 4, t = lane % 4;
      for (int r = 0; r < mine->a_count; ++r)
        for (int e = 0; e < per; ++e)
          a[g + 8 * (r & 1)][(r >> 1) * 4 * per + t * per + e] = element_of(any->element, mine->a[r], e);
      for (int r = 0; r < mine->b_count; ++r)
        for (int e = 0; e < per; ++e) b[r * 4 * per + t * per + e][g] = element_of(any->element, mine->b[r], e);
    }
    const int depth = any->b_count * 4 * per;
    for (int lane = 0; lane < 32; ++lane) {
      auto* mine = static_cast<Multiply*>(lanes[lane]);
      for (int r = 0; r < 4; ++r) {
        const int row = lane / 4 + 8 * (r >> 1), column = lane % 4 * 2 + (r & 1);
        double total = whole_numbers ? static_cast<double>(static_cast<int32_t>(mine->c[r]))
                                     : static_cast<double>(std::bit_cast<float>(mine->c[r]));
        for (int k = 0; k < depth; ++k) total += a[row][k] * b[k][column];
        mine->result[r] = whole_numbers ? static_cast<uint32_t>(static_cast<int64_t>(total))
                                        : std::bit_cast<uint32_t>(static_cast<float>(total));
      }
    }
  }
};

void multiply(Frame& f, const Instruction& i) {
  static const std::pair<const char*, Element> kElements[] = {
      {".f32.f16.f16.f32", Element::f16}, {".f32.bf16.bf16.f32", Element::bf16}, {".f32.tf32.tf32.f32", Element::tf32},
      {".s32.s8.s8.s32", Element::s8},    {".f32.e4m3.e4m3.f32", Element::e4m3}, {".f32.e5m2.e5m2.f32", Element::e5m2}};
  Multiply mine{};
  bool known = i.name.find(".m16n8k") != std::string::npos;
  bool found = false;
  for (const auto& [types, element] : kElements) {
    if (i.name.find(types) == std::string::npos) continue;
    mine.element = element;
    found = true;
  }
  if (!known || !found) emulator_fail("%s is not emulated", i.name.c_str());
  auto fetch = [&](const Argument& from, uint32_t* to) {
    const std::vector<Argument> list = items(from);
    for (size_t k = 0; k < list.size(); ++k) to[k] = static_cast<uint32_t>(f.value(list[k]));
    return static_cast<int>(list.size());
  };
  mine.a_count = fetch(i.arguments[1], mine.a);
  mine.b_count = fetch(i.arguments[2], mine.b);
  fetch(i.arguments[3], mine.c);
  emulator_meet(i.name.c_str(), 0xffffffffu, &mine, Multiply::finish, false);
  const std::vector<Argument> to = items(i.arguments[0]);
  for (size_t k = 0; k < to.size(); ++k) f.set(to[k], uint64_t{mine.result[k]});
}

/// Registers of 64 and 32 bits may be given as two halves, the low one first.
void move(Frame& f, const Instruction& i) {
  const std::vector<Argument> to = items(i.arguments[0]), from = items(i.arguments[1]);
  if (to.size() == 1 && from.size() == 1) return f.set(to[0], f.value(from[0]));
  const int bits = i.name == "mov.b64" ? 32 : i.name == "mov.b32" ? 16 : 0;  // of a half
  if (bits == 0 || to.size() + from.size() != 3)
    emulator_fail("%s: %zu parts from %zu", i.name.c_str(), to.size(), from.size());
  const uint64_t mask = (uint64_t{1} << bits) - 1, low = f.value(from[0]) & mask;
  const uint64_t value = from.size() == 2 ? low | (f.value(from[1]) & mask) << bits : f.value(from[0]);
  f.set(to[0], to.size() == 2 ? low : value);
  if (to.size() == 2) f.set(to[1], value >> bits & mask);
}

// Which function runs an instruction; the longest beginning counts.

const Instructions& instructions() {
  static const Instructions table = {
      {"mov", move},
      {"setp.ne.b32",
       [](Frame& f, const Instruction& i) {
         f.set(i.arguments[0], uint64_t{static_cast<uint32_t>(f.value(i.arguments[1])) !=
                                        static_cast<uint32_t>(f.value(i.arguments[2]))});
       }},
      {"and.b32",
       [](Frame& f, const Instruction& i) {
         f.set(i.arguments[0], f.value(i.arguments[1]) & f.value(i.arguments[2]) & 0xffffffffu);
       }},
      {"lop3.b32",
       [](Frame& f, const Instruction& i) {
         const uint64_t table = f.value(i.arguments[4]);
         uint64_t result = 0;
         for (int bit = 0; bit < 32; ++bit) {
           auto at = [&](int k) { return f.value(i.arguments[k]) >> bit & 1; };
           result |= (table >> (at(1) * 4 + at(2) * 2 + at(3)) & 1) << bit;
         }
         f.set(i.arguments[0], result);
       }},
      {"cvt.f32.f16",
       [](Frame& f, const Instruction& i) {
         f.set(i.arguments[0], gpukit::to_float(from_bits<half>(f.value(i.arguments[1]))));
       }},
      {"cvt.rn.f16.f32",
       [](Frame& f, const Instruction& i) {
         f.set(i.arguments[0], uint64_t{bits_of<half>(f.number(i.arguments[1]))});
       }},
      {"cvt.rn.bf16.f32",
       [](Frame& f, const Instruction& i) {
         f.set(i.arguments[0], uint64_t{bits_of<bfloat16>(f.number(i.arguments[1]))});
       }},
      {"cvt.rn.tf32.f32",
       [](Frame& f, const Instruction& i) {
         f.set(i.arguments[0], uint64_t{tf32_even(static_cast<uint32_t>(f.value(i.arguments[1])))});
       }},
      {"cvt.rna.tf32.f32",
       [](Frame& f, const Instruction& i) {
         f.set(i.arguments[0], uint64_t{tf32_away(static_cast<uint32_t>(f.value(i.arguments[1])))});
       }},
      {"cvt.rn.f16x2.f32", to_pair<half>},
      {"cvt.rn.bf16x2.f32", to_pair<bfloat16>},
      {"cvt.rn.f16x2.e4m3x2", from_float8_pair<gpukit::float8_e4m3>},
      {"cvt.rn.f16x2.e5m2x2", from_float8_pair<gpukit::float8_e5m2>},
      {"cvt.rn.satfinite.e4m3x2.f32", to_float8_pair<gpukit::float8_e4m3, gpukit::to_float8_e4m3>},
      {"cvt.rn.satfinite.e5m2x2.f32", to_float8_pair<gpukit::float8_e5m2, gpukit::to_float8_e5m2>},
      {"add.rn.f16x2", pairwise<half, sum>},
      {"mul.rn.f16x2", pairwise<half, product>},
      {"fma.rn.f16x2", pairwise<half, fused>},
      {"sub.rn.bf16x2", pairwise<bfloat16, difference>},
      {"fma.rn.bf16x2", pairwise<bfloat16, fused>},
      {"max.NaN.xorsign.abs.bf16x2", pairwise<bfloat16, larger_magnitude>},
      {"max.NaN.f32",
       [](Frame& f, const Instruction& i) {
         const float a = f.number(i.arguments[1]), b = f.number(i.arguments[2]);
         f.set(i.arguments[0], a != a || b != b ? std::bit_cast<float>(0x7fffffffu) : std::fmax(a, b));
       }},
      {"min.NaN.f32",
       [](Frame& f, const Instruction& i) {
         const float a = f.number(i.arguments[1]), b = f.number(i.arguments[2]);
         f.set(i.arguments[0], a != a || b != b ? std::bit_cast<float>(0x7fffffffu) : std::fmin(a, b));
       }},
      {"ex2.approx.f32", unary<exp2_of>},
      {"lg2.approx.f32", unary<log2_of>},
      {"rcp.approx.f32", unary<reciprocal>},
      {"sqrt.approx.f32", unary<sqrt_of>},
      {"tanh.approx.f32", unary<same_tanh>},
      {"ex2.approx.ftz.f32", unary<flushed<exp2_of>>},
      {"lg2.approx.ftz.f32", unary<flushed<log2_of>>},
      {"rcp.approx.ftz.f32", unary<flushed<reciprocal>>},
      {"sqrt.approx.ftz.f32", unary<flushed<sqrt_of>>},
      {"rcp.approx.ftz.f64",
       [](Frame& f, const Instruction& i) {
         // The upper half of the result is good to 20 bits, the lower is zero.
         const double exact = 1.0 / std::bit_cast<double>(f.value(i.arguments[1]));
         f.set(i.arguments[0], std::bit_cast<uint64_t>(exact) & 0xffffffff00000000u);
       }},
      {"ld.", load},
      {"st.", store},
      {"cp.async.cg", copy_async},
      {"cp.async.ca", copy_async},
      {"cp.async.commit_group", [](Frame&, const Instruction&) { emulator_close_copies(); }},
      {"cp.async.wait_group",
       [](Frame& f, const Instruction& i) { emulator_wait_copies(static_cast<unsigned>(f.value(i.arguments[0]))); }},
      {"cp.async.wait_all",
       [](Frame&, const Instruction&) {
         emulator_close_copies();
         emulator_wait_copies(0);
       }},
      {"prefetch", [](Frame&, const Instruction&) {}},
      {"createpolicy", [](Frame& f, const Instruction& i) { f.set(i.arguments[0], uint64_t{0}); }},
      {"atom.acq_rel.gpu.global.add.u32", count_atomically},
      {"ldmatrix.sync.aligned.m8n8", load_matrices},
      {"stmatrix.sync.aligned.m8n8", store_matrices},
      {"movmatrix.sync.aligned.m8n8.trans.b16", move_matrix},
      {"mma.sync.aligned", multiply},
  };
  return table;
}

void not_emulated(Frame&, const Instruction& i) { emulator_fail("%s is not emulated", i.name.c_str()); }

}  // namespace

Run find_instruction(const std::string& name) {
  static const bool hopper = settings().arch >= 90;
  for (size_t length = name.size(); length > 0; --length)
    for (const Instructions* table : {&instructions(), &hopper_instructions(), &wgmma_instructions()})
      if (auto found = table->find(name.substr(0, length));
          found != table->end() && (hopper || table == &instructions()))
        return found->second;
  return not_emulated;
}

}  // namespace emulator
