#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/map.h"
#include "gpukit/ops/common/trace.h"
#include "gpukit/ops/elementwise/cast_impl.h"

namespace gpukit::cuda {

namespace {

constexpr const char* kSource = "gpukit/ops/elementwise/cast.cuh";

/// dtypes whose conversions among themselves have contiguous kernels.
constexpr DType kCommon[] = {DType::boolean, DType::int8,     DType::int32,   DType::int64,  DType::uint8,
                             DType::float16, DType::bfloat16, DType::float32, DType::float64};
/// The floats have strided kernels too.
constexpr DType kFloats[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};
/// float8 is converted from and to these.
constexpr DType kBesideFloat8[] = {DType::float16, DType::bfloat16, DType::float32};
constexpr DType kFloat8[] = {DType::float8_e4m3, DType::float8_e5m2};

std::vector<std::string> names(const char* kernel, std::span<const DType> targets) {
  std::vector<std::string> all;
  for (DType to : targets)
    all.push_back(std::string("gpukit::") + kernel + "<gpukit::Cast<{T}," + kernel_type(to) + ">>");
  return all;
}

std::vector<DType> list(std::span<const DType> dtypes) { return {dtypes.begin(), dtypes.end()}; }

const jit::KernelSet common_kernels(kSource, names("map1", kCommon), list(kCommon));
const jit::KernelSet strided_kernels(kSource, names("map1_strided", kFloats), list(kFloats));
const jit::KernelSet to_float8_kernels(kSource, names("map1", kFloat8), list(kBesideFloat8));
const jit::KernelSet from_float8_kernels(kSource, names("map1", kBesideFloat8), list(kFloat8));
const jit::KernelSet any_kernel("gpukit/ops/elementwise/cast_any.cuh", {"gpukit::cast_any"});

int place(std::span<const DType> dtypes, DType dtype) {
  return static_cast<int>(std::find(dtypes.begin(), dtypes.end(), dtype) - dtypes.begin());
}
bool contains(std::span<const DType> dtypes, DType dtype) {
  return place(dtypes, dtype) < static_cast<int>(dtypes.size());
}

/// Null for a pair that only cast_any serves.
const jit::Kernel* contiguous_kernel(DType from, DType to) {
  if (contains(kCommon, from) && contains(kCommon, to)) return &common_kernels.get(place(kCommon, to), from);
  if (contains(kBesideFloat8, from) && contains(kFloat8, to)) return &to_float8_kernels.get(place(kFloat8, to), from);
  if (contains(kFloat8, from) && contains(kBesideFloat8, to))
    return &from_float8_kernels.get(place(kBesideFloat8, to), from);
  return nullptr;
}

void launch_any(const Array& out, const Array& a) {
  if (out.size() == 0) return;
  const StridedSpace from = strided_space(out, {&a});
  KernelSpace<2> space = {};
  space.rank = from.rank;
  space.size = from.size;
  for (int axis = 0; axis < from.rank; ++axis) {
    space.shape[axis] = from.shape[axis];
    for (int i = 0; i < 2; ++i) space.strides[i][axis] = from.strides[i][axis];
  }
  constexpr int kThreads = 256;
  jit::launch(any_kernel.get(0), out.device(),
              {.grid_x = static_cast<unsigned>((from.size + kThreads - 1) / kThreads), .block_x = kThreads}, write(out),
              read(a), static_cast<int32_t>(a.dtype()), static_cast<int32_t>(out.dtype()), space);
}

}  // namespace

void cast(const Array& out, const Array& a) {
  const DType from = a.dtype(), to = out.dtype();
  // Every pair has a function; only kernels of the rare ones are missing.
  if (Trace* trace = current_trace()) [[unlikely]]
    return trace->add(out, {&a}, std::string("gpukit::Cast<") + kernel_type(from) + "," + kernel_type(to) + ">",
                      kSource, MapArgs{}, false);
  const jit::Kernel* contiguous = contiguous_kernel(from, to);
  const bool floats = contains(kFloats, from) && contains(kFloats, to);
  const bool flat = out.is_contiguous() && a.is_contiguous() && a.shape() == out.shape();
  if (contiguous == nullptr || (!flat && !floats)) return launch_any(out, a);
  const jit::Kernel& strided = floats ? strided_kernels.get(place(kFloats, to), from) : *contiguous;
  launch_map({*contiguous, strided, 0}, out, &a, MapArgs{});
}

}  // namespace gpukit::cuda
