#include "gpukit/ops/audio/signal_rows.h"

#include <cmath>
#include <string>

#include "gpukit/base/number_text.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::audio {

void check_signal(const char* op, const char* argument, const Array& x) {
  check_dtype(op, argument, x, DType::float32);
  if (x.ndim() == 0) throw ShapeError(op, argument, "have shape [n] or [..., n]", x.shape().str());
  if (x.shape(-1) == 0) throw ShapeError(op, argument, "have at least one sample", x.shape().str());
}

void check_spectrum(const char* op, const char* argument, const Array& x, int axes, int64_t bins) {
  check_dtype(op, argument, x, DType::float32);
  if (x.ndim() < axes)
    throw ShapeError(op, argument, axes == 1 ? "have shape [..., bins]" : "have shape [..., frames, bins]",
                     x.shape().str());
  if (x.shape(-1) < bins)
    throw ShapeError(op, argument, "have at least " + std::to_string(bins) + (bins == 1 ? " bin" : " bins"),
                     x.shape().str());
}

void check_positive(const char* op, const char* argument, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw ArgumentError(op, argument, "be positive and finite", number_text(value));
}

void check_at_least(const char* op, const char* argument, int64_t value, int64_t least) {
  if (value < least) throw ArgumentError(op, argument, "be at least " + std::to_string(least), std::to_string(value));
}

int64_t count_rows(const Array& x, int kept) {
  int64_t rows = 1;
  for (int i = 0; i < x.ndim() - kept; ++i) rows *= x.shape()[i];
  return rows;
}

Dims with_last(const char* op, const Array& x, int dropped, std::initializer_list<int64_t> last) {
  Dims shape = x.shape();
  for (int i = 0; i < dropped; ++i) shape.erase(shape.rank() - 1);
  if (shape.rank() + static_cast<int>(last.size()) > kMaxRank)
    throw ShapeError(op, "input", "have fewer dimensions", x.shape().str());
  for (const int64_t extent : last) shape.push_back(extent);
  return shape;
}

Array as_rows(const Array& x, Temporaries& temporaries) {
  return contiguous(x, temporaries).reshape_view({count_rows(x, 1), x.shape(-1)});
}

Output::Output(const char* op, const Array* out, const Dims& shape, DType dtype, Device device,
               std::initializer_list<const Array*> inputs, Temporaries& temporaries)
    : target_(result(op, out, shape, dtype, device)), to_(target_) {
  direct_ = target_.is_contiguous();
  if (out != nullptr)
    for (const Array* input : inputs) direct_ = direct_ && !(input->defined() && may_share_memory(target_, *input));
  if (!direct_) to_ = temporaries.empty_like(target_);
}

Array Output::finish() const {
  if (!direct_) copy_into(target_, to_);
  return target_;
}

}  // namespace gpukit::audio
