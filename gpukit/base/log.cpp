#include "gpukit/base/log.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/base/fork.h"

namespace gpukit {
namespace {

struct State {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink;
  std::set<std::string, std::less<>> seen;
};

State& state() {
  static State* const leaked = new State;
  return *leaked;
}

std::mutex& state_mutex() { return state().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<state_mutex>();

constexpr int kUnset = -1;
std::atomic<int> g_level{kUnset};
std::atomic<bool> g_has_sink{false};

/// A bad PYGPUKIT_LOG is raised by who configures logging; a message on its way is not the place.
int threshold() noexcept {
  const int level = g_level.load(std::memory_order_relaxed);
  if (level != kUnset) return level;
  int found = static_cast<int>(LogLevel::debug);
  try {
    found = static_cast<int>(env::log_level().value_or(LogLevel::debug));
  } catch (...) {
  }
  g_level.store(found, std::memory_order_relaxed);
  return found;
}

void deliver(LogLevel level, std::string_view message) {
  std::shared_ptr<const LogSink> sink;
  {
    std::lock_guard lock(state().mutex);
    sink = state().sink;
  }
  if (sink) (*sink)(level, message);
}

}  // namespace

const char* name(LogLevel level) {
  constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};
  return kNames[static_cast<int>(level)];
}

void set_log_sink(LogSink sink) {
  auto next = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  std::lock_guard lock(state().mutex);
  g_has_sink.store(next != nullptr, std::memory_order_relaxed);
  state().sink.swap(next);
}

void set_log_level(LogLevel level) { g_level.store(static_cast<int>(level), std::memory_order_relaxed); }

bool log_enabled(LogLevel level) {
  return level != LogLevel::off && g_has_sink.load(std::memory_order_relaxed) && static_cast<int>(level) >= threshold();
}

void log(LogLevel level, std::string_view message) noexcept {
  if (!log_enabled(level)) return;
  try {
    deliver(level, message);
  } catch (...) {
  }
}

void log_once(LogLevel level, std::string_view key, std::string_view message) noexcept {
  if (!log_enabled(level)) return;
  try {
    {
      std::lock_guard lock(state().mutex);
      if (!state().seen.emplace(key).second) return;
    }
    deliver(level, message);
  } catch (...) {
  }
}

}  // namespace gpukit
