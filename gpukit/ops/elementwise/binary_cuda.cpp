#include "gpukit/jit/kernel.h"
#include "gpukit/ops/common/map.h"
#include "gpukit/ops/common/trace.h"
#include "gpukit/ops/elementwise/binary_impl.h"

namespace gpukit::cuda {

namespace {

constexpr const char* kSource = "gpukit/ops/elementwise/binary.cuh";

const std::vector<DType> kIntegers = {DType::int8,  DType::int16,  DType::int32,  DType::int64,
                                      DType::uint8, DType::uint16, DType::uint32, DType::uint64};
const std::vector<DType> kFloats = {DType::float16, DType::bfloat16, DType::float32, DType::float64};
const std::vector<DType> kComplex = {DType::complex64, DType::complex128};

std::vector<std::string> names(const char* form, std::initializer_list<const char*> functions,
                               std::initializer_list<const char*> groups) {
  std::vector<std::string> all;
  for (const char* f : functions)
    all.push_back(std::string("gpukit::map2<gpukit::") + form + "<gpukit::" + f + ",{T}>>");
  for (const char* g : groups) all.push_back(std::string("gpukit::map2_strided<gpukit::") + g + "<{T}>>");
  return all;
}

/// The place of `op` among the functions of a set that starts at `first`, and of the strided kernel that serves it.
struct Place {
  int contiguous, strided, cost;
};

const jit::KernelSet integer_kernels(
    kSource,
    names("Binary", {"Add", "Subtract", "Multiply", "Minimum", "Maximum", "Remainder", "FloorDivide", "Power"},
          {"ArithmeticGroup", "CostlyGroup"}),
    kIntegers);
const jit::KernelSet float_kernels(kSource,
                                   names("Binary",
                                         {"Add", "Subtract", "Multiply", "Divide", "Minimum", "Maximum", "Remainder",
                                          "FloorDivide", "Power", "Atan2", "Hypot", "CopySign", "LogAddExp",
                                          "NextAfter"},
                                         {"ArithmeticGroup", "CostlyGroup"}),
                                   kFloats);
const jit::KernelSet complex_kernels(kSource,
                                     names("Binary", {"Add", "Subtract", "Multiply", "Divide"}, {"ArithmeticGroup"}),
                                     kComplex);
const jit::KernelSet compare_kernels(kSource,
                                     names("Compare", {"Equal", "NotEqual", "Less", "LessEqual"}, {"CompareGroup"}),
                                     {DType::boolean, DType::int8, DType::int16, DType::int32, DType::int64,
                                      DType::uint8, DType::uint16, DType::uint32, DType::uint64, DType::float16,
                                      DType::bfloat16, DType::float32, DType::float64});
const jit::KernelSet complex_compare_kernels(kSource, names("Compare", {"Equal", "NotEqual"}, {"CompareGroup"}),
                                             kComplex);
const jit::KernelSet bitwise_kernels(kSource,
                                     names("Binary",
                                           {"BitAnd", "BitOr", "BitXor", "ShiftLeft", "ShiftRight", "ShiftRightSigned"},
                                           {"BitwiseGroup"}),
                                     {DType::uint8, DType::uint16, DType::uint32, DType::uint64});

/// Whole tiles of elements wider than a byte.
const jit::KernelSet tiled_arithmetic(kSource, {"gpukit::map2_tiled<gpukit::ArithmeticGroup<{T}>>"},
                                      {DType::int16, DType::int32, DType::int64, DType::uint16, DType::uint32,
                                       DType::uint64, DType::float16, DType::bfloat16, DType::float32, DType::float64,
                                       DType::complex64, DType::complex128});
const jit::KernelSet tiled_bitwise(kSource, {"gpukit::map2_tiled<gpukit::BitwiseGroup<{T}>>"},
                                   {DType::uint16, DType::uint32, DType::uint64});

/// Bits do not care for the sign: the unsigned integer of the same width.
DType bits_of(DType dtype) {
  switch (itemsize(dtype)) {
    case 1: return DType::uint8;
    case 2: return DType::uint16;
    case 4: return DType::uint32;
    default: return DType::uint64;
  }
}

Place integer_place(BinaryOp op) {
  switch (op) {
    case BinaryOp::add: return {0, 8, 0};
    case BinaryOp::subtract: return {1, 8, 0};
    case BinaryOp::multiply: return {2, 8, 0};
    case BinaryOp::minimum: return {3, 8, 0};
    case BinaryOp::maximum: return {4, 8, 0};
    case BinaryOp::remainder: return {5, 9, 2};
    case BinaryOp::floor_divide: return {6, 9, 2};
    default: return {7, 9, 3};
  }
}

MapKernels at(const jit::KernelSet& set, DType dtype, Place place) {
  return {set.get(place.contiguous, dtype), set.get(place.strided, dtype), place.cost};
}
MapKernels at(const jit::KernelSet& set, DType dtype, Place place, const jit::KernelSet& tiled) {
  MapKernels kernels = at(set, dtype, place);
  if (place.cost < 2 && itemsize(dtype) > 1) kernels.tiled = &tiled.get(0, dtype);
  return kernels;
}

}  // namespace

MapKernels binary_kernels(BinaryOp op, DType dtype) {
  const int number = static_cast<int>(op);
  if (op >= BinaryOp::bitwise_and)
    return at(bitwise_kernels, bits_of(dtype), {number - static_cast<int>(BinaryOp::bitwise_and), 6, 0}, tiled_bitwise);
  if (op >= BinaryOp::equal) {
    const int index = number - static_cast<int>(BinaryOp::equal);
    return is_complex(dtype) ? at(complex_compare_kernels, dtype, {index, 2, 0})
                             : at(compare_kernels, dtype, {index, 4, 0});
  }
  if (is_complex(dtype)) return at(complex_kernels, dtype, {number, 4, 0}, tiled_arithmetic);
  if (is_integer(dtype)) return at(integer_kernels, dtype, integer_place(op), tiled_arithmetic);
  const bool costly = op >= BinaryOp::remainder;
  const int strided = costly ? 15 : 14;
  int cost = costly ? 2 : 0;
  if (op == BinaryOp::power) cost = 3;
  return at(float_kernels, dtype, {number, strided, cost}, tiled_arithmetic);
}

namespace {

/// and, or, xor do not care where an element ends: bytes go four at a time where the layout allows.
bool binary_by_words(BinaryOp op, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (op < BinaryOp::bitwise_and || op > BinaryOp::bitwise_xor || itemsize(out.dtype()) != 1) return false;
  auto fits = [&](const Array* x) {
    return x == nullptr || (x->is_contiguous() && x->shape() == out.shape() && x->offset_bytes() % 4 == 0);
  };
  if (out.size() == 0 || out.size() % 4 != 0 || !fits(&out) || !fits(a.array) || !fits(b.array)) return false;
  auto words = [&](const Array& x) { return x.reshape_view({x.size()}).bitcast(DType::uint32); };
  MapArgs args = {};
  Array held[2];
  const Array* arrays[2] = {nullptr, nullptr};
  const ElementInput* inputs[2] = {&a, &b};
  for (int i = 0; i < 2; ++i) {
    if (inputs[i]->array != nullptr) {
      held[i] = words(*inputs[i]->array);
      arrays[i] = &held[i];
    } else {
      ElementBytes repeated;
      for (int byte = 0; byte < 4; ++byte) repeated.bytes[byte] = inputs[i]->scalar.bytes[0];
      set_scalar(args, i, repeated);
    }
  }
  args.code = static_cast<int32_t>(op);
  launch_map(binary_kernels(op, DType::uint32), words(out), arrays[0], arrays[1], args);
  return true;
}

}  // namespace

void binary(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (current_trace() == nullptr && binary_by_words(op, out, a, b)) return;
  MapArgs args = {};
  if (a.array == nullptr) set_scalar(args, 0, a.scalar);
  if (b.array == nullptr) set_scalar(args, 1, b.scalar);
  args.code = static_cast<int32_t>(op);
  launch_map(binary_kernels(op, dtype), out, a.array, b.array, args);
}

}  // namespace gpukit::cuda
