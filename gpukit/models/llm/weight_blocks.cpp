#include "gpukit/models/llm/weight_blocks.h"

#include <algorithm>
#include <cstring>

#include "gpukit/base/half.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::llm {

namespace {

constexpr size_t kEnough = size_t{64} << 20;        // bytes that are moved together at most
constexpr size_t kLeast = (size_t{1} << 20) + 256;  // of a block that can drop its pages
constexpr size_t kAlignment = 256;
constexpr int64_t kRunBytes = int64_t{1} << 20;  // of the file, that are turned or cast at once

bool is_number(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32; }

size_t span_bytes(const Array& array) {
  int64_t last = 0;
  for (int axis = 0; axis < array.ndim(); ++axis) last += (array.shape()[axis] - 1) * array.strides()[axis];
  return array.size() == 0 ? 0 : static_cast<size_t>((last + 1) * itemsize(array.dtype()));
}

/// As ops do it.
template <typename To, typename From>
To cast_one(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else {
    float number;
    if constexpr (std::is_same_v<From, float>)
      number = x;
    else
      number = to_float(x);
    if constexpr (std::is_same_v<To, float>)
      return number;
    else if constexpr (std::is_same_v<To, half>)
      return to_half(number);
    else
      return to_bfloat16(number);
  }
}

template <typename F>
void with_number(DType dtype, F&& f) {
  if (dtype == DType::float16)
    f(half());
  else if (dtype == DType::bfloat16)
    f(bfloat16());
  else
    f(float());
}

void cast_run(void* to, DType to_dtype, const void* from, DType from_dtype, int64_t count) {
  if (to_dtype == from_dtype) {
    std::memcpy(to, from, static_cast<size_t>(count * itemsize(to_dtype)));
    return;
  }
  with_number(to_dtype, [&]<typename To>(To) {
    with_number(from_dtype, [&]<typename From>(From) {
      const auto* source = static_cast<const From*>(from);
      auto* target = static_cast<To*>(to);
      for (int64_t i = 0; i < count; ++i) target[i] = cast_one<To>(source[i]);
    });
  });
}

template <typename Word>
void scatter_rows(void* to, const void* from, int64_t rows, int64_t columns, int64_t first, int64_t stride) {
  auto* target = static_cast<Word*>(to);
  const auto* source = static_cast<const Word*>(from);
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row) target[column * stride + first + row] = source[row * columns + column];
}

/// Calls f on every array of a layer, of a weight, and puts there what f gives.
template <typename F>
void each_array(Array& array, F&& f) {
  if (array.defined()) array = f(array);
}
template <typename F>
Quantized parts_of(const Quantized& given, F&& f) {
  Quantized parts = given;
  for (Array* part : {&parts.data, &parts.scale, &parts.zero, &parts.tensor_scale}) each_array(*part, f);
  return parts;
}
template <typename F>
void each_array(Weight& weight, F&& f) {
  if (!weight.defined()) return;
  const Quantized parts = parts_of(weight.parts(), f);
  weight = weight.is_quantized() ? Weight(parts) : Weight(parts.data);
}
template <typename F>
void each_array(ExpertWeights& weights, F&& f) {
  if (!weights.defined()) return;
  const Quantized parts = parts_of(weights.parts(), f);
  weights = weights.is_quantized() ? ExpertWeights(parts) : ExpertWeights(parts.data);
}
template <typename F>
void each_array(Norm& norm, F&& f) {
  each_array(norm.gamma, f);
  each_array(norm.beta, f);
}
template <typename F>
void each_array(Linear& linear, F&& f) {
  each_array(linear.weight, f);
  each_array(linear.bias, f);
}
template <typename F>
void each_array(TransformerBlock& block, F&& f) {
  each_array(block.attn_norm, f);
  each_array(block.mlp_norm, f);
  AttentionLayer& attn = block.attn;
  for (Weight& part : attn.qkv) each_array(part, f);
  for (Array* array : {&attn.qkv_bias, &attn.q_norm, &attn.k_norm, &attn.cos, &attn.sin}) each_array(*array, f);
  each_array(attn.out, f);
  if (auto* dense = std::get_if<MlpLayer>(&block.mlp)) {
    for (Linear* linear : {&dense->gate, &dense->up, &dense->down}) each_array(*linear, f);
  } else {
    MoeWeights& moe = std::get<MoeLayer>(block.mlp).weights;
    for (Weight* weight : {&moe.router, &moe.shared_gate_up, &moe.shared_down, &moe.shared_gate})
      each_array(*weight, f);
    each_array(moe.gate_up, f);
    each_array(moe.down, f);
  }
}

}  // namespace

/// A run of bytes of a block and what it is made of.
struct WeightBlocks::Segment {
  size_t offset = 0, bytes = 0;
  std::vector<std::string> tensors;  // one, unless by columns
  DType from = DType::float32, to = DType::float32;
  int64_t rows = 0, columns = 0;  // by columns: of the whole matrix; else 0
};

class WeightBlocks::Source final : public memory::ByteSource {
 public:
  Source(io::TensorFile file, std::vector<Segment> segments) : file_(std::move(file)), segments_(std::move(segments)) {
    for (const Segment& s : segments_) parts_.push_back({s.offset, s.bytes, s.rows != 0});
  }
  const std::vector<Part>& parts() const override { return parts_; }

  void read(size_t offset, void* to, size_t bytes) override {
    const auto after = std::upper_bound(segments_.begin(), segments_.end(), offset,
                                        [](size_t at, const Segment& s) { return at < s.offset; });
    const Segment& segment = *(after - 1);
    if (segment.rows != 0) return read_by_columns(segment, to);
    const int64_t item = itemsize(segment.to), first = static_cast<int64_t>(offset - segment.offset) / item;
    read_numbers(segment.tensors.front(), segment, first, static_cast<int64_t>(bytes) / item, to);
  }

 private:
  void read_numbers(const std::string& tensor, const Segment& segment, int64_t first, int64_t count, void* to) const {
    const int64_t item = itemsize(segment.from);
    if (segment.from == segment.to) return file_.read_again(tensor, first * item, to, count * item);
    std::vector<std::byte> run(static_cast<size_t>(std::min(count * item, kRunBytes)));
    for (int64_t done = 0; done < count;) {
      const int64_t step = std::min(count - done, kRunBytes / item);
      file_.read_again(tensor, (first + done) * item, run.data(), step * item);
      cast_run(static_cast<char*>(to) + done * itemsize(segment.to), segment.to, run.data(), segment.from, step);
      done += step;
    }
  }

  void read_by_columns(const Segment& segment, void* to) const {
    const int64_t item = itemsize(segment.to);
    const int64_t most = std::max<int64_t>(kRunBytes / (segment.columns * item), 1);
    std::vector<std::byte> run;
    int64_t row = 0;
    for (const std::string& tensor : segment.tensors) {
      const int64_t rows = file_.info(tensor).shape[0];
      for (int64_t done = 0; done < rows;) {
        const int64_t step = std::min(rows - done, most);
        run.resize(static_cast<size_t>(step * segment.columns * item));
        read_numbers(tensor, segment, done * segment.columns, step * segment.columns, run.data());
        if (item == 2)
          scatter_rows<uint16_t>(to, run.data(), step, segment.columns, row + done, segment.rows);
        else
          scatter_rows<uint32_t>(to, run.data(), step, segment.columns, row + done, segment.rows);
        done += step;
      }
      row += rows;
    }
  }

  const io::TensorFile file_;
  const std::vector<Segment> segments_;  // ascending
  std::vector<Part> parts_;
};

void WeightBlocks::note(const Array& array, std::vector<std::string> tensors, bool turned) {
  origins_[array.storage()] = {std::move(tensors), turned};
}

/// Empty where the bytes cannot be had from the file again.
std::vector<WeightBlocks::Segment> WeightBlocks::segments_of(const Array& array, size_t at) const {
  const auto found = origins_.find(array.storage());
  if (found == origins_.end() || array.offset_bytes() != 0 || array.size() == 0) return {};
  const Origin& origin = found->second;
  const bool by_rows = array.is_contiguous();
  const bool by_columns = !by_rows && array.ndim() == 2 && array.transpose().is_contiguous();
  if (!by_rows && !by_columns) return {};
  const bool turn = by_columns != origin.turned;
  if ((origin.turned && origin.tensors.size() > 1) || (turn && array.device().kind != DeviceKind::cpu)) return {};
  // A turned matrix by rows is its tensor read by columns, which no loader asks for where the host can write.
  if (turn && origin.turned) return {};
  Segment segment{at, static_cast<size_t>(array.nbytes()), {}, {}, array.dtype(), 0, 0};
  std::vector<Segment> segments;
  int64_t size = 0;
  for (const std::string& tensor : origin.tensors) {
    if (!file_.contains(tensor)) return {};
    const io::TensorInfo& info = file_.info(tensor);
    const bool castable = is_number(info.dtype) && is_number(array.dtype());
    if (info.dtype != array.dtype() && !castable) return {};
    if (!segments.empty() && info.dtype != segment.from) return {};
    if (turn && (info.shape.rank() != 2 || info.shape[1] != array.shape(1) || !castable)) return {};
    segment.from = info.dtype;
    segment.tensors = {tensor};
    segment.bytes = static_cast<size_t>(info.shape.product() * itemsize(array.dtype()));
    segments.push_back(segment);
    segment.offset += segment.bytes;
    size += info.shape.product();
  }
  if (size != array.size()) return {};
  if (!turn) return segments;
  segment = {at,
             static_cast<size_t>(array.nbytes()),
             origin.tensors,
             segment.from,
             array.dtype(),
             array.shape(0),
             array.shape(1)};
  return {segment};
}

/// Where the arrays of one block go.
struct WeightBlocks::Placement {
  size_t bytes = 0;
  std::vector<std::pair<Array, size_t>> arrays;  // and their offsets
  std::vector<Segment> segments;
};

void WeightBlocks::move(CausalTransformer::Parts& parts, size_t first_block, bool all) {
  const auto visit = [&](auto&& f) {
    for (size_t i = first_block; i < parts.blocks.size(); ++i) each_array(parts.blocks[i], f);
    if (!all) return;
    each_array(parts.embed_tokens, f);
    each_array(parts.position_embed, f);
    each_array(parts.final_norm, f);
    each_array(parts.head, f);
  };
  const auto same = [](const Array& a, const Array& b) {
    return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes() && a.dtype() == b.dtype() &&
           a.shape() == b.shape() && a.strides() == b.strides();
  };
  Placement reread, kept;
  const auto place_of = [&](const Array& array) -> std::pair<Placement*, size_t> {
    for (Placement* placement : {&reread, &kept})
      for (const auto& [other, at] : placement->arrays)
        if (same(array, other)) return {placement, at};
    return {nullptr, 0};
  };
  visit([&](const Array& array) {
    if (blocks_.contains(array.storage().get()) || place_of(array).first != nullptr) return array;
    const auto round = [](size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
    const std::vector<Segment> segments = segments_of(array, reread.bytes);
    Placement& placement = segments.empty() ? kept : reread;
    placement.arrays.emplace_back(array, placement.bytes);
    placement.segments.insert(placement.segments.end(), segments.begin(), segments.end());
    placement.bytes += round(span_bytes(array));
    return array;
  });
  std::vector<std::pair<Placement*, std::shared_ptr<memory::Storage>>> made;
  for (Placement* placement : {&reread, &kept}) {
    if (placement->arrays.empty() || (!all && placement->bytes < kLeast)) continue;
    const Device device = residence_->account()->device();
    auto block = memory::Storage::allocate(*runtime::open_device(device).resource, std::max(placement->bytes, kLeast),
                                           runtime::current_stream(device), residence_->account());
    for (const auto& [array, at] : placement->arrays)
      runtime::copy_device({&block, static_cast<int64_t>(at), true}, read(array), span_bytes(array));
    memory::freeze(*block, placement == &kept ? nullptr : std::make_shared<Source>(file_, placement->segments));
    residence_->group().add(block);
    blocks_.insert(block.get());
    made.emplace_back(placement, std::move(block));
  }
  visit([&](const Array& array) {
    const auto [placement, at] = place_of(array);
    for (const auto& [filled, block] : made)
      if (filled == placement)
        return Array(block, array.dtype(), array.shape(), array.strides(), static_cast<int64_t>(at));
    return array;
  });
}

void WeightBlocks::added(CausalTransformer::Parts& parts) {
  size_t bytes = 0;
  for (size_t i = moved_blocks_; i < parts.blocks.size(); ++i)
    each_array(parts.blocks[i], [&](const Array& array) {
      bytes += blocks_.contains(array.storage().get()) ? 0 : span_bytes(array);
      return array;
    });
  // Two of each are there while they are moved: few where there is little room.
  if (bytes < std::clamp(residence_->account()->available() / 16, kLeast, kEnough)) return;
  move(parts, moved_blocks_, false);
  moved_blocks_ = parts.blocks.size();
}

void WeightBlocks::finish(CausalTransformer::Parts& parts) { move(parts, 0, true); }

}  // namespace gpukit::llm
