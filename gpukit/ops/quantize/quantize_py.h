// What the bindings of quantised arrays share.
#pragma once

#include "gpukit/ops/quantize/quantize.h"
#include "gpukit/python/bind.h"

namespace gpukit::python {

/// The name of a format, or the dtype of its codes. Throws ArgumentError, DTypeError.
DType to_format(nb::handle value);
/// None (the format's own), 'tensor', 'row', a number of columns, or (rows, columns). Throws ArgumentError.
QuantizeBlock to_block(DType format, nb::handle value);

}  // namespace gpukit::python
