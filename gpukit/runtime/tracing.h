// What a thread does while it traces a function for fusion (ops/fuse): nothing of it may reach a stream.
#pragma once

#include <span>
#include <string>

#include "gpukit/memory/stand_in.h"

namespace gpukit::runtime {

struct Tracing {
  std::string function;      // for messages
  const char* op = nullptr;  // the operation whose result was asked for last
};

/// Of this thread; null: none.
Tracing* tracing();
/// Gives what was there before.
Tracing* set_tracing(Tracing* tracing);
/// Throws Error: `fuse: f: item: waits for the device; ...`.
[[noreturn]] void fail_trace(const Tracing& tracing, const char* op, const std::string& why);
/// The same when this thread traces.
void refuse_in_trace(const char* op, const char* why);
/// Before work is submitted: throws Error when this thread traces, or when one of the uses has no memory.
void check_work(const char* name, std::span<const memory::Use> uses);

}  // namespace gpukit::runtime
