#include <algorithm>
#include <atomic>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/quantize/quantize_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements worth a thread

/// The part of one block that lies inside the array.
struct Block {
  int64_t row, column, rows, columns;
  int64_t x, code;  // element offsets of its first number and its first code

  Block(const QuantizeSpace& s, int64_t index) {
    const int64_t row_block = index / s.column_blocks.value;
    const int64_t batch = row_block / s.row_blocks.value;
    row = row_block % s.row_blocks.value * s.block_rows;
    column = index % s.column_blocks.value * s.block_columns;
    rows = std::min(s.block_rows, s.rows - row);
    columns = std::min(s.block_columns, s.columns - column);
    x = batch * s.x_batch + row * s.x_row + column * s.x_column;
    code = (batch * s.rows + row) * s.columns + column;
  }
};

template <typename T>
float largest_of(const T* x, const QuantizeSpace& s, const Block& at) {
  float largest = 0;
  for (int64_t row = 0; row < at.rows; ++row)
    for (int64_t c = 0; c < at.columns; ++c)
      largest = std::max(largest, finite_magnitude(load(x[at.x + row * s.x_row + c * s.x_column])));
  return largest;
}

/// The results of one quantisation; what the format does not have is null.
struct Results {
  uint8_t* data;
  void* scale;
  int8_t* zero;
  float whole;  // the scale of the tensor
};

template <typename T>
BlockScale make_scale(const Results& to, const T* x, const QuantizeSpace& s, const Block& at, int64_t index) {
  BlockScale by = {0.0f, 0};
  if (s.code == Code::float4_e2m1) {
    const float8_e4m3 block = nvfp4_block_scale(largest_of(x, s, at), to.whole);
    static_cast<uint8_t*>(to.scale)[index] = block.bits;
    by.divisor = to_float(block) * to.whole;
    return by;
  }
  if (s.whole != 0) {
    by.divisor = to.whole;
    return by;
  }
  if (to.zero != nullptr) {
    float low = 0, high = 0;
    for (int64_t c = 0; c < at.columns; ++c) {
      const float v = load(x[at.x + c * s.x_column]), m = finite_magnitude(v);
      if (v > 0)
        high = std::max(high, m);
      else
        low = std::min(low, -m);
    }
    by.divisor = asymmetric_scale(low, high);
    by.zero = zero_code(low, by.divisor);
    to.zero[index] = static_cast<int8_t>(by.zero);
  } else {
    by.divisor = symmetric_scale(largest_of(x, s, at), s.code);
  }
  static_cast<float*>(to.scale)[index] = by.divisor;
  return by;
}

template <typename T>
void quantize_block(const Results& to, const T* x, const QuantizeSpace& s, int64_t index) {
  const Block at(s, index);
  const BlockScale by = make_scale(to, x, s, at, index);
  const bool shifted = to.zero != nullptr;
  for (int64_t row = 0; row < at.rows; ++row) {
    const T* from = x + at.x + row * s.x_row;
    const auto code = [&](int64_t c) { return block_code(s.code, shifted, load(from[c * s.x_column]), by); };
    const int64_t start = at.code + row * s.columns;
    if (is_packed(s.code)) {
      for (int64_t c = 0; c < at.columns; c += 2)
        to.data[(start + c) / 2] = static_cast<uint8_t>(code(c) | code(c + 1) << 4);
    } else {
      for (int64_t c = 0; c < at.columns; ++c) to.data[start + c] = static_cast<uint8_t>(code(c));
    }
  }
}

template <typename F>
void visit_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16: return f.template operator()<half>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    default: return f.template operator()<float>();
  }
}

int64_t grain_of(const QuantizeSpace& s) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, s.block_rows * s.block_columns));
}

}  // namespace

void tensor_scale(const Array& scale, const Array& x, const QuantizeSpace& space) {
  visit_number(x.dtype(), [&]<typename T>() {
    runtime::run_host("tensor_scale", x.device(), {write(scale), read(x)}, [s = space](void* const* p) {
      // The bits of numbers that are not negative order like the numbers.
      std::atomic<uint32_t> largest = 0;
      parallel_for(s.blocks, grain_of(s), [&](int64_t begin, int64_t end) {
        float found = 0;
        for (int64_t i = begin; i < end; ++i)
          found = std::max(found, largest_of(static_cast<const T*>(p[1]), s, Block(s, i)));
        const uint32_t bits = bits_of_float(found);
        uint32_t seen = largest.load(std::memory_order_relaxed);
        while (seen < bits && !largest.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
        }
      });
      *static_cast<float*>(p[0]) = scale_of_tensor(s.code, float_of_bits(largest.load()));
    });
  });
}

void quantize(const Quantized& q, const Array& x, const Array& whole, const QuantizeSpace& space) {
  visit_number(x.dtype(), [&]<typename T>() {
    const bool has_zero = q.zero.defined(), has_whole = whole.defined();
    // A use that is not there repeats one that is; its address is not looked at.
    runtime::run_host(
        "quantize", x.device(),
        {write(q.data), write(q.scale), write(has_zero ? q.zero : q.scale), read(has_whole ? whole : x), read(x)},
        [=, s = space](void* const* p) {
          const Results to{static_cast<uint8_t*>(p[0]), p[1], has_zero ? static_cast<int8_t*>(p[2]) : nullptr,
                           has_whole ? *static_cast<const float*>(p[3]) : 1.0f};
          parallel_for(s.blocks, grain_of(s), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) quantize_block(to, static_cast<const T*>(p[4]), s, i);
          });
        });
  });
}

void dequantize(const Array& out, const Quantized& q, const DequantizeSpace& space) {
  visit_number(out.dtype(), [&]<typename T>() {
    const bool has_zero = q.zero.defined(), has_whole = q.tensor_scale.defined();
    runtime::run_host(
        "dequantize", out.device(),
        {write(out), read(q.data), read(q.scale), read(has_zero ? q.zero : q.scale),
         read(has_whole ? q.tensor_scale : q.scale)},
        [=, s = space](void* const* p) {
          const auto* data = static_cast<const uint8_t*>(p[1]);
          const auto* zero = has_zero ? static_cast<const int8_t*>(p[3]) : nullptr;
          const float whole = has_whole ? *static_cast<const float*>(p[4]) : 1.0f;
          const int64_t columns = s.columns.value;
          parallel_for(s.size / columns, std::max<int64_t>(1, kGrain / columns), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const int64_t row = i % s.rows.value, batch = i / s.rows.value;
              T* to = static_cast<T*>(p[0]) + batch * s.out_batch + row * s.out_row;
              for (int64_t c = 0; c < columns; ++c) {
                const int64_t at = is_packed(s.code) ? c / 2 : c;
                const uint8_t byte = data[batch * s.batch + row * s.row + at * s.column];
                const int32_t shift = zero != nullptr ? zero[scale_at(s.zero, batch, row, c)] : 0;
                to[c * s.out_column] =
                    store<T>(dequantized(s.code, byte, c, p[2], scale_at(s.scale, batch, row, c), shift, whole));
              }
            }
          });
        });
  });
}

}  // namespace gpukit::cpu
