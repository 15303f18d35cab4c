// What must be done around a fork so that the child finds no lock taken by a thread it does not have, and nothing half
// made by one.
#pragma once

#include <cstdint>
#include <mutex>

namespace gpukit {

/// Locks are taken from the last of these to the first, as every other thread takes them.
enum class ForkOrder : uint8_t {
  leaf,        // mutexes under which no other is taken
  driver,      // the host driver's
  pools,       // of the pools of devices
  user_pools,  // of the pools that users make
  devices,     // held while a device is opened
};

/// `before` runs in the forking thread ahead of the fork, those of the last order first and within an order the last
/// registered one first; then `parent` in the parent and `child` in the child, the other way round. For static
/// initialisers: once threads run, one that registers could wait for a lock that a fork has. Nothing where processes do
/// not fork.
bool at_fork(ForkOrder order, void (*before)(), void (*parent)(), void (*child)());

/// Holds a mutex during forks, as the last that the forking thread takes.
template <std::mutex& (*kMutex)()>
bool hold_at_fork(ForkOrder order = ForkOrder::leaf) {
  return at_fork(
      order, [] { kMutex().lock(); }, [] { kMutex().unlock(); }, [] { kMutex().unlock(); });
}

/// Calls a function whose static would otherwise be made by the first thread that comes. A fork in the middle of that
/// would leave the child waiting for it for ever. For namespace-scope initialisers.
template <auto kFunction>
bool made_at_load() {
  static_cast<void>(kFunction());
  return true;
}

}  // namespace gpukit
