#include "gpukit/runtime/tracing.h"

#include <utility>

#include "gpukit/base/error.h"

namespace gpukit::runtime {

namespace {
constinit thread_local Tracing* t_tracing = nullptr;
}

Tracing* tracing() { return t_tracing; }
Tracing* set_tracing(Tracing* tracing) { return std::exchange(t_tracing, tracing); }

void fail_trace(const Tracing& tracing, const char* op, const std::string& why) {
  throw Error("fuse: " + tracing.function + ": " + op + ": " + why +
              "; a fused function may only call elementwise operations on its arguments");
}

void refuse_in_trace(const char* op, const char* why) {
  if (t_tracing != nullptr) [[unlikely]]
    fail_trace(*t_tracing, op, why);
}

void check_work(const char* name, std::span<const memory::Use> uses) {
  if (t_tracing != nullptr) [[unlikely]]
    fail_trace(*t_tracing, t_tracing->op != nullptr ? t_tracing->op : name, "is not elementwise");
  memory::refuse_stand_ins(name, uses);
}

}  // namespace gpukit::runtime
