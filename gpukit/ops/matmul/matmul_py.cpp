#include <nanobind/stl/string.h>

#include "gpukit/ops/matmul/dense/gemm_sm90.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/matmul/pack.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

MatmulPrecision to_precision(python::BoolArg use_tf32, python::StringArg precision) {
  MatmulPrecision chosen = MatmulPrecision::automatic;
  if (!use_tf32.is_none()) {
    const int truth = PyObject_IsTrue(use_tf32.ptr());
    if (truth < 0) throw nb::python_error();
    chosen = truth != 0 ? MatmulPrecision::tf32 : MatmulPrecision::exact;
  }
  if (precision.is_none()) return chosen;
  std::string text;
  if (!nb::try_cast(precision, text) || (text != "exact" && text != "tf32"))
    throw ArgumentError("matmul", "precision", "be 'exact', 'tf32' or None", nb::cast<std::string>(nb::str(precision)));
  const MatmulPrecision named = text == "tf32" ? MatmulPrecision::tf32 : MatmulPrecision::exact;
  if (chosen != MatmulPrecision::automatic && chosen != named)
    throw ArgumentError("matmul", "precision", "agree with use_tf32", "'" + text + "'");
  return named;
}

MatmulKernel to_kernel(python::StringArg kernel) {
  if (kernel.is_none()) return MatmulKernel::automatic;
  std::string text;
  if (nb::try_cast(kernel, text)) {
    if (text == "wgmma") return MatmulKernel::wgmma;
    if (text == "mma") return MatmulKernel::mma;
    if (text == "simt") return MatmulKernel::simt;
    if (text == "gemv") return MatmulKernel::gemv;
    if (text == "cublaslt") return MatmulKernel::cublaslt;
  }
  throw ArgumentError("matmul", "kernel", "be 'wgmma', 'mma', 'simt', 'gemv', 'cublaslt' or None",
                      nb::cast<std::string>(nb::str(kernel)));
}

MatmulOptions to_options(python::BoolArg use_tf32, python::StringArg precision, python::DTypeArg out_dtype,
                         python::StringArg kernel) {
  return {to_precision(use_tf32, precision), python::to_optional_dtype(out_dtype), to_kernel(kernel)};
}

}  // namespace

void bind_matmul(nb::module_& m) {
  m.def(
      "matmul",
      [](python::ArrayArg a, python::ArrayArg b, python::ArrayArg out, python::BoolArg use_tf32,
         python::StringArg precision, python::DTypeArg out_dtype, python::StringArg kernel) {
        const Array& left = python::to_array("matmul", "a", a);
        const Array& right = python::to_array("matmul", "b", b);
        const MatmulOptions options = to_options(use_tf32, precision, out_dtype, kernel);
        return python::with_out("matmul", out,
                                [&](const Array* target) { return matmul(left, right, target, options); });
      },
      "a"_a, "b"_a, nb::kw_only(), "out"_a = nb::none(), "use_tf32"_a = nb::none(), "precision"_a = nb::none(),
      "out_dtype"_a = nb::none(), "kernel"_a = nb::none(),
      "a @ b by NumPy's rules for every rank. float32 is exact; use_tf32=True (or precision='tf32') permits TF32, for "
      "float32 only.\n"
      "out_dtype may be wider than the inputs: float32 for float16 and bfloat16, int32 for int8 (int8 sums wrap "
      "around).\n"
      "kernel='wgmma', 'mma', 'simt', 'gemv' or 'cublaslt' insists on one kind of kernel of a GPU; see "
      "explain_matmul.");
  m.def("_force_wgmma_tile", &cuda::force_gemm90_tile, "rows"_a, "columns"_a, "swapped"_a, "blocks"_a = 1,
        "For measuring: matrix products of more than 64 rows take this tile of sm_90 alone; rows=0 ends it.");
  m.def(
      "explain_matmul",
      [](python::ArrayArg a, python::ArrayArg b, python::BoolArg use_tf32, python::StringArg precision,
         python::DTypeArg out_dtype, python::StringArg kernel) {
        const Array& left = python::to_array("explain_matmul", "a", a);
        const Array& right = python::to_array("explain_matmul", "b", b);
        const MatmulOptions options = to_options(use_tf32, precision, out_dtype, kernel);
        return python::in_scope([&] { return explain_matmul(left, right, options); });
      },
      "a"_a, "b"_a, nb::kw_only(), "use_tf32"_a = nb::none(), "precision"_a = nb::none(), "out_dtype"_a = nb::none(),
      "kernel"_a = nb::none(),
      "How matmul of the same arguments would be computed now, in one line: kernel, tiles, grid and the order of the "
      "sums.");
  m.def(
      "batched_matmul",
      [](python::ArrayArg a, python::ArrayArg b, python::ArrayArg out) {
        const Array& left = python::to_array("batched_matmul", "a", a);
        const Array& right = python::to_array("batched_matmul", "b", b);
        return python::with_out("batched_matmul", out,
                                [&](const Array* target) { return batched_matmul(left, right, target); });
      },
      "a"_a, "b"_a, nb::kw_only(), "out"_a = nb::none(),
      "Products of two 3-D or two 4-D arrays with equal batch dimensions.");
  m.def(
      "pack",
      [](const python::ArrayObject& x) -> python::ArrayObject {
        const Array& source = python::to_array("pack", "x", x);
        if (is_packed_rows(source)) return x;
        return python::wrap(python::in_scope([&] { return pack(source); }));
      },
      "x"_a,
      "x in the layout that the matrix kernels of a GPU read fastest: the last axis dense, every row at a multiple of "
      "16 bytes. x itself where it lies so, else a copy. For weights [n, k], codes and scales, once.");
  m.def(
      "transpose",
      [](python::ArrayArg a, python::AxisArg axes) {
        const Array& x = python::to_array("transpose", "a", a);
        if (axes.is_none()) return python::wrap(transpose(x));
        return python::wrap(x.permute(python::to_dims("transpose", axes, "axes")));
      },
      "a"_a, "axes"_a = nb::none(), "The transposed view of a 2-D array, or a view with the axes in the given order.");
}

}  // namespace gpukit
