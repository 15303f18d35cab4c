#include "gpukit/ops/matmul/matmul.h"

#include <array>
#include <string>
#include <utility>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/matmul_impl.h"

namespace gpukit {
namespace {

struct Shapes {
  Dims batch, out;
  int64_t m, n, k;
};

Dims batch_of(const Dims& shape) {
  return shape.rank() <= 2 ? Dims()
                           : Dims(std::span<const int64_t>(shape.data(), static_cast<size_t>(shape.rank() - 2)));
}

Shapes check_shapes(const char* op, const Dims& a, const Dims& b) {
  if (a.rank() == 0) throw ShapeError(op, "a", "have at least one dimension (2D for a matrix)", "a 0-d array");
  if (b.rank() == 0) throw ShapeError(op, "b", "have at least one dimension (2D for a matrix)", "a 0-d array");
  Shapes s;
  s.k = a[a.rank() - 1];
  s.m = a.rank() == 1 ? 1 : a[a.rank() - 2];
  s.n = b.rank() == 1 ? 1 : b[b.rank() - 1];
  const int64_t b_k = b.rank() == 1 ? b[0] : b[b.rank() - 2];
  if (s.k != b_k)
    throw ShapeError(std::string(op) + ": inner dimensions must be equal, got " + std::to_string(s.k) + " and " +
                     std::to_string(b_k) + " of shapes " + a.str() + " and " + b.str());
  s.batch = broadcast_shapes(op, batch_of(a), batch_of(b));
  s.out = s.batch;
  if (a.rank() > 1) s.out.push_back(s.m);
  if (b.rank() > 1) s.out.push_back(s.n);
  return s;
}

/// The result's dtype, and the one the inputs are cast to.
struct DTypes {
  DType input, out;
};

DTypes choose_dtypes(const char* op, const Array& a, const Array& b, std::optional<DType> asked) {
  check_arithmetic(op, "a", a);
  check_arithmetic(op, "b", b);
  const DType common = promote(op, a.dtype(), b.dtype());
  if (!asked) return {common, common};
  if (*asked == common || *asked == matmul_wide_dtype(common)) return {common, *asked};
  if (is_storage_only(*asked) || promote(op, common, *asked) != *asked)
    throw DTypeError(op, "out_dtype", std::string("hold every ") + gpukit::name(common), gpukit::name(*asked));
  return {*asked, *asked};
}

/// TF32 is for float32 alone. The CPU computes exactly, which every TF32 result is an approximation of.
void check_precision(const char* op, MatmulPrecision precision, const Array& a, const Array& b) {
  if (precision != MatmulPrecision::tf32) return;
  if (a.dtype() != DType::float32 || b.dtype() != DType::float32)
    throw Error(std::string(op) + ": use_tf32 needs float32 inputs, got " + name(a.dtype()) + " and " +
                name(b.dtype()));
}

/// Strides of x's batch axes against the batch shape: 0 where x is broadcast.
void set_batch_strides(int64_t* strides, const Array& x, const Dims& batch) {
  const int own = x.ndim() > 2 ? x.ndim() - 2 : 0;
  for (int axis = 0; axis < batch.rank(); ++axis) {
    const int at = axis - (batch.rank() - own);
    strides[axis] = at >= 0 && x.shape()[at] != 1 ? x.strides()[at] : 0;
  }
}

MatmulProblem make_problem(const Dims& out_strides, const Array& a, const Array& b, const Shapes& s) {
  MatmulProblem problem = {};
  problem.m = s.m;
  problem.n = s.n;
  problem.k = s.k;
  problem.a_k = a.strides()[a.ndim() - 1];
  problem.a_m = a.ndim() == 1 ? 0 : a.strides()[a.ndim() - 2];
  problem.b_n = b.ndim() == 1 ? 0 : b.strides()[b.ndim() - 1];
  problem.b_k = b.ndim() == 1 ? b.strides()[0] : b.strides()[b.ndim() - 2];
  int axis = out_strides.rank();
  problem.out_n = b.ndim() == 1 ? 0 : out_strides[--axis];
  problem.out_m = a.ndim() == 1 ? 0 : out_strides[--axis];
  problem.batches = s.batch.product();
  problem.batch_rank = s.batch.rank();
  for (int i = 0; i < s.batch.rank(); ++i) {
    problem.batch_shape[i] = s.batch[i];
    problem.batch_out[i] = out_strides[i];
  }
  set_batch_strides(problem.batch_a, a, s.batch);
  set_batch_strides(problem.batch_b, b, s.batch);
  return problem;
}

const char* name(MatmulKernel kernel) {
  constexpr const char* kNames[] = {"automatic", "wgmma", "mma", "simt", "gemv", "cublaslt"};
  return kNames[static_cast<int>(kernel)];
}

bool share_memory(const Array& a, const Array& b) {
  return a.storage() == b.storage() && (a.offset_bytes() == b.offset_bytes() || partially_overlap(a, b));
}

/// `x` in `dtype`, cast where it has another.
Array to_dtype(const Array& x, DType dtype, Temporaries& temporaries) {
  if (x.dtype() == dtype) return x;
  const Array made = temporaries.empty(x.shape(), dtype, x.device());
  return cast(temporaries.op(), x, dtype, &made);
}

}  // namespace

Array matmul_product(const char* op, const Array& a, const Array& b, const MatmulOptions& options, const Array* out) {
  check_same_device(op, a, b);
  const Shapes shapes = check_shapes(op, a.shape(), b.shape());
  check_precision(op, options.precision, a, b);
  check_kernel(op, options.kernel, a.device());
  const DTypes dtypes = choose_dtypes(op, a, b, options.out_dtype);
  Array result = gpukit::result(op, out, shapes.out, dtypes.out, a.device());
  if (result.size() == 0) return result;
  Temporaries temporaries(op);
  const Array left = to_dtype(a, dtypes.input, temporaries), right = to_dtype(b, dtypes.input, temporaries);
  // Every output element reads whole rows and columns: no sharing at all, not even of equal views.
  const bool buffer = out != nullptr && (share_memory(result, left) || share_memory(result, right));
  const Array target = buffer ? temporaries.empty_like(result) : result;
  const MatmulProblem problem = make_problem(target.strides(), left, right, shapes);
  switch (target.device().kind) {
    case DeviceKind::cpu: cpu::matmul(target, left, right, problem); break;
    case DeviceKind::cuda: cuda::matmul(target, left, right, problem, options); break;
  }
  if (buffer) copy_into(result, target);
  return result;
}

void subtract_product(const char* op, const Array& out, const Array& a, const Array& b) {
  const Shapes shapes = check_shapes(op, a.shape(), b.shape());
  check_shape(op, "out", out, shapes.out);
  check_dtype(op, "b", b, a.dtype());
  check_dtype(op, "out", out, a.dtype());
  if (a.dtype() != DType::float32 && a.dtype() != DType::float64 && !is_complex(a.dtype()))
    unsupported_dtype(op, "a", a.dtype(), "have dtype float32, float64, complex64 or complex128");
  if (out.size() == 0 || shapes.k == 0) return;
  MatmulProblem problem = make_problem(out.strides(), a, b, shapes);
  problem.subtracts = 1;
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::matmul(out, a, b, problem); break;
    case DeviceKind::cuda:
      cuda::matmul(out, a, b, problem, {.precision = MatmulPrecision::exact, .kernel = MatmulKernel::simt});
      break;
  }
}

MatmulProblem matrix_problem(const Dims& out_strides, const Array& a, const Array& b) {
  return make_problem(out_strides, a, b, {{}, {}, a.shape(0), b.shape(1), a.shape(1)});
}

void check_kernel(const char* op, MatmulKernel kernel, Device device) {
  if (kernel == MatmulKernel::automatic || device.kind == DeviceKind::cuda) return;
  throw UnsupportedError(std::string(op) + ": kernel '" + name(kernel) + "' is one of a GPU, a is on " + str(device) +
                         "; the CPU has one kernel, which serves with kernel=None");
}

MatmulProblem transposed(const MatmulProblem& s) {
  MatmulProblem t = s;
  std::swap(t.m, t.n);
  std::swap(t.out_m, t.out_n);
  t.a_m = s.b_n;
  t.a_k = s.b_k;
  t.b_k = s.a_k;
  t.b_n = s.a_m;
  std::swap(t.batch_a, t.batch_b);
  return t;
}

bool same_product(const MatmulProblem& a, const MatmulProblem& b) {
  const auto sizes = [](const MatmulProblem& s) {
    return std::array{s.m, s.n, s.k, s.a_m, s.a_k, s.b_k, s.b_n, s.out_m, s.out_n, s.batches};
  };
  if (sizes(a) != sizes(b) || a.batch_rank != b.batch_rank) return false;
  for (int axis = 0; axis < a.batch_rank; ++axis)
    if (a.batch_shape[axis] != b.batch_shape[axis] || a.batch_a[axis] != b.batch_a[axis] ||
        a.batch_b[axis] != b.batch_b[axis] || a.batch_out[axis] != b.batch_out[axis])
      return false;
  return true;
}

std::optional<int64_t> one_batch_stride(const MatmulProblem& s, const int64_t* strides) {
  std::optional<int64_t> inner;
  int64_t next = 0;
  for (int axis = s.batch_rank - 1; axis >= 0; --axis) {
    if (s.batch_shape[axis] == 1) continue;
    if (inner && strides[axis] != next) return std::nullopt;
    if (!inner) inner = strides[axis];
    next = strides[axis] * s.batch_shape[axis];
  }
  return inner.value_or(0);
}

DType matmul_wide_dtype(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16: return DType::float32;
    case DType::int8: return DType::int32;
    default: return dtype;
  }
}

Array matmul(const Array& a, const Array& b, const Array* out, const MatmulOptions& options) {
  return matmul_product("matmul", a, b, options, out);
}

std::string explain_matmul(const Array& a, const Array& b, const MatmulOptions& options) {
  constexpr const char* kOp = "explain_matmul";
  check_same_device(kOp, a, b);
  const Shapes shapes = check_shapes(kOp, a.shape(), b.shape());
  check_precision(kOp, options.precision, a, b);
  check_kernel(kOp, options.kernel, a.device());
  const DTypes dtypes = choose_dtypes(kOp, a, b, options.out_dtype);
  std::string text = a.shape().str() + " x " + b.shape().str() + " of " + name(dtypes.input) + " into " +
                     name(dtypes.out) + " on " + str(a.device()) + ": ";
  if (shapes.out.product() == 0) return text + "nothing to compute";
  const MatmulProblem problem = make_problem(contiguous_strides(shapes.out), a, b, shapes);
  switch (a.device().kind) {
    case DeviceKind::cpu: text += "packed blocks, one fused multiply-add for each k in ascending order"; break;
    case DeviceKind::cuda: text += cuda::explain_matmul(a, b, dtypes.out, problem, options); break;
  }
  return text;
}

Array batched_matmul(const Array& a, const Array& b, const Array* out) {
  if (a.ndim() != b.ndim() || (a.ndim() != 3 && a.ndim() != 4))
    throw ShapeError(
        "batched_matmul: a and b must both have 3 dimensions or both 4 (a plain 2D product is matmul), got " +
        a.shape().str() + " and " + b.shape().str());
  for (int axis = 0; axis < a.ndim() - 2; ++axis)
    if (a.shape()[axis] != b.shape()[axis])
      throw ShapeError("batched_matmul: batch dimensions must be equal, got " + a.shape().str() + " and " +
                       b.shape().str());
  return matmul_product("batched_matmul", a, b, {}, out);
}

Array transpose(const Array& a) {
  if (a.ndim() != 2) throw ShapeError("transpose", "a", "be a 2D array (2 dimensions)", a.shape().str());
  return a.transpose();
}

}  // namespace gpukit
