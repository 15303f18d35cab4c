#include "gpukit/python/gil.h"

#include <chrono>
#include <thread>

namespace gpukit::python {

void park() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace gpukit::python
