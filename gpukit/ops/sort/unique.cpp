#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/reduce/reduce.h"
#include "gpukit/ops/sort/sort.h"

namespace gpukit {

namespace {

/// The order of a flat array; complex values by their real, then by their imaginary parts.
Array flat_order(const Array& flat) {
  if (!is_complex(flat.dtype())) return argsort(flat);
  const Array by_imag = argsort(imag(flat));
  return take(by_imag, argsort(take(real(flat), by_imag)));
}

/// A flat array in order, and where each run of equal elements starts in it.
struct Runs {
  Array order, sorted, is_start, starts;
};

Runs runs_of(const char* op, const Array& x) {
  check_arithmetic(op, "x", x);
  Runs runs;
  const Array flat = ravel(x);
  runs.order = flat_order(flat);
  runs.sorted = take(flat, runs.order);
  const int64_t size = flat.size();
  runs.is_start = ones({size}, DType::boolean, x.device());
  if (size > 1) {
    const Array rest = runs.is_start.narrow(0, 1, size - 1);
    not_equal(runs.sorted.narrow(0, 1, size - 1), runs.sorted.narrow(0, 0, size - 1), &rest);
  }
  runs.starts = nonzero_coordinates(runs.is_start).select(0, 0);
  return runs;
}

}  // namespace

Unique unique(const Array& x) {
  const Runs runs = runs_of("unique", x);
  Unique found;
  found.values = take(runs.sorted, runs.starts);
  found.indices = take(runs.order, runs.starts);
  const Array run = subtract(cumsum(runs.is_start, 0), 1);
  const Array inverse = empty({x.size()}, DType::int64, x.device());
  if (x.size() > 0) put_along_axis(inverse, runs.order, run);
  found.inverse = inverse.reshape_view(x.shape());
  const Array end = full({1}, x.size(), DType::int64, x.device());
  const int64_t count = runs.starts.size();
  const Array bounds[] = {runs.starts, end};
  const Array edges = concat(bounds);
  found.counts = subtract(edges.narrow(0, 1, count), edges.narrow(0, 0, count));
  return found;
}

Array unique_values(const Array& x) {
  const Runs runs = runs_of("unique_values", x);
  return take(runs.sorted, runs.starts);
}

Array isin(const Array& x, const Array& values, bool invert) {
  check_same_device("isin", x, values);
  const DType dtype = promote("isin", x.dtype(), values.dtype());
  check_arithmetic("isin", "x1", x);
  check_arithmetic("isin", "x2", values);
  if (values.size() == 0) return full(x.shape(), invert, DType::boolean, x.device());
  const Array wanted = astype(x, dtype), flat = ravel(astype(values, dtype));
  Array found;
  if (is_complex(dtype)) {
    found = any(equal(wanted.expand_dims(wanted.ndim()), flat), Dims{-1});
  } else {
    const Array sorted = sort(flat);
    const Array places = minimum(searchsorted(sorted, wanted), flat.size() - 1);
    found = equal(take(sorted, places), wanted);
  }
  return invert ? logical_not(found) : found;
}

}  // namespace gpukit
