// Arrays that follow from a few numbers, such as roots of unity: made once and kept on their GPU for later calls.
#pragma once

#include <array>
#include <functional>

#include "gpukit/array/array.h"
#include "gpukit/ops/common/workspace.h"

namespace gpukit {

/// What a table is made of; the first number says which family it is of.
using TableKey = std::array<int64_t, 4>;

/// The table of `key` on a GPU, shared by all streams and not to be written. When it is not there yet, `make` submits
/// what fills it, and this waits for that alone. A capture waits for nothing: what is not there is made within it,
/// among the caller's temporaries, with the same bits. Some 128 MiB are kept for each device.
Array kept_table(const TableKey& key, const Dims& shape, DType dtype, Device device, Temporaries& temporaries,
                 const std::function<void(const Array&)>& make);

}  // namespace gpukit
