#include "gpukit/ops/quantize/quantize.h"

#include <algorithm>
#include <string>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/scales.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/quantize/quantize_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit {
namespace {

bool is_16_or_32_bit_float(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32;
}

/// [batches, rows, columns]; more leading axes are merged, in a copy where strides do not allow a view.
Array with_three_axes(const Array& x, Temporaries& into) {
  if (x.ndim() == 1) return x.expand_dims(0).expand_dims(0);
  if (x.ndim() == 2) return x.expand_dims(0);
  if (x.ndim() == 3) return x;
  int64_t batches = 1;
  for (int axis = 0; axis < x.ndim() - 2; ++axis) batches *= x.shape(axis);
  const Dims merged{batches, x.shape(-2), x.shape(-1)};
  return x.can_view(merged) ? x.reshape_view(merged) : contiguous(x, into).reshape_view(merged);
}

/// A scale as an array of the rank that scale_layout expects.
Array scale_axes(const Array& scale, int code_rank, Temporaries& into) {
  return scale.ndim() > 3 && scale.ndim() == code_rank ? with_three_axes(scale, into) : scale;
}

std::string text_of(const QuantizeBlock& block) {
  if (block.rows == 0 && block.columns == 0) return "the whole tensor";
  if (block.columns == 0) return std::to_string(block.rows) + " whole row(s)";
  return "[" + std::to_string(block.rows) + ", " + std::to_string(block.columns) + "]";
}

void check_block(DType format, const QuantizeOptions& options) {
  const QuantizeBlock& b = options.block;
  const bool plain = (b.rows == 0 && b.columns == 0) || (b.rows == 1 && b.columns == 0);
  const auto require = [&](bool valid, const char* needed) {
    if (!valid) throw ArgumentError("quantize", "block", std::string(needed) + " for " + name(format), text_of(b));
  };
  switch (format) {
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      require(plain || (b.columns == 128 && (b.rows == 1 || b.rows == 128)), "be tensor, row, [1, 128] or [128, 128]");
      break;
    case DType::int8: require(plain, "be tensor or row"); break;
    case DType::int4: {
      const bool group = b.rows == 1 && (b.columns == 32 || b.columns == 64 || b.columns == 128);
      if (options.zero_point)
        require(group, "be [1, 32], [1, 64] or [1, 128] with zero points");
      else
        require(plain || group, "be tensor, row, [1, 32], [1, 64] or [1, 128]");
      break;
    }
    case DType::float4_e2m1:
      require(b.rows == 1 && (b.columns == 16 || b.columns == 32), "be [1, 16] or [1, 32]");
      break;
    default:
      throw DTypeError("quantize", "format", "be float8_e4m3, float8_e5m2, int8, int4 or float4_e2m1", name(format));
  }
  if (options.zero_point && format != DType::int4)
    throw ArgumentError("quantize", "zero_point", "be False for anything but int4",
                        std::string("True for ") + name(format));
}

/// Blocks for kernels that only share out the work of one scale.
constexpr int64_t kWorkColumns = 4096;

QuantizeSpace make_space(const Array& x, Code code, const QuantizeBlock& block) {
  QuantizeSpace s = {};
  s.batches = x.shape(0);
  s.rows = x.shape(1);
  s.columns = x.shape(2);
  s.x_batch = x.strides()[0];
  s.x_row = x.strides()[1];
  s.x_column = x.strides()[2];
  s.code = code;
  s.whole = block.rows == 0 ? 1 : 0;
  s.block_rows = block.rows == 0 ? 1 : block.rows;
  s.block_columns = block.columns != 0 ? block.columns : s.whole != 0 ? std::min(s.columns, kWorkColumns) : s.columns;
  // Pairs of columns do not lie across blocks.
  s.block_columns += s.block_columns % 2;
  s.row_blocks = make_divisor(ceil_div(s.rows, s.block_rows));
  s.column_blocks = make_divisor(ceil_div(s.columns, s.block_columns));
  s.blocks = s.batches * s.row_blocks.value * s.column_blocks.value;
  return s;
}

Dims scale_shape(const Dims& x, const QuantizeBlock& block) {
  if (block.rows == 0) return {};
  const int rank = x.rank();
  Dims shape;
  for (int axis = 0; axis < rank - 2; ++axis) shape.push_back(x[axis]);
  shape.push_back(rank == 1 ? 1 : ceil_div(x[rank - 2], block.rows));
  shape.push_back(block.columns == 0 ? 1 : ceil_div(x[rank - 1], block.columns));
  return shape;
}

void submit_tensor_scale(const Array& scale, const Array& x, const QuantizeSpace& space) {
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::tensor_scale(scale, x, space); break;
    case DeviceKind::cuda: cuda::tensor_scale(scale, x, space); break;
  }
}

/// One of the results: new, or the caller's, which is written as if row-major.
Array part(const Quantized* out, const Array Quantized::*member, const char* argument, const Array& x,
           const Dims& shape, DType dtype) {
  if (out == nullptr) return result("quantize", nullptr, shape, dtype, x.device());
  const Array& given = out->*member;
  if (!given.defined())
    throw ArgumentError("quantize", argument, "be an array of shape " + shape.str() + " and dtype " + name(dtype),
                        "None");
  check_shape("quantize", argument, given, shape);
  check_dtype("quantize", argument, given, dtype);
  check_same_device("quantize", x, given);
  if (!given.is_contiguous() || may_share_memory(given, x))
    throw ArgumentError("quantize", argument, "be row-major and share no memory with x", "another view");
  return given;
}

}  // namespace

Quantized quantize(const Array& x, DType format, const QuantizeOptions& options, const Quantized* out) {
  check_block(format, options);
  if (!is_16_or_32_bit_float(x.dtype()))
    throw DTypeError("quantize", "x", "have dtype float16, bfloat16 or float32", name(x.dtype()));
  if (x.ndim() == 0) throw ShapeError("quantize", "x", "have at least one dimension", "a 0-d array");
  const bool packed = is_packed(format);
  if (packed && x.shape(-1) % 2 != 0)
    throw ShapeError("quantize", "x", std::string("have an even number of columns for ") + name(format),
                     x.shape().str());

  Dims codes = x.shape();
  if (packed) codes[codes.rank() - 1] /= 2;
  const bool nvfp4 = format == DType::float4_e2m1, whole = options.block.rows == 0;
  const Dims scales = scale_shape(x.shape(), options.block);
  Quantized q(part(out, &Quantized::data, "data", x, codes, format),
              part(out, &Quantized::scale, "scale", x, scales, nvfp4 ? DType::float8_e4m3 : DType::float32));
  if (options.zero_point) q.zero = part(out, &Quantized::zero, "zero", x, scales, DType::int8);
  if (nvfp4 && options.tensor_scale)
    q.tensor_scale = part(out, &Quantized::tensor_scale, "tensor_scale", x, {}, DType::float32);

  const Array tensor = whole ? q.scale : q.tensor_scale;
  if (x.size() == 0) {
    // The scales of nothing: of rows without columns, or of the tensor.
    if (q.scale.size() > 0) fill(q.scale, 0x1p-126);
    if (q.zero.defined()) fill(q.zero, 0);
    if (q.tensor_scale.defined()) fill(q.tensor_scale, 0x1p-126);
    return q;
  }
  Temporaries temporaries("quantize");
  const Array numbers = with_three_axes(x, temporaries);
  const QuantizeSpace space = make_space(numbers, code_of("quantize", "format", format), options.block);
  if (tensor.defined()) {
    fill(tensor, 0.0);
    submit_tensor_scale(tensor, numbers, make_space(numbers, space.code, kPerTensor));
  }
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::quantize(q, numbers, tensor, space); break;
    case DeviceKind::cuda: cuda::quantize(q, numbers, tensor, space); break;
  }
  return q;
}

void check_parts(const char* op, const Quantized& q, const PartNames& names, bool experts) {
  const DType format = q.data.dtype();
  const auto check = [&](const Array& part, const char* argument, DType dtype) {
    check_dtype(op, argument, part, dtype);
    if (!(part.device() == q.data.device()))
      throw DeviceError(std::string(op) + ": " + argument + " is on " + str(part.device()) + ", its codes are on " +
                        str(q.data.device()) + "; move one with x.to(device)");
  };
  const auto refuse = [&](const Array& part, const char* argument, const char* needed) {
    if (part.defined()) throw ArgumentError(op, argument, needed, std::string("one for ") + name(format));
  };
  const bool nvfp4 = format == DType::float4_e2m1;
  if (q.scale.defined()) check(q.scale, names.scale, nvfp4 ? DType::float8_e4m3 : DType::float32);
  if (nvfp4 && !q.scale.defined()) throw ArgumentError(op, names.scale, "be given for float4_e2m1", "None");
  if (format != DType::int4) {
    refuse(q.zero, names.zero, "be None for anything but int4");
  } else if (q.zero.defined()) {
    check(q.zero, names.zero, DType::int8);
    if (!q.scale.defined() || q.scale.shape() != q.zero.shape())
      throw ShapeError(op, names.zero, std::string("have the shape of ") + names.scale, q.zero.shape().str());
  }
  if (!nvfp4) {
    refuse(q.tensor_scale, names.tensor_scale, "be None for anything but float4_e2m1");
  } else if (q.tensor_scale.defined()) {
    check(q.tensor_scale, names.tensor_scale, DType::float32);
    const bool of_each = experts && q.tensor_scale.shape() == Dims{q.data.shape(0)};
    if (q.tensor_scale.size() != 1 && !of_each)
      throw ShapeError(op, names.tensor_scale, experts ? "be one number, or one for each expert" : "be one number",
                       q.tensor_scale.shape().str());
  }
}

Array dequantize(const Quantized& q, DType dtype, const Array* out) {
  constexpr const char* kOp = "dequantize";
  const Array& data = q.data;
  const DType format = data.dtype();
  if (!is_storage_only(format) && format != DType::int8)
    throw DTypeError(kOp, "data", "be float8_e4m3, float8_e5m2, int8, int4 or float4_e2m1", name(format));
  if (!is_16_or_32_bit_float(dtype)) throw DTypeError(kOp, "dtype", "be float16, bfloat16 or float32", name(dtype));
  if (data.ndim() == 0) throw ShapeError(kOp, "data", "have at least one dimension", "a 0-d array");
  if (!q.scale.defined()) throw ArgumentError(kOp, "scale", "be an array", "None");
  check_parts(kOp, q, {"scale", "zero", "tensor_scale"});

  Dims shape = data.shape();
  if (is_packed(format)) shape[shape.rank() - 1] *= 2;
  const Array target = result(kOp, out, shape, dtype, data.device());
  if (target.size() == 0) return target;
  Temporaries temporaries(kOp);
  const auto shared = [&](const Array& part) { return part.defined() && may_share_memory(target, part); };
  if (shared(data) || shared(q.scale) || shared(q.zero) || shared(q.tensor_scale) ||
      (data.ndim() > 3 && !target.is_contiguous())) {
    const Array fresh = temporaries.empty_like(target);
    dequantize(q, dtype, &fresh);
    copy_into(target, fresh);
    return target;
  }

  const Quantized codes(with_three_axes(data, temporaries), scale_axes(q.scale, data.ndim(), temporaries),
                        q.zero.defined() ? scale_axes(q.zero, data.ndim(), temporaries) : Array(), q.tensor_scale);
  const Array numbers = with_three_axes(target, temporaries);
  const CodeShape size = {numbers.shape(0), numbers.shape(1), numbers.shape(2)};
  DequantizeSpace s = {};
  s.size = numbers.size();
  s.rows = make_divisor(size.rows);
  s.columns = make_divisor(size.columns);
  s.out_batch = numbers.strides()[0];
  s.out_row = numbers.strides()[1];
  s.out_column = numbers.strides()[2];
  s.batch = codes.data.strides()[0];
  s.row = codes.data.strides()[1];
  s.column = codes.data.strides()[2];
  s.code = code_of(kOp, "data", format);
  s.scale = scale_layout(kOp, "scale", codes.scale, size, data.ndim() > 2);
  if (codes.zero.defined()) s.zero = scale_layout(kOp, "zero", codes.zero, size, data.ndim() > 2);
  switch (numbers.device().kind) {
    case DeviceKind::cpu: cpu::dequantize(numbers, codes, s); break;
    case DeviceKind::cuda: cuda::dequantize(numbers, codes, s); break;
  }
  return target;
}

}  // namespace gpukit
