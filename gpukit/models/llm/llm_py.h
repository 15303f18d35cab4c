// Between the bindings of language models.
#pragma once

#include "gpukit/models/llm/causal_transformer.h"
#include "gpukit/models/llm/model_spec.h"
#include "gpukit/python/bind.h"

namespace gpukit::llm {

using SpecArg = python::Shown<"pygpukit.llm.config.ModelSpec | None">;
using SpecObject = python::ShownObject<"pygpukit.llm.config.ModelSpec">;

/// The fields of a Python ModelSpec.
ModelSpec to_spec(nb::handle value);

/// A vector of int32 from ints of the host. Throws OutOfRangeError naming op for one that does not fit.
std::vector<int32_t> to_ids(const char* op, const char* argument, nb::handle value);

}  // namespace gpukit::llm
