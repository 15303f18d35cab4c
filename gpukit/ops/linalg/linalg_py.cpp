#include "gpukit/ops/linalg/linalg.h"

#include "gpukit/ops/linalg/products.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using namespace python;

ArrayObject named(const char* type, std::initializer_list<const Array*> fields) {
  nb::list values;
  for (const Array* field : fields) values.append(wrap(Array(*field)));
  return nb::borrow<ArrayObject>(nb::module_::import_("pygpukit.core.results").attr(type)(*values));
}

using One = Array (*)(const Array&, const Array*);
template <One kFunction>
void bind_one(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& x, ArrayArg out) {
        const Array& values = to_array(op, "x", x);
        return with_out(op, out, [&](const Array* target) { return kFunction(values, target); });
      },
      "x"_a, nb::kw_only(), "out"_a = nb::none(), doc);
}

using WithTolerance = Array (*)(const Array&, const Operand*, const Array*);
template <WithTolerance kFunction>
void bind_with_tolerance(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& x, OperandArg rtol, ArrayArg out) {
        const Array& values = to_array(op, "x", x);
        std::optional<Operand> tolerance;
        if (!rtol.is_none()) tolerance.emplace(to_operand(op, "rtol", rtol));
        return with_out(
            op, out, [&](const Array* target) { return kFunction(values, tolerance ? &*tolerance : nullptr, target); });
      },
      "x"_a, nb::kw_only(), "rtol"_a = nb::none(), "out"_a = nb::none(), doc);
}

ArrayObject qr_py(const ArrayObject& x, StringArg mode) {
  const Array& values = to_array("qr", "x", x);
  const std::string name = to_text("qr", "mode", mode);
  if (name != "reduced" && name != "complete") throw ArgumentError("qr", "mode", "be reduced or complete", name);
  const linalg::Qr made = in_scope([&] { return linalg::qr(values, name == "complete"); });
  return named("QRResult", {&made.q, &made.r});
}

ArrayObject matrix_norm_py(const ArrayObject& x, bool keepdims, AnyArg ord, ArrayArg out) {
  constexpr const char* kOp = "matrix_norm";
  const Array& values = to_array(kOp, "x", x);
  const linalg::MatrixNorm kind = nb::isinstance<nb::str>(ord)
                                      ? linalg::matrix_norm_from_name(to_text(kOp, "ord", ord))
                                      : linalg::matrix_norm_from_number(to_scalar(kOp, "ord", ord).real);
  return with_out(kOp, out, [&](const Array* target) { return linalg::matrix_norm(values, kind, keepdims, target); });
}

ArrayObject vector_norm_py(const ArrayObject& x, AxisArg axis, bool keepdims, double ord, ArrayArg out) {
  constexpr const char* kOp = "vector_norm";
  const Array& values = to_array(kOp, "x", x);
  const std::optional<Dims> axes = to_optional_axes(kOp, axis);
  return with_out(kOp, out,
                  [&](const Array* target) { return linalg::vector_norm(values, axes, keepdims, ord, target); });
}

void bind_factorisations(nb::module_& m) {
  m.def(
      "cholesky",
      [](const ArrayObject& x, bool upper, ArrayArg out) {
        const Array& values = to_array("cholesky", "x", x);
        return with_out("cholesky", out, [&](const Array* target) { return linalg::cholesky(values, upper, target); });
      },
      "x"_a, nb::kw_only(), "upper"_a = false, "out"_a = nb::none(),
      "The triangle L of x = L L^H, or U of x = U^H U. NaN where x is not positive definite.");
  bind_one<&linalg::det>(m, "det", "Determinants of square matrices.");
  m.def(
      "slogdet",
      [](const ArrayObject& x) {
        const Array& values = to_array("slogdet", "x", x);
        const linalg::Slogdet made = in_scope([&] { return linalg::slogdet(values); });
        return named("SlogdetResult", {&made.sign, &made.logabsdet});
      },
      "x"_a, nb::sig("def slogdet(x: pygpukit._core.GPUArray) -> pygpukit.core.results.SlogdetResult"),
      "(sign, logabsdet) of determinants; 0 and -inf of a singular matrix.");
  bind_one<&linalg::inv>(m, "inv", "Inverses of square matrices. NaN where a matrix is singular.");
  m.def(
      "solve",
      [](const ArrayObject& x1, const ArrayObject& x2, ArrayArg out) {
        const Array &a = to_array("solve", "x1", x1), &b = to_array("solve", "x2", x2);
        return with_out("solve", out, [&](const Array* target) { return linalg::solve(a, b, target); });
      },
      "x1"_a, "x2"_a, nb::kw_only(), "out"_a = nb::none(),
      "y of x1 @ y = x2. x2 is a vector when it is 1-D, else matrices. NaN where x1 is singular.");
  m.def("qr", &qr_py, "x"_a, nb::kw_only(), "mode"_a = "reduced",
        nb::sig("def qr(x: pygpukit._core.GPUArray, *, mode: str = 'reduced') -> pygpukit.core.results.QRResult"),
        "(Q, R): x = Q R, Q with orthonormal columns and R an upper triangle; mode is reduced or complete.");
  m.def(
      "eigh",
      [](const ArrayObject& x) {
        const Array& values = to_array("eigh", "x", x);
        const linalg::Eigh made = in_scope([&] { return linalg::eigh(values); });
        return named("EighResult", {&made.values, &made.vectors});
      },
      "x"_a, nb::sig("def eigh(x: pygpukit._core.GPUArray) -> pygpukit.core.results.EighResult"),
      "(eigenvalues, eigenvectors) of symmetric or Hermitian matrices: values ascending, vectors in columns. The lower "
      "triangle is read.");
  bind_one<&linalg::eigvalsh>(m, "eigvalsh", "The eigenvalues of eigh.");
  m.def(
      "svd",
      [](const ArrayObject& x, bool full_matrices) {
        const Array& values = to_array("svd", "x", x);
        const linalg::Svd made = in_scope([&] { return linalg::svd(values, full_matrices); });
        return named("SVDResult", {&made.u, &made.s, &made.vh});
      },
      "x"_a, nb::kw_only(), "full_matrices"_a = true,
      nb::sig("def svd(x: pygpukit._core.GPUArray, *, full_matrices: bool = True) -> pygpukit.core.results.SVDResult"),
      "(U, S, Vh): x = U diag(S) Vh with S descending; U and Vh are square unless full_matrices is False.");
  bind_one<&linalg::svdvals>(m, "svdvals", "The singular values of svd.");
}

}  // namespace

void bind_linalg(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("linalg", "Linear algebra: the array API's linalg extension.");
  bind_factorisations(m);
  bind_with_tolerance<&linalg::matrix_rank>(m, "matrix_rank",
                                            "How many singular values are above rtol times the largest, as int64.");
  bind_with_tolerance<&linalg::pinv>(m, "pinv",
                                     "Pseudo-inverses; singular values up to rtol times the largest are taken as 0.");
  m.def(
      "matrix_power",
      [](const ArrayObject& x, IntArg n, ArrayArg out) {
        const Array& values = to_array("matrix_power", "x", x);
        const int64_t times = to_int("matrix_power", "n", n);
        return with_out("matrix_power", out,
                        [&](const Array* target) { return linalg::matrix_power(values, times, target); });
      },
      "x"_a, "n"_a, nb::kw_only(), "out"_a = nb::none(),
      "Square matrices multiplied n times; their inverses for a negative n.");
  m.def("matrix_norm", &matrix_norm_py, "x"_a, nb::kw_only(), "keepdims"_a = false, "ord"_a = "fro",
        "out"_a = nb::none(), "Norms of matrices: ord is fro, nuc, 1, -1, 2, -2, inf or -inf.");
  m.def("vector_norm", &vector_norm_py, "x"_a, nb::kw_only(), "axis"_a = nb::none(), "keepdims"_a = false,
        "ord"_a = 2.0, "out"_a = nb::none(), "Norms of vectors along axes, all when not given: ord is any number.");
  m.def(
      "diagonal",
      [](const ArrayObject& x, IntArg offset) {
        return wrap(diagonal(to_array("diagonal", "x", x), to_int("diagonal", "offset", offset)));
      },
      "x"_a, nb::kw_only(), "offset"_a = 0, "A view of the elements (i, i + offset) of matrices.");
  m.def(
      "trace",
      [](const ArrayObject& x, IntArg offset, DTypeArg dtype, ArrayArg out) {
        const Array& input = to_array("trace", "x", x);
        const int64_t first = to_int("trace", "offset", offset);
        const std::optional<DType> wanted = to_optional_dtype(dtype);
        return with_out("trace", out, [&](const Array* target) { return trace(input, first, -2, -1, wanted, target); });
      },
      "x"_a, nb::kw_only(), "offset"_a = 0, "dtype"_a = nb::none(), "out"_a = nb::none(),
      "Sums of the diagonals of matrices; dtype as for sum.");
}

}  // namespace gpukit
