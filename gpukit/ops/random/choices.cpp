// Random orders and choices, by the operations that sort and take: the same on every device.
#include <limits>
#include <string>

#include "gpukit/array/host.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/random/distributions.h"
#include "gpukit/ops/reduce/reduce.h"
#include "gpukit/ops/sort/sort.h"

namespace gpukit::random {
namespace {

Request like(const Request& request, const Dims& shape, DType dtype) {
  Request other = request;
  other.shape = shape;
  other.dtype = dtype;
  return other;
}

double number(const char* op, const Array& x) {
  double value = 0;
  to_host(&value, x, op);
  return value;
}

/// Chances as float64, checked; the running sum of them divided by the whole.
struct Chances {
  Array each, sums;
  Chances(const char* op, int64_t n, const Array& p) {
    if (p.ndim() != 1 || p.size() != n)
      throw ShapeError(op, "p", "have one number for each of the " + std::to_string(n) + " elements", p.shape().str());
    if (is_complex(p.dtype())) throw DTypeError(op, "p", "have a real dtype", name(p.dtype()));
    each = contiguous(astype(p, DType::float64));
    if (n == 0) return;
    const double least = number(op, min(each)), whole = number(op, sum(each));
    if (!(least >= 0)) throw ArgumentError(op, "p", "not be negative", std::to_string(least));
    if (!(whole > 0 && whole <= std::numeric_limits<double>::max()))
      throw ArgumentError(op, "p", "have a finite sum above 0", std::to_string(whole));
    const Array running = cumsum(each);
    sums = divide(running, running.narrow(0, n - 1, 1));  // the last one is 1
  }
};

}  // namespace

Array permutation(const Request& request, int64_t n) {
  if (n < 0) throw ArgumentError("random.permutation", "x", "not be negative", std::to_string(n));
  const Array keys = randint(like(request, {n}, DType::int64), std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max());
  return argsort(keys);
}

Array permutation(const Request& request, const Array& x, int64_t axis) {
  if (x.ndim() == 0) throw ShapeError("random.permutation", "x", "have at least one axis", "a 0-d array");
  Request on_device = request;
  on_device.device = x.device();
  return take(x, permutation(on_device, x.shape(static_cast<int>(axis))), axis);
}

void shuffle(const Request& request, const Array& x, int64_t axis) {
  if (x.ndim() == 0) throw ShapeError("random.shuffle", "x", "have at least one axis", "a 0-d array");
  copy_into(x, permutation(request, x, axis));
}

Array choice(const Request& request, int64_t n, bool replace, const Array* p) {
  constexpr const char* kOp = "random.choice";
  int64_t count = 1;
  for (int i = 0; i < request.shape.rank(); ++i) count *= request.shape[i];
  if (n < 0 || (n == 0 && count > 0)) throw ArgumentError(kOp, "a", "have at least one element", std::to_string(n));
  if (!replace && count > n)
    throw ArgumentError(kOp, "size", "be at most the " + std::to_string(n) + " elements there are without replace",
                        std::to_string(count));
  const Request whole = like(request, request.shape, DType::int64);
  if (count == 0) return randint(whole, 0, 1);
  if (p == nullptr && replace) return randint(whole, 0, n);
  Array drawn;
  if (p == nullptr) {
    drawn = permutation(request, n).narrow(0, 0, count);
  } else {
    const Chances chances(kOp, n, *p);
    Request on_device = request;
    on_device.device = p->device();
    if (replace) {
      const Array u = uniform(like(on_device, request.shape, DType::float64));
      const Array places = searchsorted(chances.sums, u, true);
      drawn = minimum(places, n - 1);
    } else {
      const Array possible = sum(greater(chances.each, 0));
      int64_t num_possible = 0;
      to_host(&num_possible, possible, kOp);
      if (num_possible < count)
        throw ArgumentError(kOp, "p", "have at least " + std::to_string(count) + " chances above 0",
                            std::to_string(num_possible));
      // The smallest of exponential waiting times, each divided by its chance, come in the order of such draws.
      const Array waits = exponential(like(on_device, {n}, DType::float64));
      drawn = argsort(divide(waits, chances.each)).narrow(0, 0, count);
    }
  }
  return copy(drawn.reshape_view(request.shape));
}

}  // namespace gpukit::random
