// The methods of random.Generator that NumPy's has, for the file that binds the class.
#pragma once

#include <nanobind/nanobind.h>

#include "gpukit/ops/random/random.h"

namespace gpukit {

/// NumPy's methods.
void bind_generator_methods(nanobind::class_<random::Generator>& c);

}  // namespace gpukit
