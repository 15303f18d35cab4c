// NVRTC's entry points over the host compiler.
#include <cstring>
#include <string>
#include <vector>

#include "tests/emulator/compile.h"
#include "tests/emulator/settings.h"

namespace {

struct Program {
  emulator::Source main;
  std::vector<emulator::Source> headers;
  std::vector<std::string> expressions, lowered;
  std::string image, log;
};

constexpr int kSuccess = 0, kCompilation = 6, kNoLoweredName = 10;

int give(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

#define EMULATED extern "C" __attribute__((visibility("default")))

EMULATED int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 0;
  return kSuccess;
}
EMULATED int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return kSuccess;
}
EMULATED int nvrtcGetSupportedArchs(int* archs) {
  *archs = emulator::settings().arch;
  return kSuccess;
}
EMULATED const char* nvrtcGetErrorString(int code) { return code == kCompilation ? "compilation failed" : "an error"; }

EMULATED int nvrtcCreateProgram(Program** program, const char* source, const char* name, int num_headers,
                                const char* const* headers, const char* const* include_names) {
  *program = new Program{{name == nullptr ? "program.cu" : name, source}, {}, {}, {}, {}, {}};
  for (int i = 0; i < num_headers; ++i) (*program)->headers.push_back({include_names[i], headers[i]});
  return kSuccess;
}
EMULATED int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}
EMULATED int nvrtcAddNameExpression(Program* program, const char* expression) {
  program->expressions.push_back(expression);
  return kSuccess;
}
EMULATED int nvrtcCompileProgram(Program* program, int num_options, const char* const* options) {
  const emulator::Compiled made =
      emulator::compile(program->main, program->headers, program->expressions, {options, options + num_options});
  program->log = made.log;
  if (made.library.empty()) return kCompilation;
  program->lowered = made.names;
  program->image = emulator::kImageStart + made.library;
  return kSuccess;
}
EMULATED int nvrtcGetLoweredName(Program* program, const char* expression, const char** lowered) {
  for (size_t i = 0; i < program->lowered.size(); ++i) {
    if (program->expressions[i] != expression) continue;
    *lowered = program->lowered[i].c_str();
    return kSuccess;
  }
  return kNoLoweredName;
}
// With the final zero, which tells the driver where the path ends.
EMULATED int nvrtcGetCUBINSize(Program* program, size_t* bytes) {
  *bytes = program->image.size() + 1;
  return kSuccess;
}
EMULATED int nvrtcGetCUBIN(Program* program, char* cubin) { return give(program->image, cubin); }
EMULATED int nvrtcGetPTXSize(Program*, size_t* bytes) {
  *bytes = 1;
  return kSuccess;
}
EMULATED int nvrtcGetPTX(Program*, char* ptx) { return give("", ptx); }
EMULATED int nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return kSuccess;
}
EMULATED int nvrtcGetProgramLog(Program* program, char* log) { return give(program->log, log); }
