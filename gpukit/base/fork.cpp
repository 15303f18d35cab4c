#include "gpukit/base/fork.h"

#include <algorithm>
#include <iterator>

#include "gpukit/base/error.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace gpukit {

#if defined(_WIN32)

bool at_fork(ForkOrder, void (*)(), void (*)(), void (*)()) { return true; }

#else

namespace {

struct Entry {
  ForkOrder order;
  void (*before)();
  void (*parent)();
  void (*child)();
};

// Constant-initialised: initialisers of other files use them.
constinit std::mutex g_mutex;
constinit Entry g_entries[32] = {};
constinit size_t g_count = 0;

void before_fork() {
  g_mutex.lock();
  for (size_t i = g_count; i-- > 0;)
    if (g_entries[i].before != nullptr) g_entries[i].before();
}

template <void (*Entry::*kAfter)()>
void after_fork() {
  for (size_t i = 0; i < g_count; ++i)
    if (g_entries[i].*kAfter != nullptr) (g_entries[i].*kAfter)();
  g_mutex.unlock();
}

}  // namespace

bool at_fork(ForkOrder order, void (*before)(), void (*parent)(), void (*child)()) {
  std::lock_guard lock(g_mutex);
  if (g_count == std::size(g_entries)) throw Error("at_fork: the table is full");
  if (g_count == 0) pthread_atfork(before_fork, after_fork<&Entry::parent>, after_fork<&Entry::child>);
  Entry* end = g_entries + g_count++;
  Entry* at = std::upper_bound(g_entries, end, order, [](ForkOrder o, const Entry& entry) { return o < entry.order; });
  std::move_backward(at, end, end + 1);
  *at = {order, before, parent, child};
  return true;
}

#endif

}  // namespace gpukit
