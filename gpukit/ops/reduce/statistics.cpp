#include "gpukit/ops/reduce/statistics.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/sort/sort.h"

namespace gpukit {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool has_nan(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

/// float32 for 16-bit floats, float64 for integers and bool.
DType working_dtype(DType dtype) {
  if (is_integer(dtype) || dtype == DType::boolean) return DType::float64;
  return dtype == DType::float16 || dtype == DType::bfloat16 ? DType::float32 : dtype;
}

/// The dtype of a mean.
DType mean_dtype(DType dtype) { return is_integer(dtype) || dtype == DType::boolean ? DType::float64 : dtype; }

Array without_nan(const Array& x, double instead) { return where(isnan(x), instead, x); }

Array count_numbers(const Array& x, const Axes& axes, bool keepdims) {
  return sum(has_nan(x.dtype()) ? logical_not(isnan(x)) : ones_like(x, DType::boolean), axes, keepdims);
}

Array nan_extreme(const Array& x, const Axes& axes, bool keepdims, bool largest) {
  const auto reduce = largest ? &max : &min;
  if (!has_nan(x.dtype())) return reduce(x, axes, keepdims, nullptr);
  const Array found = reduce(without_nan(x, largest ? -kInfinity : kInfinity), axes, keepdims, nullptr);
  return where(all(isnan(x), axes, keepdims), kNan, found);
}

using Scan = Array (*)(const Array&, std::optional<int64_t>, std::optional<DType>, const Array*);

Array cumulative(const char* op, Scan scan, int initial, const Array& x, std::optional<int64_t> axis,
                 std::optional<DType> dtype, bool include_initial) {
  if (!axis && x.ndim() != 1)
    throw ArgumentError(op, "axis", "be given for an array of " + std::to_string(x.ndim()) + " dimensions", "None");
  const int along = normalize_axis(op, axis.value_or(0), x.ndim());
  if (!include_initial) return scan(x, along, dtype, nullptr);
  const Array running = scan(x, along, dtype, nullptr);
  Dims first = x.shape();
  first[along] = 1;
  const Array parts[] = {full(first, initial, running.dtype(), x.device()), running};
  return concat(parts, along);
}

/// Counts between neighbouring places of a sorted array.
Array between(const Array& places) {
  const int64_t count = places.size() - 1;
  return subtract(places.narrow(0, 1, count), places.narrow(0, 0, count));
}

}  // namespace

Array count_nonzero(const Array& x, const Axes& axes, bool keepdims) {
  return sum(astype(x, DType::boolean), axes, keepdims);
}

Array cumulative_sum(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype, bool include_initial) {
  return cumulative("cumulative_sum", &cumsum, 0, x, axis, dtype, include_initial);
}
Array cumulative_prod(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype, bool include_initial) {
  return cumulative("cumulative_prod", &cumprod, 1, x, axis, dtype, include_initial);
}

Array diff(const Array& x, int64_t axis, int64_t n, const Array* prepend, const Array* append) {
  if (n < 0) throw ArgumentError("diff", "n", "not be negative", std::to_string(n));
  if (x.ndim() == 0) throw ShapeError("diff", "x", "have at least one dimension", "a 0-d array");
  const int along = normalize_axis("diff", axis, x.ndim());
  Array result = x;
  if (prepend != nullptr || append != nullptr) {
    std::vector<Array> parts;
    if (prepend != nullptr) parts.push_back(*prepend);
    parts.push_back(x);
    if (append != nullptr) parts.push_back(*append);
    result = concat(parts, along);
  }
  if (n == 0) return copy(result);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = result.shape(along);
    const Array next = result.narrow(along, length > 0 ? 1 : 0, length > 0 ? length - 1 : 0);
    const Array here = result.narrow(along, 0, length > 0 ? length - 1 : 0);
    result = result.dtype() == DType::boolean ? not_equal(next, here) : subtract(next, here);
  }
  return result;
}

Array nansum(const Array& x, const Axes& axes, bool keepdims) {
  return sum(has_nan(x.dtype()) ? without_nan(x, 0) : x, axes, keepdims);
}
Array nanprod(const Array& x, const Axes& axes, bool keepdims) {
  return prod(has_nan(x.dtype()) ? without_nan(x, 1) : x, axes, keepdims);
}
Array nanmax(const Array& x, const Axes& axes, bool keepdims) { return nan_extreme(x, axes, keepdims, true); }
Array nanmin(const Array& x, const Axes& axes, bool keepdims) { return nan_extreme(x, axes, keepdims, false); }

Array nanmean(const Array& x, const Axes& axes, bool keepdims) {
  if (!has_nan(x.dtype())) return mean(x, axes, keepdims);
  const DType dtype = working_dtype(x.dtype());
  const Array count = astype(count_numbers(x, axes, keepdims), real_of(dtype));
  return astype(divide(nansum(astype(x, dtype), axes, keepdims), count), x.dtype());
}

Array nanvar(const Array& x, const Axes& axes, double correction, bool keepdims) {
  if (!has_nan(x.dtype())) return var(x, axes, correction, keepdims);
  if (is_complex(x.dtype())) unsupported_dtype("nanvar", "a", x.dtype(), "have a real dtype");
  const Array wide = astype(x, working_dtype(x.dtype()));
  const Array squares = square(subtract(wide, nanmean(wide, axes, true)));
  const Array count = astype(count_numbers(x, axes, keepdims), wide.dtype());
  const Array left = maximum(subtract(count, correction), 0);
  return astype(divide(nansum(squares, axes, keepdims), left), x.dtype());
}
Array nanstd(const Array& x, const Axes& axes, double correction, bool keepdims) {
  return sqrt(nanvar(x, axes, correction, keepdims));
}

QuantileMethod quantile_method(const char* op, std::string_view name) {
  constexpr std::string_view kNames[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  for (int i = 0; i < 5; ++i)
    if (name == kNames[i]) return static_cast<QuantileMethod>(i);
  throw ArgumentError(op, "method", "be linear, lower, higher, midpoint or nearest", std::string(name));
}

namespace {

/// Where the part lies between the first and the last of the elements.
double place_of(double part, int64_t length, QuantileMethod method) {
  const double place = part * static_cast<double>(length - 1), below = std::floor(place);
  switch (method) {
    case QuantileMethod::linear: return place;
    case QuantileMethod::lower: return below;
    case QuantileMethod::higher: return std::ceil(place);
    case QuantileMethod::midpoint: return place == below ? place : below + 0.5;
    case QuantileMethod::nearest: return std::nearbyint(place);
  }
  return place;
}

void check_part(const char* op, double part) {
  if (!(part >= 0 && part <= 1)) throw ArgumentError(op, "q", "lie between 0 and 1", std::to_string(part));
}

/// A result along the last axis of rows, as the reduction of `x` over `axis`.
Array kept(const char* op, const Array& value, const Array& x, std::optional<int64_t> axis, bool keepdims) {
  if (!keepdims) return value;
  return axis ? value.expand_dims(normalize_axis(op, *axis, x.ndim())) : value.reshape_view(Dims::filled(x.ndim(), 1));
}

}  // namespace

Array quantile(const Array& x, std::span<const double> q, std::optional<int64_t> axis, bool keepdims,
               QuantileMethod method) {
  constexpr const char* kOp = "quantile";
  check_arithmetic(kOp, "x", x);
  if (is_complex(x.dtype())) unsupported_dtype(kOp, "x", x.dtype(), "have a real dtype");
  const Array rows = axis ? moveaxis(x, {*axis}, {-1}) : ravel(x);
  const int64_t length = rows.shape(-1);
  if (length == 0) throw ArgumentError(kOp, "x", "have at least one element along the axis", x.shape().str());
  const DType dtype = working_dtype(x.dtype());
  const Array sorted = astype(sort(rows, -1), dtype);
  const auto at = [&](double place) { return sorted.select(-1, static_cast<int64_t>(place)); };
  const Array spoilt = isnan(at(static_cast<double>(length - 1)));
  std::vector<Array> found;
  for (double part : q) {
    check_part(kOp, part);
    const double place = place_of(part, length, method), below = std::floor(place), share = place - below;
    Array value = at(below);
    if (share > 0) {
      const Array above = at(below + 1), step = subtract(above, value);
      value = share < 0.5 ? add(value, multiply(step, share)) : subtract(above, multiply(step, 1 - share));
    }
    value = astype(where(spoilt, kNan, value), mean_dtype(x.dtype()));
    found.push_back(kept(kOp, value, x, axis, keepdims));
  }
  return stack(found);
}

Array nanquantile(const Array& x, std::span<const double> q, std::optional<int64_t> axis, bool keepdims,
                  QuantileMethod method) {
  constexpr const char* kOp = "nanquantile";
  if (!has_nan(x.dtype()) || is_complex(x.dtype())) return quantile(x, q, axis, keepdims, method);
  const Array rows = axis ? moveaxis(x, {*axis}, {-1}) : ravel(x);
  if (rows.shape(-1) == 0) throw ArgumentError(kOp, "x", "have at least one element along the axis", x.shape().str());
  const DType dtype = working_dtype(x.dtype());
  const Array sorted = astype(sort(rows, -1), dtype);
  const Array last = maximum(subtract(count_numbers(rows, Dims{-1}, true), 1), 0);
  const auto at = [&](const Array& place) { return take_along_axis(sorted, astype(place, DType::int64), -1); };
  std::vector<Array> found;
  for (double part : q) {
    check_part(kOp, part);
    Array place = multiply(astype(last, DType::float64), part);
    Array below = floor(place);
    switch (method) {
      case QuantileMethod::linear: break;
      case QuantileMethod::lower: place = below; break;
      case QuantileMethod::higher: place = below = ceil(place); break;
      case QuantileMethod::midpoint: place = where(equal(place, below), place, add(below, 0.5)); break;
      case QuantileMethod::nearest: place = below = round(place); break;
    }
    const Array share = astype(subtract(place, below), dtype);
    const Array low = at(below), high = at(minimum(add(below, 1.0), last)), step = subtract(high, low);
    const Array between =
        where(less(share, 0.5), add(low, multiply(step, share)), subtract(high, multiply(step, subtract(1.0, share))));
    const Array value = where(equal(share, 0.0), low, between).select(-1, 0);
    found.push_back(kept(kOp, astype(value, mean_dtype(x.dtype())), x, axis, keepdims));
  }
  return stack(found);
}

Array nanmedian(const Array& x, std::optional<int64_t> axis, bool keepdims) {
  const double half[] = {0.5};
  return nanquantile(x, half, axis, keepdims).select(0, 0);
}

namespace {

Array nan_place(const char* op, const Array& x, std::optional<int64_t> axis, bool keepdims, bool largest) {
  const auto place = largest ? &argmax : &argmin;
  if (!has_nan(x.dtype())) return place(x, axis, keepdims, nullptr);
  if (is_complex(x.dtype())) unsupported_dtype(op, "x", x.dtype(), "have a real dtype");
  const Array rows = axis ? x : ravel(x), numbers = logical_not(isnan(rows));
  const Axes along = Dims{axis.value_or(0)};
  uint8_t everywhere = 1;
  if (rows.size() != 0) to_host(&everywhere, all(any(numbers, along)), op);
  if (everywhere == 0) throw ArgumentError(op, "x", "have a number in each slice", "NaN alone");
  const Array extreme = nan_extreme(rows, along, true, largest);
  const Array found = argmax(logical_and(equal(rows, extreme), numbers), axis.value_or(0), keepdims, nullptr);
  return keepdims && !axis ? found.reshape_view(Dims::filled(x.ndim(), 1)) : found;
}

}  // namespace

Array nanargmax(const Array& x, std::optional<int64_t> axis, bool keepdims) {
  return nan_place("nanargmax", x, axis, keepdims, true);
}
Array nanargmin(const Array& x, std::optional<int64_t> axis, bool keepdims) {
  return nan_place("nanargmin", x, axis, keepdims, false);
}

Array nancumsum(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype) {
  return cumsum(has_nan(x.dtype()) ? without_nan(x, 0) : x, axis, dtype);
}
Array nancumprod(const Array& x, std::optional<int64_t> axis, std::optional<DType> dtype) {
  return cumprod(has_nan(x.dtype()) ? without_nan(x, 1) : x, axis, dtype);
}

Array median(const Array& x, std::optional<int64_t> axis, bool keepdims) {
  const double half[] = {0.5};
  return quantile(x, half, axis, keepdims).select(0, 0);
}

Array bincount(const Array& x, int64_t minlength) {
  constexpr const char* kOp = "bincount";
  check_ndim(kOp, "x", x, 1);
  if (!is_integer(x.dtype())) unsupported_dtype(kOp, "x", x.dtype(), "have an integer dtype");
  if (minlength < 0) throw ArgumentError(kOp, "minlength", "not be negative", std::to_string(minlength));
  int64_t length = minlength;
  const Array sorted = astype(sort(x), DType::int64);
  if (x.size() > 0) {
    int64_t ends[2];
    to_host(&ends[0], sorted.narrow(0, 0, 1), kOp);
    to_host(&ends[1], sorted.narrow(0, x.size() - 1, 1), kOp);
    if (ends[0] < 0) throw ArgumentError(kOp, "x", "hold no negative value", std::to_string(ends[0]));
    length = checked_sum(kOp, ends[1], 1) > length ? ends[1] + 1 : length;
  }
  return between(searchsorted(sorted, arange(0, Scalar(length + 1), 1, DType::int64, x.device())));
}

Array average(const Array& x, const Axes& axes, const Array* weights, bool keepdims) {
  if (weights == nullptr) return mean(x, axes, keepdims);
  Array shares = *weights;
  if (shares.ndim() == 1 && x.ndim() > 1) {
    if (!axes || axes->rank() != 1)
      throw ShapeError("average", "weights", "have the shape of a where axis is not one axis", shares.shape().str());
    Dims along = Dims::filled(x.ndim(), 1);
    along[normalize_axis("average", (*axes)[0], x.ndim())] = shares.size();
    shares = reshape(shares, along);
  }
  shares = shares.broadcast_to(x.shape());
  const Array total = sum(shares, axes, keepdims);
  return divide(sum(multiply(x, shares), axes, keepdims), total);
}

Array as_density(const Array& counts, const Array& edges) {
  const Array of = astype(counts, DType::float64);
  return divide(divide(of, sum(of)), astype(diff(edges), DType::float64));
}

Array histogram(const Array& x, const Array& edges) {
  constexpr const char* kOp = "histogram";
  check_ndim(kOp, "bins", edges, 1);
  if (edges.size() < 2) throw ArgumentError(kOp, "bins", "have at least two edges", std::to_string(edges.size()));
  const Array sorted = sort(x, {});
  // NaN sorts last: it is in no bin unless an edge is NaN.
  const Array places = searchsorted(sorted, edges);
  const Array end = places.narrow(0, edges.size() - 1, 1);
  searchsorted(sorted, edges.narrow(0, edges.size() - 1, 1), true, nullptr, &end);
  return between(places);
}

std::pair<Array, Array> histogram(const Array& x, int64_t bins, std::optional<std::pair<double, double>> range) {
  constexpr const char* kOp = "histogram";
  if (bins < 1) throw ArgumentError(kOp, "bins", "be at least 1", std::to_string(bins));
  const DType dtype = working_dtype(x.dtype());
  std::pair<double, double> ends = range.value_or(std::pair(0.0, 1.0));
  if (!range && x.size() > 0) {
    to_host(&ends.first, astype(min(x), DType::float64), kOp);
    to_host(&ends.second, astype(max(x), DType::float64), kOp);
  }
  if (!std::isfinite(ends.first) || !std::isfinite(ends.second) || ends.first > ends.second)
    throw ArgumentError(kOp, "range", "be finite and in order",
                        std::to_string(ends.first) + " to " + std::to_string(ends.second));
  if (ends.first == ends.second) ends = {ends.first - 0.5, ends.second + 0.5};
  const Array edges = linspace(ends.first, ends.second, bins + 1, dtype, true, x.device());
  return {histogram(x, edges), edges};
}

Array interp(const Array& x, const Array& xp, const Array& fp, std::optional<double> left,
             std::optional<double> right) {
  constexpr const char* kOp = "interp";
  check_ndim(kOp, "xp", xp, 1);
  check_shape(kOp, "fp", fp, xp.shape());
  if (xp.size() == 0) throw ArgumentError(kOp, "xp", "have at least one point", "none");
  const DType dtype = working_dtype(promote(kOp, promote(kOp, x.dtype(), xp.dtype()), fp.dtype()));
  const Array at = astype(x, dtype), points = astype(xp, dtype), values = astype(fp, dtype);
  const int64_t last = xp.size() - 1;
  const Array start = points.select(0, 0), end = points.select(0, last);
  const Array start_value = values.select(0, 0), end_value = values.select(0, last);
  Array line = start_value.broadcast_to(x.shape());
  if (last > 0) {
    const Array place = minimum(maximum(subtract(searchsorted(points, at, true), 1), 0), last - 1);
    const Array next = add(place, 1);
    const Array x0 = take(points, place), y0 = take(values, place);
    const Array slope = divide(subtract(take(values, next), y0), subtract(take(points, next), x0));
    line = add(y0, multiply(slope, subtract(at, x0)));
  }
  line = where(equal(at, end), end_value, line);
  line = where(less(at, start), left ? Operand(*left) : Operand(start_value), line);
  line = where(greater(at, end), right ? Operand(*right) : Operand(end_value), line);
  return where(isnan(at), at, line);
}

namespace {

/// Largest elements where they are finite, else 0: what is taken off before exp.
Array finite_max(const Array& x, const Axes& axes) {
  const Array top = max(x, axes, true);
  return where(isfinite(top), top, 0);
}

}  // namespace

Array logsumexp(const Array& x, const Axes& axes, bool keepdims) {
  check_floating("logsumexp", "x", x);
  const Array wide = astype(x, working_dtype(x.dtype()));
  const Array top = finite_max(wide, axes);
  const Array total = log(sum(exp(subtract(wide, top)), axes, true));
  const Array kept = astype(add(total, top), x.dtype());
  if (keepdims) return kept;
  return axes ? squeeze(kept, axes) : kept.reshape_view({});
}

Array log_softmax(const Array& x, int64_t axis) {
  check_floating("log_softmax", "x", x);
  const Array wide = astype(x, working_dtype(x.dtype()));
  const Array shifted = subtract(wide, finite_max(wide, Dims{axis}));
  return astype(subtract(shifted, log(sum(exp(shifted), Dims{axis}, true))), x.dtype());
}

}  // namespace gpukit
