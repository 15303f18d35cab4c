// What must be done around a fork so that the child finds no lock taken by a thread it does not have.
#pragma once

#include <mutex>

namespace gpukit {

/// `before` runs in the forking thread ahead of the fork, the last registered one first; then `parent` in the parent
/// and `child` in the child, the first registered one first. Nothing where processes do not fork.
void at_fork(void (*before)(), void (*parent)(), void (*child)());

/// Holds a mutex during forks. For one under which no other is taken, and while the library is being loaded: then it is
/// the last that the forking thread takes, as it is for every other thread.
template <std::mutex& (*kMutex)()>
bool hold_at_fork() {
  at_fork([] { kMutex().lock(); }, [] { kMutex().unlock(); }, [] { kMutex().unlock(); });
  return true;
}

}  // namespace gpukit
