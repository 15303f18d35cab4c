// Further distributions, and choices among elements. As in random.h: element i depends on (seed, offset, i) alone, and
// the bits are the same on every device and for any number of threads. All computed in float64.
#pragma once

#include <vector>

#include "gpukit/ops/random/random.h"

namespace gpukit::random {

// float32 (when not given) or float64. Each throws ArgumentError for a parameter out of its range, DTypeError.
Array exponential(const Request& request, double scale = 1.0, const Array* out = nullptr);
/// shape > 0, scale >= 0.
Array gamma(const Request& request, double shape, double scale = 1.0, const Array* out = nullptr);
/// a > 0, b > 0.
Array beta(const Request& request, double a, double b, const Array* out = nullptr);

// Integer dtypes, int64 when not given. A number past the largest of the dtype becomes it.
/// 0 <= mean <= 1e12.
Array poisson(const Request& request, double mean = 1.0, const Array* out = nullptr);
/// Successes of 0 <= n <= 1e12 trials of chance 0 <= p <= 1.
Array binomial(const Request& request, int64_t n, double p, const Array* out = nullptr);
/// Trials up to the first success: 1, 2, ...; 0 < p <= 1.
Array geometric(const Request& request, double p, const Array* out = nullptr);

/// 0 ... n - 1 in a random order: int64.
Array permutation(const Request& request, int64_t n);
/// The slices of `x` along `axis` in a random order.
Array permutation(const Request& request, const Array& x, int64_t axis = 0);
/// The same in place.
void shuffle(const Request& request, const Array& x, int64_t axis = 0);

/// Indices below `n` as int64, of `request.shape`; `p` are chances (they are divided by their sum), equal ones when
/// null. Without `replace` none comes twice. Throws ArgumentError when there are not as many; with `p` waits for the
/// device and throws ArgumentError for negative chances, for a sum of 0, and for too few above 0.
Array choice(const Request& request, int64_t n, bool replace = true, const Array* p = nullptr);

/// A generator for other numbers: `jumps` times 2^40 offsets further on in the same sequence.
State jumped(const State& state, uint64_t jumps);
/// Seeds of `count` independent generators. The next call gives others.
std::vector<uint64_t> spawn(Generator& generator, int64_t count);

}  // namespace gpukit::random
