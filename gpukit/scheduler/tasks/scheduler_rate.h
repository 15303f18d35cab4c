// How fast the scheduler and the admission controller are, on one core.
#pragma once

#include <cstddef>

namespace gpukit::scheduler {

/// Tasks per second from submission to completion, over `count` of them, with `pending` others waiting.
double measure_scheduler(size_t pending, size_t count);
/// Admissions per second, each with its release, over `count` of them, with 1000 tasks admitted.
double measure_admission(size_t count);

}  // namespace gpukit::scheduler
