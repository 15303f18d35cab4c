// Signals and spectra as rows, and where their results are computed.
#pragma once

#include <initializer_list>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"

namespace gpukit::audio {

/// [..., n] with at least one sample in a row. Throws DTypeError, ShapeError naming `op`.
void check_signal(const char* op, const char* argument, const Array& x);
/// float32 [..., bins] with at least `bins` of them; [..., frames, bins] for two axes.
void check_spectrum(const char* op, const char* argument, const Array& x, int axes = 1, int64_t bins = 1);
/// Throws ArgumentError naming `op`.
void check_positive(const char* op, const char* argument, double value);
void check_at_least(const char* op, const char* argument, int64_t value, int64_t least);

/// The product of all but the last `kept` extents.
int64_t count_rows(const Array& x, int kept);
/// x.shape without its last `dropped` extents, then `last`. Throws ShapeError naming `op` for more than eight.
Dims with_last(const char* op, const Array& x, int dropped, std::initializer_list<int64_t> last);

/// float32 [rows, n] of [..., n]; row-major, a temporary where x is not.
Array as_rows(const Array& x, Temporaries& temporaries);

/// Where a call computes its result: the result itself where it is row-major and apart from the inputs (undefined ones
/// do not count), else a temporary that finish() copies. The temporaries must live until then.
class Output {
 public:
  Output(const char* op, const Array* out, const Dims& shape, DType dtype, Device device,
         std::initializer_list<const Array*> inputs, Temporaries& temporaries);
  const Array& to() const { return to_; }
  bool empty() const { return target_.size() == 0; }
  Array finish() const;

 private:
  Array target_, to_;
  bool direct_ = true;
};

}  // namespace gpukit::audio
