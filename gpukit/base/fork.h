// What must be done around a fork so that the child finds no lock taken by a thread it does not have.
#pragma once

namespace gpukit {

/// `before` runs in the forking thread ahead of the fork, the last registered one first; then `parent` in the parent
/// and `child` in the child, the first registered one first. Nothing where processes do not fork.
void at_fork(void (*before)(), void (*parent)(), void (*child)());

}  // namespace gpukit
