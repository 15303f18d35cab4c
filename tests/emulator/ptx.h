// Instructions of inline assembly, as they were read.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/emulator/machine.h"

namespace emulator {

struct Argument {
  enum class Kind { reg, number, address, list } kind = Kind::number;
  int reg = 0;
  uint64_t number = 0;  // or what is added to an address
  std::vector<Argument> items;
};

struct Frame {
  std::vector<uint64_t> registers;
  const Operand* operands = nullptr;  // where registers come from and go to
  int jump = -1;                      // the instruction to go on with
  uint64_t value(const Argument& a) const {
    if (a.kind == Argument::Kind::number) return a.number;
    return registers[a.reg] + (a.kind == Argument::Kind::address ? a.number : 0);
  }
  void set(const Argument& a, uint64_t value) { registers[a.reg] = value; }
  float number(const Argument& a) const { return std::bit_cast<float>(static_cast<uint32_t>(value(a))); }
  void set(const Argument& a, float value) { set(a, uint64_t{std::bit_cast<uint32_t>(value)}); }
};

struct Instruction;
using Run = void (*)(Frame&, const Instruction&);

struct Instruction {
  std::string name;
  int guard = -1;
  bool negated = false;
  std::vector<Argument> arguments;
  std::string label;  // of a branch
  Run run = nullptr;
};

/// What an argument names one by one: itself, or the items of its list.
std::vector<Argument> items(const Argument& a);
/// Fails where `p` is not a multiple of `bytes`.
void check_aligned(const void* p, unsigned long bytes, const Instruction& i);

/// A 16-bit (or other) element of a word of a fragment.
enum class Element { f16, bf16, tf32, s8, e4m3, e5m2 };
double element_of(Element element, uint32_t word, int index);

/// By the beginning of the name.
using Instructions = std::map<std::string, Run>;
/// Those of sm_90: barriers and copies; products.
const Instructions& hopper_instructions();
const Instructions& wgmma_instructions();

/// The function that runs an instruction of this name; one that fails where there is none.
Run find_instruction(const std::string& name);

}  // namespace emulator
