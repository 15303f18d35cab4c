// Layers that Kokoro's networks are made of, and where their weights come from.
//
// Sequences are [steps, width] or channels first, [1, channels, steps]. Everything is issued on the current stream.
// Results lie in `room`, or in `out`; nothing else is allocated, so that a graph can capture every layer.
#pragma once

#include <string>
#include <vector>

#include "gpukit/io/safetensors.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/conv/conv.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/ops/recurrent/lstm.h"

namespace gpukit::tts {

struct Linear {
  Weight weight;
  Array bias;
  Array operator()(const Array& x, Temporaries& room, LinearOptions options = {}) const;
  void into(const Array& x, const Array& out, LinearOptions options = {}) const;
};

struct Conv {
  Array weight;
  ConvTransposeOptions options;  // output_padding is of the transposed one
  bool transposed = false;
  Array operator()(const Array& x, Temporaries& room) const;
  void into(const Array& x, const Array& out) const;
  /// The result's, of that of x.
  Dims shape(const Dims& x) const;
};

struct BiLstm {
  LstmWeights forward, backward;
  /// [1, steps, inputs] -> [1, steps, 2 hidden].
  Array operator()(const Array& x, Temporaries& room) const;
  void into(const Array& x, const Array& out, Temporaries& room) const;
};

/// A layer's gamma and beta among the values that one style gives.
struct StyleSlot {
  int64_t at = 0, channels = 0;
  Array gamma(const Array& styles) const;  // [1, channels]
  Array beta(const Array& styles) const;
};

/// The projections of a style by all layers of a network, as one product.
struct StyleTable {
  Linear projection;
  /// [1, style] -> [1, all values].
  Array operator()(const Array& style, Temporaries& room) const { return projection(style, room); }
};

/// The tensors of a checkpoint as layers, in one dtype on one device. Errors name the tensor.
class Loader {
 public:
  Loader(const io::TensorFile& file, Device device, DType dtype) : file_(file), device_(device), dtype_(dtype) {}

  /// The size of an axis that the configuration does not tell. Throws NotFoundError; FormatError for another rank.
  int64_t size(const std::string& name, int rank, int axis) const;
  /// Throws NotFoundError; FormatError for another shape.
  Array tensor(const std::string& name, const Dims& shape) const;
  Linear linear(const std::string& name, int64_t out, int64_t in) const;
  /// Several layers of one input as one.
  Linear joined(const std::vector<std::string>& names, int64_t out, int64_t in) const;
  /// weight_g and weight_v folded, or a plain weight; the bias where it is stored. `shape` is the weight's.
  Conv conv(const std::string& name, const Dims& shape, int64_t padding, int64_t stride = 1,
            int64_t dilation = 1) const;
  Conv conv_transpose(const std::string& name, const Dims& shape, int64_t padding, int64_t stride,
                      int64_t output_padding = 0, int64_t groups = 1) const;
  BiLstm lstm(const std::string& name, int64_t in, int64_t hidden) const;
  /// The layer's place in the next styles().
  StyleSlot style(const std::string& name, int64_t channels);
  StyleTable styles(int64_t style_dim);

  const io::TensorFile& file() const { return file_; }
  Device device() const { return device_; }
  DType dtype() const { return dtype_; }

 private:
  const Dims& stored_shape(const std::string& name) const;
  Array host(const std::string& name, const Dims& shape) const;
  Array moved(const Array& host) const;
  Array conv_weight(const std::string& name, const Dims& shape) const;
  Array laid_out(const Array& weight, bool transposed) const;

  const io::TensorFile& file_;
  Device device_;
  DType dtype_;
  std::vector<std::pair<std::string, int64_t>> slots_;
  int64_t slots_end_ = 0;
};

}  // namespace gpukit::tts
