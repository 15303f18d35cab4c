// Complex arrays that Python may see as pairs of float32.
#pragma once

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/python/bind.h"

namespace gpukit::python {

/// complex64 [...] as float32 [..., 2], the same memory.
inline Array as_pairs(const Array& x) {
  Dims shape = x.shape();
  shape.push_back(2);
  return x.bitcast(DType::float32).reshape_view(shape);
}

inline bool is_pairs(const Array& x) { return x.dtype() == DType::float32 && x.ndim() > 1 && x.shape(-1) == 2; }

/// complex64 as it is, pairs as complex64.
inline Array to_complex(const char* op, const char* argument, const Array& x, Temporaries& temporaries) {
  if (is_pairs(x)) return contiguous(x, temporaries).bitcast(DType::complex64).squeeze(-1);
  if (x.dtype() != DType::complex64) unsupported_dtype(op, argument, x.dtype(), "be complex64, or float32 [..., 2]");
  return x;
}

/// The result of f(const Array* out), which is complex64, as pairs unless it is wanted complex.
template <typename F>
ArrayObject with_pairs(const char* op, nb::handle out, bool complex, F&& f) {
  return with_out(op, out, [&](const Array* target) {
    if (target == nullptr) {
      const Array made = f(nullptr);
      return complex ? made : as_pairs(made);
    }
    if (!is_pairs(*target)) return f(target);
    Temporaries temporaries(op);
    const bool direct = target->is_contiguous();
    const Array pairs = direct ? *target : temporaries.empty_like(*target);
    const Array numbers = pairs.bitcast(DType::complex64).squeeze(-1);
    f(&numbers);
    if (!direct) copy_into(*target, pairs);
    return *target;
  });
}

}  // namespace gpukit::python
