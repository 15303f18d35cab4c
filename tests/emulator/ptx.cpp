// Inline assembly: each text is read once, then its instructions run one after the other.
#include "tests/emulator/ptx.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/emulator/machine.h"

namespace emulator {
namespace {

constexpr int kNamed = 192;  // registers from here on have names

class Reader {
 public:
  explicit Reader(const char* text) : at_(text) {}

  std::vector<Instruction> read() {
    std::vector<Instruction> program;
    for (;;) {
      skip();
      if (*at_ == '\0') return resolved(std::move(program));
      if (*at_ == '{' || *at_ == '}' || *at_ == ';') {
        ++at_;
        continue;
      }
      Instruction i;
      if (*at_ == '@') {
        ++at_;
        i.negated = *at_ == '!';
        at_ += i.negated;
        i.guard = reg(word());
        skip();
      }
      i.name = word();
      if (i.name == ".reg") {
        declare();
        continue;
      }
      if (i.name.back() == ':') {
        labels_[i.name.substr(0, i.name.size() - 1)] = program.size();
        continue;
      }
      skip();
      if (i.name == "bra") i.label = word();
      while (*at_ != ';' && *at_ != '\0') {
        i.arguments.push_back(argument());
        skip();
        if (*at_ == ',') ++at_;
        skip();
      }
      i.run = find_instruction(i.name);
      program.push_back(std::move(i));
    }
  }

 private:
  std::vector<Instruction> resolved(std::vector<Instruction> program) {
    for (Instruction& i : program) {
      if (i.label.empty()) continue;
      i.arguments = {{Argument::Kind::number, 0, labels_.at(i.label), {}}};
      i.run = [](Frame& f, const Instruction& self) { f.jump = static_cast<int>(self.arguments[0].number); };
    }
    return program;
  }
  void skip() {
    while (*at_ != '\0' && std::strchr(" \t\n\r", *at_) != nullptr) ++at_;
  }
  std::string word() {
    const char* begin = at_;
    while (*at_ != '\0' && std::strchr(" \t\n\r,;{}[]+", *at_) == nullptr) ++at_;
    return {begin, at_};
  }
  void declare() {
    skip();
    word();
    while (*at_ != ';' && *at_ != '\0') {
      skip();
      if (*at_ == ',') ++at_;
      skip();
      reg(word());
      skip();
    }
  }
  int reg(const std::string& name) {
    if (name[0] == '%' && std::isdigit(static_cast<unsigned char>(name[1])) != 0) return std::atoi(name.c_str() + 1);
    return named_.try_emplace(name, kNamed + static_cast<int>(named_.size())).first->second;
  }
  Argument argument() {
    Argument a;
    if (*at_ == '{' || *at_ == '[') {
      const bool list = *at_ == '{';
      const char close = list ? '}' : ']';
      a.kind = list ? Argument::Kind::list : Argument::Kind::address;
      ++at_;
      skip();
      while (*at_ != close && *at_ != '\0') {
        a.items.push_back(argument());
        skip();
        if (*at_ == ',' || *at_ == '+') ++at_;
        skip();
      }
      ++at_;
      if (!list) {
        a.reg = a.items[0].reg;
        a.number = a.items.size() > 1 ? a.items[1].number : 0;
      }
      return a;
    }
    const std::string text = word();
    if (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') {
      if (text.compare(0, 2, "0f") == 0 || text.compare(0, 2, "0F") == 0)
        a.number = std::strtoull(text.c_str() + 2, nullptr, 16);
      else if (text.find('.') != std::string::npos)
        a.number = std::bit_cast<uint32_t>(std::strtof(text.c_str(), nullptr));
      else
        a.number = static_cast<uint64_t>(std::strtoll(text.c_str(), nullptr, 0));
    } else {
      a.kind = Argument::Kind::reg;
      a.reg = reg(text);
    }
    return a;
  }

  const char* at_;
  std::map<std::string, int> named_;
  std::map<std::string, size_t> labels_;
};

}  // namespace

struct Program {
  std::vector<Instruction> instructions;
};

}  // namespace emulator

using namespace emulator;

extern "C" const Program* emulator_assemble(const char* text) {
  static std::mutex mutex;
  static auto* programs = new std::map<std::string, Program>;
  std::lock_guard lock(mutex);
  auto [found, fresh] = programs->try_emplace(text);
  if (fresh) found->second.instructions = Reader(text).read();
  return &found->second;
}

extern "C" void emulator_execute(const Program* program, const Operand* operands, int count) {
  Frame frame;
  frame.registers.assign(kNamed + 16, 0);
  frame.operands = operands;
  for (int k = 0; k < count; ++k) std::memcpy(&frame.registers[k], operands[k].value, operands[k].bytes);
  const std::vector<Instruction>& list = program->instructions;
  for (size_t at = 0; at < list.size(); ++at) {
    const Instruction& i = list[at];
    if (i.guard >= 0 && (frame.registers[i.guard] != 0) == i.negated) continue;
    i.run(frame, i);
    if (frame.jump < 0) continue;
    at = static_cast<size_t>(frame.jump) - 1;
    frame.jump = -1;
  }
  for (int k = 0; k < count; ++k)
    if (operands[k].constraint[0] == '=' || operands[k].constraint[0] == '+')
      std::memcpy(operands[k].value, &frame.registers[k], operands[k].bytes);
}
