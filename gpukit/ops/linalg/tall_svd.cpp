#include <algorithm>

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/linalg/blocked.h"
#include "gpukit/ops/linalg/blocked_impl.h"
#include "gpukit/ops/linalg/factor_impl.h"
#include "gpukit/ops/matmul/matmul.h"

namespace gpukit::linalg {

bool is_tall(int64_t m, int64_t n) { return std::max(m, n) >= 2 * std::min(m, n) && is_blocked_qr(m, n); }

// x = q r and r = left s right: q left has the left vectors, and what else q has completes them. Of a wide x: of x^H.
void tall_svd(const char* op, const Array& values, const Array& u, const Array& vh, const Array& x) {
  const Array from = as_batch(x);
  const int64_t batch = from.shape(0), m = from.shape(1), n = from.shape(2);
  const int64_t rows = std::max(m, n), side = std::min(m, n);
  const bool wide = m < n, vectors = u.defined();
  Temporaries temporaries(op);
  const auto made = [&](int64_t height, int64_t width) {
    return temporaries.empty({batch, height, width}, x.dtype(), x.device());
  };
  Array tall = from;
  if (wide) {
    tall = made(rows, side);
    GPUKIT_STEP(x, mirror(op, tall, from));
  }
  const int64_t columns = vectors ? (wide ? vh.shape(-2) : u.shape(-1)) : 0, rest = columns - side;
  const Array q = vectors ? made(rows, columns) : Array(), r = made(side, side);
  const Array left = vectors ? made(side, side) : Array(), right = vectors ? made(side, side) : Array();
  blocked_qr(op, q, r, tall);
  const FactorParams square{batch, side, side, side, svd_work(side, side, side, vectors), vectors ? 1 : 0, 0};
  GPUKIT_STEP(x, svd(op, values, left, right, r, square));
  if (!vectors) return;
  const Array to_u = as_batch(u), to_vh = as_batch(vh), first = q.narrow(2, 0, side), others = q.narrow(2, side, rest);
  const MatmulOptions exact{.precision = MatmulPrecision::exact};
  if (wide) {
    const Array product = made(rows, side);
    matmul(first, left, &product, exact);
    GPUKIT_STEP(x, mirror(op, to_vh.narrow(1, 0, side), product));
    if (rest > 0) GPUKIT_STEP(x, mirror(op, to_vh.narrow(1, side, rest), others));
    GPUKIT_STEP(x, mirror(op, to_u, right));
  } else {
    const Array vectors_of_x = to_u.narrow(2, 0, side);
    matmul(first, left, &vectors_of_x, exact);
    if (rest > 0) copy_into(to_u.narrow(2, side, rest), others);
    copy_into(to_vh, right);
  }
}

}  // namespace gpukit::linalg
