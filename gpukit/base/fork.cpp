#include "gpukit/base/fork.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace gpukit {

void at_fork([[maybe_unused]] void (*before)(), [[maybe_unused]] void (*parent)(), [[maybe_unused]] void (*child)()) {
#if !defined(_WIN32)
  pthread_atfork(before, parent, child);
#endif
}

}  // namespace gpukit
