#include "gpukit/ops/fft/fft.h"

#include <cmath>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/fft/fft_impl.h"
#include "gpukit/ops/manipulate/manipulate.h"

namespace gpukit::fft {

namespace {

enum class Kind { complex, from_real, to_real };

struct Form {
  const char* op;
  Kind kind;
  bool inverse;
};

double scale_of(Norm norm, bool inverse, int64_t n) {
  const double size = static_cast<double>(n);
  if (norm == Norm::ortho) return 1.0 / std::sqrt(size);
  return (norm == Norm::backward) == inverse ? 1.0 / size : 1.0;
}

void check_input(const Form& form, const Array& x) {
  const bool real = is_floating(x.dtype());
  if (form.kind == Kind::from_real ? !real : !real && !is_complex(x.dtype()))
    unsupported_dtype(form.op, "x", x.dtype(),
                      form.kind == Kind::from_real ? "have a float dtype" : "have a float or complex dtype");
  if (x.ndim() == 0) throw ShapeError(form.op, "x", "have at least one dimension", x.shape().str());
}

DType real_dtype(DType dtype) {
  return dtype == DType::float64 || dtype == DType::complex128 ? DType::float64 : DType::float32;
}
DType result_dtype(const Form& form, DType dtype) {
  const DType real = real_dtype(dtype);
  if (form.kind == Kind::to_real) return real;
  return real == DType::float64 ? DType::complex128 : DType::complex64;
}

int64_t length_of(const Form& form, const Array& x, int axis, Length n) {
  const int64_t size = x.shape()[axis];
  const int64_t length = n ? *n : form.kind == Kind::to_real ? 2 * (size - 1) : size;
  if (length < 1) throw ShapeError(form.op, "n", "be at least 1", std::to_string(length));
  checked_product(form.op, length, 8);
  return length;
}

Dims result_shape(const Form& form, const Dims& shape, int axis, int64_t n) {
  Dims result = shape;
  result[axis] = form.kind == Kind::from_real ? n / 2 + 1 : n;
  return result;
}

/// `target` is checked and shares no memory with x in another layout.
void run(const Form& form, const Array& target, const Array& x, int axis, int64_t n, Norm norm) {
  if (target.size() == 0) return;
  Transform t;
  t.n = n;
  t.scale = scale_of(norm, form.inverse, n);
  t.input = is_complex(x.dtype()) ? Elements::complex : Elements::real;
  // An inverse transform is the conjugate of the forward one of the conjugate.
  t.conjugate_input = form.inverse;
  t.conjugate_output = form.inverse;
  if (form.kind == Kind::to_real) {
    t.input = Elements::hermitian;
    t.output = Elements::real;
  }
  if (!is_complex(x.dtype())) t.conjugate_input = false;
  Temporaries temporaries(form.op);
  const DType real = real_dtype(x.dtype());
  Array values = is_complex(x.dtype()) ? x : astype(x, real, temporaries);
  if (t.input == Elements::hermitian && !is_complex(values.dtype())) {
    values = temporaries.empty(x.shape(), real == DType::float64 ? DType::complex128 : DType::complex64, x.device());
    copy_into(values, x);
  }
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::fourier(form.op, target, values, axis, t); break;
    case DeviceKind::cuda: cuda::fourier(form.op, target, values, axis, t); break;
  }
}

Array along(const Form& form, const Array& x, Length n, int64_t axis, Norm norm, const Array* out) {
  check_input(form, x);
  const int at = normalize_axis(form.op, axis, x.ndim());
  const int64_t length = length_of(form, x, at, n);
  const Array target =
      result(form.op, out, result_shape(form, x.shape(), at, length), result_dtype(form, x.dtype()), x.device());
  if (must_buffer(target, {&x})) {
    Temporaries temporaries(form.op);
    const Array fresh = temporaries.empty_like(target);
    run(form, fresh, x, at, length, norm);
    copy_into(target, fresh);
  } else {
    run(form, target, x, at, length, norm);
  }
  return target;
}

struct Step {
  int axis;
  int64_t n;
};

/// The axes in the order they are named, with the length of each.
std::vector<Step> steps_of(const Form& form, const Array& x, const Sizes& s, const Sizes& axes) {
  check_input(form, x);
  Dims named;
  if (axes) {
    named = *axes;
  } else {
    const int count = s ? s->rank() : x.ndim();
    if (count > x.ndim()) throw ShapeError(form.op, "s", "name no more axes than x has", s->str());
    for (int i = x.ndim() - count; i < x.ndim(); ++i) named.push_back(i);
  }
  if (s && s->rank() != named.rank()) throw ShapeError(form.op, "s", "have one size for each of the axes", s->str());
  if (named.empty()) throw ShapeError(form.op, "axes", "name at least one axis", named.str());
  std::vector<Step> steps;
  bool seen[kMaxRank] = {};
  for (int i = 0; i < named.rank(); ++i) {
    const int axis = normalize_axis(form.op, named[i], x.ndim());
    if (seen[axis]) throw ArgumentError(form.op, "axes", "name each axis once", named.str());
    seen[axis] = true;
    // Only the last axis of a transform to reals has another length than its input.
    const Form one{form.op, i + 1 == named.rank() ? form.kind : Kind::complex, form.inverse};
    steps.push_back({axis, length_of(one, x, axis, s ? Length((*s)[i]) : Length())});
  }
  return steps;
}

Array several(const Form& form, const Array& x, const Sizes& s, const Sizes& axes, Norm norm, const Array* out) {
  const std::vector<Step> steps = steps_of(form, x, s, axes);
  const Form plain{form.op, Kind::complex, form.inverse};
  // Real inputs are halved first, real outputs made last: the last axis named, with the cheapest steps in between.
  std::vector<std::pair<Form, Step>> order;
  if (form.kind == Kind::to_real) {
    for (size_t i = 0; i + 1 < steps.size(); ++i) order.emplace_back(plain, steps[i]);
    order.emplace_back(form, steps.back());
  } else {
    order.emplace_back(form, steps.back());
    for (size_t i = steps.size() - 1; i-- > 0;) order.emplace_back(plain, steps[i]);
  }
  Dims shape = x.shape();
  for (const auto& [one, step] : order) shape = result_shape(one, shape, step.axis, step.n);
  const Array target = result(form.op, out, shape, result_dtype(form, x.dtype()), x.device());
  Temporaries temporaries(form.op);
  Array values = x;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [one, step] = order[i];
    const bool last = i + 1 == order.size();
    const bool direct = last && !must_buffer(target, {&values});
    const Array next = direct ? target
                              : temporaries.empty(result_shape(one, values.shape(), step.axis, step.n),
                                                  result_dtype(one, values.dtype()), x.device());
    run(one, next, values, step.axis, step.n, norm);
    values = next;
    if (last && !direct) copy_into(target, values);
  }
  return target;
}

Array shifted(const char* op, const Array& x, const Sizes& axes, const Array* out, bool back) {
  Dims named, shifts;
  if (axes)
    named = *axes;
  else
    for (int i = 0; i < x.ndim(); ++i) named.push_back(i);
  for (int64_t axis : named) {
    const int64_t size = x.shape()[normalize_axis(op, axis, x.ndim())];
    shifts.push_back(back ? -(size / 2) : size / 2);
  }
  return roll(x, shifts, named, out);
}

Array frequencies(const char* op, int64_t count, int64_t n, double d, DType dtype, std::optional<Device> device,
                  int64_t first_negative) {
  if (n < 1) throw ArgumentError(op, "n", "be at least 1", std::to_string(n));
  if (d == 0 || !std::isfinite(d)) throw ArgumentError(op, "d", "be finite and not 0", std::to_string(d));
  if (!is_floating(dtype)) throw DTypeError(op, "dtype", "be a float dtype", name(dtype));
  const double step = 1.0 / (static_cast<double>(n) * d);
  const Array values = empty({count}, dtype, device);
  // Whole numbers first: each value is rounded once.
  const Array whole = empty({count}, DType::float64, values.device());
  const Array low = whole.narrow(0, 0, std::min(count, first_negative));
  copy_into(low, arange(Scalar(int64_t{0}), Scalar(low.size()), Scalar(1), DType::float64, values.device()));
  if (first_negative < count)
    copy_into(whole.narrow(0, first_negative, count - first_negative),
              arange(Scalar(-(n / 2)), Scalar(int64_t{0}), Scalar(1), DType::float64, values.device()));
  copy_into(values, multiply(whole, step));
  return values;
}

}  // namespace

Norm norm_from_name(const char* op, std::string_view name) {
  if (name == "backward") return Norm::backward;
  if (name == "ortho") return Norm::ortho;
  if (name == "forward") return Norm::forward;
  throw ArgumentError(op, "norm", "be backward, ortho or forward", name);
}

Array fft(const Array& x, Length n, int64_t axis, Norm norm, const Array* out) {
  return along({"fft", Kind::complex, false}, x, n, axis, norm, out);
}
Array ifft(const Array& x, Length n, int64_t axis, Norm norm, const Array* out) {
  return along({"ifft", Kind::complex, true}, x, n, axis, norm, out);
}
Array rfft(const Array& x, Length n, int64_t axis, Norm norm, const Array* out) {
  return along({"rfft", Kind::from_real, false}, x, n, axis, norm, out);
}
Array irfft(const Array& x, Length n, int64_t axis, Norm norm, const Array* out) {
  return along({"irfft", Kind::to_real, true}, x, n, axis, norm, out);
}
Array hfft(const Array& x, Length n, int64_t axis, Norm norm, const Array* out) {
  return along({"hfft", Kind::to_real, false}, x, n, axis, norm, out);
}
Array ihfft(const Array& x, Length n, int64_t axis, Norm norm, const Array* out) {
  return along({"ihfft", Kind::from_real, true}, x, n, axis, norm, out);
}

Array fftn(const Array& x, const Sizes& s, const Sizes& axes, Norm norm, const Array* out) {
  return several({"fftn", Kind::complex, false}, x, s, axes, norm, out);
}
Array ifftn(const Array& x, const Sizes& s, const Sizes& axes, Norm norm, const Array* out) {
  return several({"ifftn", Kind::complex, true}, x, s, axes, norm, out);
}
Array rfftn(const Array& x, const Sizes& s, const Sizes& axes, Norm norm, const Array* out) {
  return several({"rfftn", Kind::from_real, false}, x, s, axes, norm, out);
}
Array irfftn(const Array& x, const Sizes& s, const Sizes& axes, Norm norm, const Array* out) {
  return several({"irfftn", Kind::to_real, true}, x, s, axes, norm, out);
}

Array fftfreq(int64_t n, double d, DType dtype, std::optional<Device> device) {
  return frequencies("fftfreq", n, n, d, dtype, device, (n + 1) / 2);
}
Array rfftfreq(int64_t n, double d, DType dtype, std::optional<Device> device) {
  return frequencies("rfftfreq", n / 2 + 1, n, d, dtype, device, n / 2 + 1);
}
Array fftshift(const Array& x, const Sizes& axes, const Array* out) { return shifted("fftshift", x, axes, out, false); }
Array ifftshift(const Array& x, const Sizes& axes, const Array* out) {
  return shifted("ifftshift", x, axes, out, true);
}

}  // namespace gpukit::fft
