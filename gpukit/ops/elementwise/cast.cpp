#include "gpukit/ops/elementwise/cast.h"

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/cast_impl.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

void check_pair(const char* op, DType from, DType to) {
  if (is_packed(from) || is_packed(to))
    throw DTypeError(op, "dtype", "not be packed (quantize and dequantize take int4 and float4_e2m1)",
                     std::string(name(from)) + " to " + name(to));
  if (is_complex(from) && !is_complex(to) && to != DType::boolean)
    throw DTypeError(op, "dtype", "be complex (for one part use real(x), imag(x) or abs(x))",
                     std::string(name(from)) + " to " + name(to));
}

void submit(const Array& out, const Array& input) {
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::cast(out, input); break;
    case DeviceKind::cuda: cuda::cast(out, input); break;
  }
}

Array named_cast(const char* op, const Array& src, DType from, DType to, const Array* out) {
  check_dtype(op, "src", src, from);
  return cast(op, src, to, out);
}

}  // namespace

Array cast(const char* op, const Array& input, DType dtype, const Array* out) {
  if (input.dtype() != dtype) check_pair(op, input.dtype(), dtype);
  Array target = result(op, out, input.shape(), dtype, input.device());
  if (input.dtype() == dtype) {
    copy_into(target, input);
  } else if (out != nullptr && may_share_memory(*out, input)) {
    // Elements of another size never line up in place.
    Temporaries temporaries(op);
    const Array buffer = temporaries.empty(input.shape(), dtype, input.device());
    submit(buffer, input);
    copy_into(target, buffer);
  } else {
    submit(target, input);
  }
  return target;
}

Array astype(const Array& input, DType dtype, bool copy) {
  if (input.dtype() == dtype && !copy) return input;
  return cast("astype", input, dtype);
}

Array astype(const Array& input, DType dtype, Temporaries& into) {
  if (input.dtype() == dtype) return input;
  const Array out = into.empty(input.shape(), dtype, input.device());
  return cast(into.op(), input, dtype, &out);
}

Array cast_f32_to_bf16(const Array& src, const Array* out) {
  return named_cast("cast_f32_to_bf16", src, DType::float32, DType::bfloat16, out);
}
Array cast_f32_to_f16(const Array& src, const Array* out) {
  return named_cast("cast_f32_to_f16", src, DType::float32, DType::float16, out);
}
Array cast_bf16_to_f32(const Array& src, const Array* out) {
  return named_cast("cast_bf16_to_f32", src, DType::bfloat16, DType::float32, out);
}
Array cast_f16_to_f32(const Array& src, const Array* out) {
  return named_cast("cast_f16_to_f32", src, DType::float16, DType::float32, out);
}

namespace {

Array part(const char* op, const Array& input, int64_t which) {
  if (!is_complex(input.dtype())) unsupported_dtype(op, "input", input.dtype(), "have a complex dtype");
  const DType dtype = real_of(input.dtype());
  Dims strides = input.strides();
  for (int64_t& s : strides) s *= 2;
  return Array(input.storage(), dtype, input.shape(), strides, input.offset_bytes() + which * itemsize(dtype));
}

}  // namespace

Array real(const Array& input) { return is_complex(input.dtype()) ? part("real", input, 0) : input; }
Array imag(const Array& input) { return part("imag", input, 1); }

}  // namespace gpukit
