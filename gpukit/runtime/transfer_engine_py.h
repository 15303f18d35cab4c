// Python's transfer classes: what the bindings share.
#pragma once

#include <string>

#include "gpukit/python/bind.h"
#include "gpukit/runtime/transfer_engine.h"

namespace gpukit::python {

/// A value with class attributes of its own class: TransferType.H2D.
template <typename E>
struct Named {
  E value;
  friend bool operator==(const Named&, const Named&) = default;
};
using TransferTypeObject = Named<runtime::TransferType>;
using TransferStateObject = Named<runtime::TransferState>;

/// A snapshot of one transfer.
struct TransferOpObject {
  runtime::TransferRecord record;
};

inline double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace gpukit::python
