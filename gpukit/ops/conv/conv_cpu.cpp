// Convolution as a product: rows are output channels, columns outputs in space, k the weights of one output. Weights
// are packed once; then each task gathers strips of the input as it goes and passes all its rows by them.
#include <algorithm>
#include <vector>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/vector_loops.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/conv/conv_gather.h"
#include "gpukit/ops/conv/conv_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

constexpr int64_t kTaskRows = 256, kTaskColumns = 256;
constexpr int64_t kTaskWork = 1 << 18;  // multiply-adds that are worth another thread

/// Outputs in space of one phase, and where its weights lie among the packed ones.
struct Part {
  ConvPhase rows, columns;
  int64_t depth;    // weights of one output
  int64_t weights;  // before this part
  int64_t tasks;    // before this part

  int64_t width() const { return rows.count * columns.count; }
};

/// The place of one output in space, or of one tap.
struct Place {
  int64_t row, column;
};

template <typename T>
class Convolution {
 public:
  using Sum = typename Sums<T>::type;

  Convolution(const ConvSpace& space, MatmulLevel level)
      : s_(space), block_(choose_block<T>(level)), gather_(choose_gather<T>(level)) {
    strips_ = ceil_div(s_.out_channels, block_.rows);
    const int64_t phases = std::max<int64_t>(s_.phases, 1);
    for (int64_t phase = 0; phase < phases; ++phase) {
      Part part{conv_phase(s_.rows), columns_of(s_, phase), 0, weights_, tasks_};
      if (part.columns.count == 0) continue;
      part.depth = s_.in_channels * part.rows.taps * part.columns.taps;
      parts_.push_back(part);
      weights_ += s_.groups * strips_ * block_.rows * part.depth;
      tasks_ += s_.batches * s_.groups * ceil_div(s_.out_channels, kTaskRows) * ceil_div(part.width(), kTaskColumns);
    }
  }

  int64_t packed_weights() const { return weights_; }

  void run(T* out, const T* x, const T* w, const T* bias, Sum* packed) const {
    for (const Part& part : parts_) {
      const int64_t grain = std::max<int64_t>(1, kTaskWork / 8 / std::max<int64_t>(1, block_.rows * part.depth));
      parallel_for(s_.groups * strips_, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          pack_weights(packed + part.weights + i * block_.rows * part.depth, part,
                       w + i / strips_ * s_.w_group + i % strips_ * block_.rows * s_.w_out,
                       std::min<int64_t>(block_.rows, s_.out_channels - i % strips_ * block_.rows));
      });
    }
    const int64_t work = std::min(kTaskRows, s_.out_channels) * std::min(kTaskColumns, parts_[0].width()) *
                         std::max<int64_t>(1, parts_[0].depth);
    parallel_for(tasks_, std::max<int64_t>(1, kTaskWork / work), [&](int64_t begin, int64_t end) {
      alignas(64) std::byte small[Scratch::bytes(kSmallDepth)];
      std::byte* large = large_scratch();
      const Scratch scratch = large != nullptr ? Scratch{large, kLargeDepth} : Scratch{small, kSmallDepth};
      for (int64_t i = begin; i < end && work_wanted(); ++i) run_task(scratch, i, out, x, bias, packed);
    });
  }

 private:
  /// One strip of `lanes` output channels: to[k][lane].
  void pack_weights(Sum* to, const Part& part, const T* w, int64_t lanes) const {
    const ConvPhase &rows = part.rows, &columns = part.columns;
    const bool in_order = columns.tap_step == 1 && (rows.taps == 1 || s_.w_row == columns.taps * s_.w_column) &&
                          s_.w_in == rows.taps * columns.taps * s_.w_column;
    if (in_order) {
      block_.pack_rows(to, w + columns.first_tap * s_.w_column, lanes, s_.w_out, part.depth, s_.w_column);
      return;
    }
    for (int64_t channel = 0; channel < s_.in_channels; ++channel)
      for (int64_t r = 0; r < rows.taps; ++r)
        for (int64_t c = 0; c < columns.taps; ++c, to += block_.rows) {
          const T* from =
              w + channel * s_.w_in + r * s_.w_row + (columns.first_tap + c * columns.tap_step) * s_.w_column;
          for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = cpu::load(from[lane * s_.w_out]);
          std::fill(to + lanes, to + block_.rows, Sum{});
        }
  }

  void run_task(const Scratch& scratch, int64_t index, T* out, const T* x, const T* bias, const Sum* packed) const {
    size_t p = parts_.size() - 1;
    while (parts_[p].tasks > index) --p;
    const Part& part = parts_[p];
    index -= part.tasks;
    const int64_t across = ceil_div(part.width(), kTaskColumns), down = ceil_div(s_.out_channels, kTaskRows);
    const int64_t column = index % across * kTaskColumns, row = index / across % down * kTaskRows;
    const int64_t group = index / across / down % s_.groups, batch = index / across / down / s_.groups;
    out += batch * s_.out_batch + group * s_.out_channels * s_.out_channel;
    x += batch * s_.x_batch + group * s_.in_channels * s_.x_channel;
    if (bias != nullptr) bias += group * s_.out_channels * s_.bias_step;
    packed += part.weights + group * strips_ * block_.rows * part.depth;

    const int64_t rows = 4 * scratch.depth / static_cast<int64_t>(sizeof(Sum)) / block_.rows * block_.rows;
    const int64_t columns = scratch.depth / block_.columns * block_.columns;
    const int64_t last_row = std::min(row + kTaskRows, s_.out_channels);
    const int64_t last_column = std::min(column + kTaskColumns, part.width());
    for (int64_t i = row; i < last_row; i += rows)
      for (int64_t j = column; j < last_column; j += columns)
        run_tile(scratch, part, out, x, bias, packed, {i, j},
                 {std::min(rows, last_row - i), std::min(columns, last_column - j)});
  }

  /// Output channels at.row ... by outputs in space at.column ...
  void run_tile(const Scratch& scratch, const Part& part, T* out, const T* x, const T* bias, const Sum* packed,
                Place at, Place size) const {
    Sum* const sums = scratch.sums<Sum>();
    Sum* const strip = scratch.strip<Sum>();
    const int64_t stride = round_up(size.column, block_.columns);
    int64_t k = 0;
    do {
      const int64_t depth = std::min(scratch.depth, part.depth - k);
      for (int64_t column = 0; column < size.column; column += block_.columns) {
        gather(strip, part, x, at.column + column, std::min<int64_t>(block_.columns, size.column - column), k, depth);
        for (int64_t row = 0; row < size.row; row += block_.rows) {
          const int64_t rows = std::min<int64_t>(block_.rows, size.row - row);
          block_.accumulate[static_cast<size_t>(rows - 1)](sums + row * stride + column, stride,
                                                           packed + (at.row + row) * part.depth + k * block_.rows,
                                                           strip, block_.columns, depth, k == 0);
        }
      }
      k += depth;
    } while (k < part.depth);
    for (int64_t row = 0; row < size.row; ++row) {
      const int64_t channel = at.row + row;
      Sum* values = sums + row * stride;
      finish(values, size.column, bias == nullptr ? Sum{} : cpu::load(bias[channel * s_.bias_step]));
      for_segments(part, at.column, size.column, [&](Place first, int64_t begin, int64_t count) {
        T* to = out + channel * s_.out_channel + first.row * s_.out_row +
                (part.columns.first_out + first.column * part.columns.out_step) * s_.out_column;
        store(to, part.columns.out_step * s_.out_column, values + begin, count);
      });
    }
  }

  static void store(T* to, int64_t step, const Sum* from, int64_t count) {
    if (step == 1)
      for (int64_t i = 0; i < count; ++i) to[i] = cpu::store<T>(from[i]);
    else
      for (int64_t i = 0; i < count; ++i) to[i * step] = cpu::store<T>(from[i]);
  }

  /// f(place of the first, its number, count) for runs of `count` outputs from `first` on that lie in one row.
  template <typename F>
  static void for_segments(const Part& part, int64_t first, int64_t count, F&& f) {
    const int64_t width = part.columns.count;
    for (int64_t done = 0; done < count;) {
      const Place at{(first + done) / width, (first + done) % width};
      const int64_t run = std::min(count - done, width - at.column);
      f(at, done, run);
      done += run;
    }
  }

  /// to[k][column]: what weights k ... of outputs column ... are multiplied by. Columns from `count` on are 0.
  void gather(Sum* to, const Part& part, const T* x, int64_t column, int64_t count, int64_t k, int64_t depth) const {
    if (count < block_.columns) std::fill(to, to + depth * block_.columns, Sum{});
    for_segments(part, column, count,
                 [&](Place at, int64_t begin, int64_t run) { gather_run(to + begin, part, x, at, run, k, depth); });
  }

  void gather_run(Sum* to, const Part& part, const T* x, Place at, int64_t count, int64_t k, int64_t depth) const {
    if (depth == 0) return;  // a phase without taps
    const ConvPhase &rows = part.rows, &columns = part.columns;
    const int64_t taps = rows.taps * columns.taps;
    const int64_t first_row = rows.first_in + at.row * rows.in_step;
    const int64_t first = columns.first_in + at.column * columns.in_step;
    const int64_t step = columns.in_step * s_.x_column;
    if (count == block_.columns && step == 1 &&
        inside(first_row, first_row + (rows.taps - 1) * rows.in_tap, s_.rows.in) &&
        inside(first, first + (columns.taps - 1) * columns.in_tap, s_.columns.in - (count - 1) * columns.in_step)) {
      const GatherSteps steps{columns.taps, rows.taps, columns.in_tap * s_.x_column, rows.in_tap * s_.x_row,
                              s_.x_channel};
      return gather_(to, x + first_row * s_.x_row + first * s_.x_column, steps, k, depth);
    }
    int64_t channel = k / taps;
    Place tap{k % taps / columns.taps, k % columns.taps};
    for (int64_t i = 0; i < depth; ++i, to += block_.columns) {
      const int64_t row = first_row + tap.row * rows.in_tap, start = first + tap.column * columns.in_tap;
      // Outputs [low, high) of the run read inside of the input.
      int64_t low = start < 0 ? std::min(count, ceil_div(-start, columns.in_step)) : 0;
      int64_t high = start < s_.columns.in ? std::min(count, (s_.columns.in - 1 - start) / columns.in_step + 1) : 0;
      if (row < 0 || row >= s_.rows.in) high = 0;
      high = std::max(low, high);
      std::fill(to, to + low, Sum{});
      std::fill(to + high, to + count, Sum{});
      copy(to + low, x + channel * s_.x_channel + row * s_.x_row + start * s_.x_column + low * step, step, high - low);
      if (++tap.column == columns.taps) {
        tap.column = 0;
        if (++tap.row == rows.taps) {
          tap.row = 0;
          ++channel;
        }
      }
    }
  }

  static bool inside(int64_t a, int64_t b, int64_t size) { return std::min(a, b) >= 0 && std::max(a, b) < size; }

  static void copy(Sum* to, const T* from, int64_t step, int64_t count) {
    if (step == 1)
      for (int64_t i = 0; i < count; ++i) to[i] = cpu::load(from[i]);
    else
      for (int64_t i = 0; i < count; ++i) to[i] = cpu::load(from[i * step]);
  }

  void finish(Sum* values, int64_t count, Sum bias) const {
    for (int64_t i = 0; i < count; ++i) values[i] += bias;
    const auto each = [&](auto&& f) {
      for (int64_t i = 0; i < count; ++i) values[i] = f(values[i]);
    };
    switch (static_cast<ConvActivation>(s_.activation)) {
      case ConvActivation::none: return;
      case ConvActivation::relu: return each([](Sum v) { return v < 0 ? Sum{} : v; });
      case ConvActivation::gelu: return gelu_all(values, count);
      case ConvActivation::gelu_erf: return gelu_erf_all(values, count);
      case ConvActivation::silu: return silu_all(values, count);
      case ConvActivation::leaky_relu:
        return each([slope = static_cast<Sum>(s_.slope)](Sum v) { return leaky_relu_of(v, slope); });
    }
  }

  const ConvSpace s_;
  const Block<T> block_;
  const Gather<T> gather_;
  int64_t strips_ = 0, weights_ = 0, tasks_ = 0;
  std::vector<Part> parts_;
};

}  // namespace

void conv(const ConvCall& call) {
  visit_floating(call.input.dtype(), [&]<typename T>() {
    using Sum = typename Convolution<T>::Sum;
    Convolution<T> convolution(call.space, matmul_level());
    Temporaries temporaries(call.op);
    const DType sums = sizeof(Sum) == 8 ? DType::float64 : DType::float32;
    const Array packed = temporaries.empty({convolution.packed_weights()}, sums, call.input.device());
    runtime::run_host(call.op, call.input.device(),
                      {write(call.out), write(packed), read(call.input), read(call.weight), read_if(call.bias)},
                      [c = std::move(convolution)](void* const* p) {
                        c.run(static_cast<T*>(p[0]), static_cast<const T*>(p[2]), static_cast<const T*>(p[3]),
                              static_cast<const T*>(p[4]), static_cast<Sum*>(p[1]));
                      });
  });
}

}  // namespace gpukit::cpu
