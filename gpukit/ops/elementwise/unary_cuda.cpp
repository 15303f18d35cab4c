#include "gpukit/jit/kernel.h"
#include "gpukit/ops/common/map.h"
#include "gpukit/ops/elementwise/unary_impl.h"

namespace gpukit::cuda {

namespace {

constexpr const char* kBasicSource = "gpukit/ops/elementwise/unary.cuh";
constexpr const char* kMathSource = "gpukit/ops/elementwise/unary_math.cuh";

const std::vector<DType> kIntegers = {DType::int8,  DType::int16,  DType::int32,  DType::int64,
                                      DType::uint8, DType::uint16, DType::uint32, DType::uint64};
const std::vector<DType> kFloats = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

std::vector<std::string> names(const char* form, std::initializer_list<const char*> functions, const char* group) {
  std::vector<std::string> all;
  for (const char* f : functions)
    all.push_back(std::string("gpukit::map1<gpukit::") + form + "<gpukit::" + f + ",{T}>>");
  all.push_back(std::string("gpukit::map1_strided<gpukit::") + group + "<{T}>>");
  return all;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<std::string> kClamp = {"gpukit::map1<gpukit::Clamp<{T}>>"};

// Each list is in the order of UnaryOp, then the strided kernel of the group.
const jit::KernelSet integer_kernels(
    kBasicSource, names("Unary", {"Negative", "Absolute", "Sign", "SquareOf", "Relu", "Relu2"}, "BasicGroup") + kClamp,
    kIntegers);
const jit::KernelSet float_kernels(kBasicSource,
                                   names("Unary",
                                         {"Negative", "Absolute", "Sign", "SquareOf", "Relu", "Relu2", "Reciprocal",
                                          "Floor", "Ceil", "Round", "Trunc"},
                                         "BasicGroup") +
                                       kClamp +
                                       names("Predicate", {"IsNan", "IsInf", "IsFinite", "SignBit"}, "PredicateGroup"),
                                   kFloats);
const jit::KernelSet complex_kernels(kBasicSource,
                                     names("Unary", {"Negative", "SquareOf", "Reciprocal"}, "BasicGroup") +
                                         names("Predicate", {"IsNan", "IsInf", "IsFinite"}, "PredicateGroup"),
                                     {DType::complex64, DType::complex128});
/// By the real dtype.
const jit::KernelSet magnitude_kernels(kBasicSource,
                                       {"gpukit::map1<gpukit::Magnitude<{T}>>",
                                        "gpukit::map1_strided<gpukit::Magnitude<{T}>>"},
                                       {DType::float32, DType::float64});
const jit::KernelSet exponential_kernels(kMathSource,
                                         names("Math",
                                               {"Exp", "Expm1", "Log", "Log1p", "Log2", "Log10", "Sqrt", "Rsqrt",
                                                "Sigmoid", "Silu", "Gelu", "Tanh", "Erf"},
                                               "ExponentialGroup"),
                                         kFloats);
const jit::KernelSet trigonometric_kernels(
    kMathSource,
    names("Math", {"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"},
          "TrigonometricGroup"),
    kFloats);

int from(UnaryOp op, UnaryOp first) { return static_cast<int>(op) - static_cast<int>(first); }

/// kCost of Math in unary_math.cuh.
int math_cost(UnaryOp op, DType dtype) {
  const int costly = itemsize(dtype) == 2 ? 3 : 2;
  switch (op) {
    case UnaryOp::expm1:
    case UnaryOp::log1p:
    case UnaryOp::tanh:
    case UnaryOp::erf: return costly;
    default: return op >= UnaryOp::sin ? costly : 1;
  }
}

}  // namespace

MapKernels unary_kernels(UnaryOp op, DType dtype) {
  auto at = [dtype](const jit::KernelSet& set, int contiguous, int strided, int cost) {
    return MapKernels{set.get(contiguous, dtype), set.get(strided, dtype), cost};
  };
  if (op >= UnaryOp::isnan) {
    const int index = from(op, UnaryOp::isnan);
    return is_complex(dtype) ? at(complex_kernels, 4 + index, 7, -1) : at(float_kernels, 13 + index, 17, -1);
  }
  if (op >= UnaryOp::sin) return at(trigonometric_kernels, from(op, UnaryOp::sin), 11, math_cost(op, dtype));
  if (op >= UnaryOp::exp) return at(exponential_kernels, from(op, UnaryOp::exp), 13, math_cost(op, dtype));
  if (is_complex(dtype)) return at(complex_kernels, op == UnaryOp::negative ? 0 : op == UnaryOp::square ? 1 : 2, 3, 0);
  return is_integer(dtype) ? at(integer_kernels, static_cast<int>(op), 6, 0)
                           : at(float_kernels, static_cast<int>(op), 11, 0);
}

void unary(UnaryOp op, const Array& out, const Array& a) {
  MapArgs args = {};
  args.code = static_cast<int32_t>(op);
  if (op == UnaryOp::abs && is_complex(a.dtype())) {
    const DType real = out.dtype();
    launch_map({magnitude_kernels.get(0, real), magnitude_kernels.get(1, real), 1}, out, &a, args);
    return;
  }
  launch_map(unary_kernels(op, a.dtype()), out, &a, args);
}

void clamp(const Array& out, const Array& a, const ElementBytes& low, const ElementBytes& high) {
  MapArgs args = {};
  set_scalar(args, 1, low);
  set_scalar(args, 2, high);
  args.code = static_cast<int32_t>(UnaryOp::clamp);
  // After the group's strided kernel, which serves clamp too.
  const jit::KernelSet& set = is_integer(a.dtype()) ? integer_kernels : float_kernels;
  const int strided = is_integer(a.dtype()) ? 6 : 11;
  launch_map({set.get(strided + 1, a.dtype()), set.get(strided, a.dtype()), 0}, out, &a, args);
}

}  // namespace gpukit::cuda
