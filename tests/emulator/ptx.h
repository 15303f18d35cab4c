// Instructions of inline assembly, as they were read.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

struct Argument {
  enum class Kind { reg, number, address, list } kind = Kind::number;
  int reg = 0;
  uint64_t number = 0;  // or what is added to an address
  std::vector<Argument> items;
};

struct Frame {
  std::vector<uint64_t> registers;
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
  Run run = nullptr;
};

/// The function that runs an instruction of this name; one that fails where there is none.
Run find_instruction(const std::string& name);

}  // namespace emulator
