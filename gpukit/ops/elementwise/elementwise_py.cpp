#include <nanobind/stl/optional.h>

#include "gpukit/array/host.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/numbers.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"

namespace gpukit {

namespace {

using namespace python;

/// Bound under the array standard's name and, where it has one, under its 0.2 name.
template <Array (*F)(const Operand&, const Operand&, const Array*)>
void binary(nb::module_& m, const char* name, const char* doc, const char* alias = nullptr) {
  for (const char* bound : {name, alias}) {
    if (bound == nullptr) continue;
    m.def(
        bound,
        [name](OperandArg a, OperandArg b, ArrayArg out) {
          const Operand x = to_operand(name, "a", a);
          const Operand y = to_operand(name, "b", b);
          return with_out(name, out, [&](const Array* target) { return F(x, y, target); });
        },
        "a"_a, "b"_a, nb::kw_only(), "out"_a = nb::none(), doc);
  }
}

template <Array (*F)(const Array&, const Array*)>
void unary(nb::module_& m, const char* name, const char* doc, const char* alias = nullptr) {
  for (const char* bound : {name, alias}) {
    if (bound == nullptr) continue;
    m.def(
        bound,
        [name](const ArrayObject& a, ArrayArg out) {
          const Array& x = to_array(name, "a", a);
          return with_out(name, out, [&](const Array* target) { return F(x, target); });
        },
        "a"_a, nb::kw_only(), "out"_a = nb::none(), doc);
  }
}

template <Array (*F)(const Array&, const Array*)>
void named_cast(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& src, ArrayArg out) {
        const Array& x = to_array(name, "src", src);
        return with_out(name, out, [&](const Array* target) { return F(x, target); });
      },
      "src"_a, nb::kw_only(), "out"_a = nb::none(), doc);
}

void bind_binary_functions(nb::module_& m) {
  binary<&add>(m, "add", "a + b. Broadcasts; mixed dtypes are promoted; bool adds as `or`.");
  binary<&subtract>(m, "subtract", "a - b.", "sub");
  binary<&multiply>(m, "multiply", "a * b; bool multiplies as `and`.", "mul");
  binary<&divide>(m, "divide", "a / b, true division: integers give float64.", "div");
  binary<&power>(m, "pow", "a ** b. Integers wrap; a negative integer exponent gives the power cut to an integer.",
                 "power");
  binary<&remainder>(m, "remainder", "a % b with the sign of b, as in Python. Integer remainder by zero is 0.", "mod");
  binary<&floor_divide>(m, "floor_divide", "a // b, rounded towards minus infinity. Integer division by zero is 0.");
  binary<&minimum>(m, "minimum", "The smaller of a and b; NaN in either comes through.");
  binary<&maximum>(m, "maximum", "The larger of a and b; NaN in either comes through.");
  binary<&atan2>(m, "atan2", "The angle of the point (b, a), in radians.", "arctan2");
  binary<&gpukit::hypot>(m, "hypot", "sqrt(a * a + b * b), without overflow on the way.");
  binary<&gpukit::copysign>(m, "copysign", "The magnitude of a with the sign of b.");
  binary<&logaddexp>(m, "logaddexp", "log(exp(a) + exp(b)), without overflow on the way.");
  binary<&gpukit::nextafter>(m, "nextafter", "The next number after a on the side of b.");

  binary<&equal>(m, "equal", "a == b, as bool.");
  binary<&not_equal>(m, "not_equal", "a != b, as bool.");
  binary<&less>(m, "less", "a < b, as bool.");
  binary<&less_equal>(m, "less_equal", "a <= b, as bool.");
  binary<&greater>(m, "greater", "a > b, as bool.");
  binary<&greater_equal>(m, "greater_equal", "a >= b, as bool.");

  binary<&logical_and>(m, "logical_and", "Both not 0, as bool.");
  binary<&logical_or>(m, "logical_or", "Either not 0, as bool.");
  binary<&logical_xor>(m, "logical_xor", "Exactly one not 0, as bool.");

  binary<&bitwise_and>(m, "bitwise_and", "a & b of integers or bool.");
  binary<&bitwise_or>(m, "bitwise_or", "a | b of integers or bool.");
  binary<&bitwise_xor>(m, "bitwise_xor", "a ^ b of integers or bool.");
  binary<&bitwise_left_shift>(m, "bitwise_left_shift", "a << b of integers; counts past the width give 0.",
                              "left_shift");
  binary<&bitwise_right_shift>(m, "bitwise_right_shift", "a >> b of integers; the sign is kept.", "right_shift");
}

void bind_unary_functions(nb::module_& m) {
  unary<&negative>(m, "negative", "-a.", "neg");
  unary<&positive>(m, "positive", "A copy of a.");
  unary<&absolute>(m, "abs", "The magnitude; complex gives the real dtype.", "absolute");
  unary<&gpukit::conj>(m, "conj", "The complex conjugate; real numbers are copied.");
  unary<&sign>(m, "sign", "-1, 0 or 1; NaN stays. Complex: a / |a|.");
  unary<&square>(m, "square", "a * a.");
  unary<&reciprocal>(m, "reciprocal", "1 / a of floats and complex.");
  unary<&relu>(m, "relu", "max(a, 0); NaN stays.");
  unary<&relu2>(m, "relu2", "max(a, 0) squared.");
  unary<&floor>(m, "floor", "Rounded towards minus infinity.");
  unary<&ceil>(m, "ceil", "Rounded towards plus infinity.");
  unary<&trunc>(m, "trunc", "Rounded towards zero.");

  unary<&exp>(m, "exp", "e ** a. Float and complex dtypes; integers give float64.");
  unary<&expm1>(m, "expm1", "e ** a - 1, exact near 0. Float and complex dtypes; integers give float64.");
  unary<&log>(m, "log", "Natural logarithm. Float and complex dtypes; integers give float64.");
  unary<&log1p>(m, "log1p", "log(1 + a), exact near 0. Float and complex dtypes; integers give float64.");
  unary<&log2>(m, "log2", "Logarithm to base 2. Float and complex dtypes; integers give float64.");
  unary<&log10>(m, "log10", "Logarithm to base 10. Float and complex dtypes; integers give float64.");
  unary<&sqrt>(m, "sqrt", "Square root. Float and complex dtypes; integers give float64.");
  unary<&rsqrt>(m, "rsqrt", "1 / sqrt(a). Float dtypes.");
  unary<&sin>(m, "sin", "Sine of radians. Float and complex dtypes; integers give float64.");
  unary<&cos>(m, "cos", "Cosine of radians. Float and complex dtypes; integers give float64.");
  unary<&tan>(m, "tan", "Tangent of radians. Float and complex dtypes; integers give float64.");
  unary<&asin>(m, "asin", "Inverse sine. Float and complex dtypes; integers give float64.", "arcsin");
  unary<&acos>(m, "acos", "Inverse cosine. Float and complex dtypes; integers give float64.", "arccos");
  unary<&atan>(m, "atan", "Inverse tangent. Float and complex dtypes; integers give float64.", "arctan");
  unary<&sinh>(m, "sinh", "Hyperbolic sine. Float and complex dtypes; integers give float64.");
  unary<&cosh>(m, "cosh", "Hyperbolic cosine. Float and complex dtypes; integers give float64.");
  unary<&asinh>(m, "asinh", "Inverse hyperbolic sine. Float and complex dtypes; integers give float64.", "arcsinh");
  unary<&acosh>(m, "acosh", "Inverse hyperbolic cosine. Float and complex dtypes; integers give float64.", "arccosh");
  unary<&atanh>(m, "atanh", "Inverse hyperbolic tangent. Float and complex dtypes; integers give float64.", "arctanh");
  unary<&tanh>(m, "tanh", "Hyperbolic tangent. Float and complex dtypes; integers give float64.");
  unary<&erf>(m, "erf", "Error function. Float dtypes.");
  unary<&sigmoid>(m, "sigmoid", "1 / (1 + exp(-a)). Float dtypes.");
  unary<&silu>(m, "silu", "a * sigmoid(a). Float dtypes.");
  unary<&gelu>(m, "gelu", "The tanh approximation of a * Phi(a). Float dtypes.");

  unary<&isnan>(m, "isnan", "Whether each element is NaN.");
  unary<&isinf>(m, "isinf", "Whether each element is infinite.");
  unary<&isfinite>(m, "isfinite", "Whether each element is neither NaN nor infinite.");
  unary<&gpukit::signbit>(m, "signbit", "Whether the sign bit is set, of -0 and NaN too. Float dtypes.");
  unary<&logical_not>(m, "logical_not", "a == 0, as bool.");
  unary<&bitwise_invert>(m, "bitwise_invert", "Every bit of integers; not, of bool.", "invert");
}

ArrayObject clamp_py(const ArrayObject& a, OperandArg min_val, OperandArg max_val, ArrayArg out) {
  const Array& x = to_array("clamp", "a", a);
  std::optional<Operand> low, high;
  if (!min_val.is_none()) low = to_operand("clamp", "min_val", min_val);
  if (!max_val.is_none()) high = to_operand("clamp", "max_val", max_val);
  return with_out("clamp", out, [&](const Array* target) {
    return clamp(x, low ? &*low : nullptr, high ? &*high : nullptr, target);
  });
}

void bind_numbers(nb::module_& m) {
  m.def(
      "round",
      [](const ArrayObject& a, IntArg decimals, ArrayArg out) {
        const Array& x = to_array("round", "a", a);
        const int64_t places = to_int("round", "decimals", decimals);
        return with_out("round", out, [&](const Array* target) { return round(x, places, target); });
      },
      "a"_a, "decimals"_a = 0, nb::kw_only(), "out"_a = nb::none(),
      "Rounded to the nearest integer or to a number of decimals, halves to the even one.");
  m.def(
      "nan_to_num",
      [](const ArrayObject& x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
        const Array& input = to_array("nan_to_num", "x", x);
        return wrap(in_scope([&] { return nan_to_num(input, nan, posinf, neginf); }));
      },
      "x"_a, nb::kw_only(), "nan"_a = 0.0, "posinf"_a = nb::none(), "neginf"_a = nb::none(),
      "Numbers in place of NaN and infinity, by default 0 and the largest and smallest number of the dtype.");
  m.def(
      "copy",
      [](const ArrayObject& x) {
        const Array& input = to_array("copy", "x", x);
        return wrap(in_scope([&] { return copy(input); }));
      },
      "x"_a, "A row-major copy.");
}

void bind_others(nb::module_& m) {
  m.def("clamp", &clamp_py, "a"_a, "min_val"_a = nb::none(), "max_val"_a = nb::none(), nb::kw_only(),
        "out"_a = nb::none(),
        "min(max(a, min_val), max_val); NaN comes through. A bound is a number, an array or None.");
  m.def("clip", &clamp_py, "x"_a, "min"_a = nb::none(), "max"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
        "The array standard's name of clamp.");
  m.def(
      "where",
      [](const ArrayObject& cond, OperandArg a, OperandArg b, ArrayArg out) -> nb::object {
        const Array& mask = to_array("where", "cond", cond);
        if (a.is_none() && b.is_none() && out.is_none()) {
          nb::list axes;
          for (Array& axis : in_scope([&] { return nonzero(mask); })) axes.append(wrap(std::move(axis)));
          return nb::tuple(axes);
        }
        const Operand x = to_operand("where", "a", a);
        const Operand y = to_operand("where", "b", b);
        return with_out("where", out, [&](const Array* target) { return where(mask, x, y, target); });
      },
      "cond"_a, "a"_a = nb::none(), "b"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
      nb::sig("def where(cond: GPUArray, a: pygpukit.typing.Operand | None = None, b: pygpukit.typing.Operand | None = "
              "None, *, "
              "out: GPUArray | None = None) -> typing.Any"),
      "a where cond is not 0, else b. All three broadcast; a and b may be numbers. Without a and b nonzero(cond).");

  m.def(
      "astype",
      [](const ArrayObject& x, DTypeArg dtype, bool copy, DeviceArg device) {
        const Array& input = to_array("astype", "x", x);
        const DType wanted = to_dtype(dtype);
        const Device where = device.is_none() ? input.device() : to_device(device);
        // Unchanged means the very object.
        if (!copy && input.dtype() == wanted && where == input.device()) return x;
        return wrap(in_scope([&] {
          const Array converted = astype(input, wanted, true);
          return where == input.device() ? converted : to_device(converted, where);
        }));
      },
      "x"_a, "dtype"_a, nb::kw_only(), "copy"_a = true, "device"_a = nb::none(),
      "x in another dtype. Reals become integers by cutting, NaN by 0, and saturate; complex becomes real only by "
      "real().");
  m.def(
      "real", [](const ArrayObject& x) { return wrap(real(to_array("real", "x", x))); }, "x"_a,
      "The real part of a complex array, as a view; a real array itself.");
  m.def(
      "imag", [](const ArrayObject& x) { return wrap(imag(to_array("imag", "x", x))); }, "x"_a,
      "The imaginary part of a complex array, as a view.");
  m.def(
      "copy_to",
      [](const ArrayObject& src, const ArrayObject& dst) {
        const Array& from = to_array("copy_to", "src", src);
        const Array& to = to_array("copy_to", "dst", dst);
        in_scope([&] { return copy_to(from, to), 0; });
      },
      "src"_a, "dst"_a, "Copies src into dst, which has the same dtype and as many elements.");
}

void bind_0_2_names(nb::module_&& compat) {
  named_cast<&cast_f32_to_bf16>(compat, "cast_f32_to_bf16", "float32 to bfloat16, to nearest even.");
  named_cast<&cast_f32_to_f16>(compat, "cast_f32_to_f16", "float32 to float16, to nearest even.");
  named_cast<&cast_bf16_to_f32>(compat, "cast_bf16_to_f32", "bfloat16 to float32.");
  named_cast<&cast_f16_to_f32>(compat, "cast_f16_to_f32", "float16 to float32.");

  compat.def(
      "add_inplace",
      [](const ArrayObject& a, OperandArg b) {
        const Array& x = to_array("add_inplace", "a", a);
        const Operand y = to_operand("add_inplace", "b", b);
        in_scope([&] { return add_inplace(x, y), 0; });
      },
      "a"_a, "b"_a, "a += b.");
  compat.def(
      "mul_inplace",
      [](const ArrayObject& a, OperandArg b) {
        const Array& x = to_array("mul_inplace", "a", a);
        const Operand y = to_operand("mul_inplace", "b", b);
        in_scope([&] { return multiply_inplace(x, y), 0; });
      },
      "a"_a, "b"_a, "a *= b.");
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  bind_binary_functions(m);
  bind_unary_functions(m);
  bind_others(m);
  bind_numbers(m);
  bind_0_2_names(compat_module(m));
}

}  // namespace gpukit
