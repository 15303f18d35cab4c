// Between quantize.cpp and the two backends: everything is checked, results are allocated, arrays have three axes.
#pragma once

#include "gpukit/ops/quantize/quantize.h"
#include "gpukit/ops/quantize/quantize_space.cuh"

namespace gpukit {

/// tensor_scale: `scale` = the one scale of x. quantize: codes and the scales of blocks; `whole` is the scale of the
/// tensor where the format has one, else not defined.
namespace cpu {
void tensor_scale(const Array& scale, const Array& x, const QuantizeSpace& space);
void quantize(const Quantized& q, const Array& x, const Array& whole, const QuantizeSpace& space);
void dequantize(const Array& out, const Quantized& q, const DequantizeSpace& space);
}  // namespace cpu
namespace cuda {
void tensor_scale(const Array& scale, const Array& x, const QuantizeSpace& space);
void quantize(const Quantized& q, const Array& x, const Array& whole, const QuantizeSpace& space);
void dequantize(const Array& out, const Quantized& q, const DequantizeSpace& space);
}  // namespace cuda

}  // namespace gpukit
