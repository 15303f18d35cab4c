// First-order recurrences along the rows of a signal.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/common/workspace.h"

namespace gpukit::audio {

/// to[i] = a to[i - 1] + b0 x[i] + b1 x[i - 1], with zeros before the first: row-major float32 [n] or [batch, n] of one
/// shape. `to` may be the very same array as x, and shares no other memory with it.
void one_pole(const char* op, const Array& to, const Array& x, double a, double b0, double b1,
              Temporaries& temporaries);

}  // namespace gpukit::audio
