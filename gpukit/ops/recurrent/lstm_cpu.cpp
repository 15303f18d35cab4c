#include <algorithm>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/vector_loops.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/matmul/cpu/matmul_loops.h"
#include "gpukit/ops/recurrent/lstm_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

/// Some items of the batch take their steps together: states by the columns of w_hh, a product whose k is `hidden`.
template <typename T>
class Lstm {
 public:
  using Sum = typename Sums<T>::type;

  struct Arrays {
    T *out, *h_n, *c_n;
    const Sum* gates;
    const T *w_hh[2], *b_ih[2], *b_hh[2];
    const T *h0, *c0;
  };

  Lstm(const LstmParams& params, const Block<T>& block)
      : p_(params),
        block_(block),
        rows_(4 * p_.hidden),
        padded_(round_up(rows_, block_.columns)),
        blocks_(ceil_div(p_.batch, block_.rows)) {}

  int64_t workspace() const { return p_.directions * (padded_ * p_.hidden + padded_ + blocks_ * room()); }

  void run(const Arrays& a, Sum* memory) const {
    Sum* const weights = memory;
    Sum* const biases = weights + p_.directions * padded_ * p_.hidden;
    Sum* const rooms = biases + p_.directions * padded_;
    const int64_t strips = padded_ / block_.columns;
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / (p_.hidden * block_.columns));
    parallel_for(p_.directions * strips, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        pack_strip(a, i / strips, i % strips * block_.columns, weights + i * block_.columns * p_.hidden,
                   biases + i * block_.columns);
    });
    parallel_for(p_.directions * blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t d = i / blocks_;
        run_block(a, d, i % blocks_ * block_.rows, weights + d * padded_ * p_.hidden, biases + d * padded_,
                  rooms + i * room());
      }
    });
  }

 private:
  /// Sums, states c and h of one block of items.
  int64_t room() const { return block_.rows * (padded_ + 2 * p_.hidden); }

  void pack_strip(const Arrays& a, int64_t d, int64_t row, Sum* weights, Sum* biases) const {
    const LstmWeightStrides& s = p_.weights[d];
    const int64_t count = std::min<int64_t>(block_.columns, rows_ - row);
    block_.pack_columns(weights, a.w_hh[d] + row * s.row, count, s.row, p_.hidden, s.unit);
    for (int64_t i = 0; i < count; ++i) {
      const Sum b_ih = a.b_ih[d] == nullptr ? Sum{} : cpu::load(a.b_ih[d][(row + i) * s.b_ih]);
      biases[i] = b_ih + (a.b_hh[d] == nullptr ? Sum{} : cpu::load(a.b_hh[d][(row + i) * s.b_hh]));
    }
  }

  void run_block(const Arrays& a, int64_t d, int64_t first, const Sum* weights, const Sum* biases, Sum* room) const {
    const int64_t count = std::min<int64_t>(block_.rows, p_.batch - first), hidden = p_.hidden;
    Sum* const sums = room;
    Sum* const c = sums + block_.rows * padded_;  // [item][unit]
    Sum* const h = c + block_.rows * hidden;      // [unit][item], as the product reads it
    for (int64_t i = 0; i < count; ++i)
      for (int64_t u = 0; u < hidden; ++u) {
        h[u * block_.rows + i] = state(a.h0, p_.h0, d, first + i, u);
        c[i * hidden + u] = state(a.c0, p_.c0, d, first + i, u);
      }
    const auto accumulate = block_.accumulate[static_cast<size_t>(count - 1)];
    for (int64_t step = 0; step < p_.steps && work_wanted(); ++step) {
      const int64_t t = p_.reversed[d] ? p_.steps - 1 - step : step;
      for (int64_t i = 0; i < count; ++i) {
        const Sum* gates = a.gates + ((d * p_.batch + first + i) * p_.steps + t) * rows_;
        for (int64_t r = 0; r < rows_; ++r) sums[i * padded_ + r] = gates[r] + biases[r];
      }
      for (int64_t r = 0; r < padded_; r += block_.columns)
        accumulate(sums + r, padded_, h, weights + r * hidden, block_.columns, hidden, false);
      for (int64_t i = 0; i < count; ++i)
        advance(sums + i * padded_, c + i * hidden, h + i,
                a.out + (first + i) * p_.out_batch + t * p_.out_step + d * hidden * p_.out_unit);
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t u = 0; u < hidden; ++u) {
        a.h_n[offset(p_.h_n, d, first + i, u)] = cpu::store<T>(h[u * block_.rows + i]);
        a.c_n[offset(p_.c_n, d, first + i, u)] = cpu::store<T>(c[i * hidden + u]);
      }
  }

  /// Overwrites the gates.
  void advance(Sum* gates, Sum* c, Sum* h, T* out) const {
    const int64_t n = p_.hidden;
    Sum *const cell = gates + 2 * n, *const output = gates + 3 * n;
    sigmoid_all(gates, 2 * n);
    tanh_all(cell, n);
    sigmoid_all(output, n);
    for (int64_t u = 0; u < n; ++u) {
      c[u] = cpu::load(cpu::store<T>(gates[n + u] * c[u] + gates[u] * cell[u]));
      cell[u] = c[u];
    }
    tanh_all(cell, n);
    for (int64_t u = 0; u < n; ++u) {
      const T value = cpu::store<T>(output[u] * cell[u]);
      h[u * block_.rows] = cpu::load(value);
      out[u * p_.out_unit] = value;
    }
  }

  static int64_t offset(const LstmStateStrides& s, int64_t d, int64_t item, int64_t unit) {
    return d * s.direction + item * s.batch + unit * s.unit;
  }
  static Sum state(const T* from, const LstmStateStrides& s, int64_t d, int64_t item, int64_t unit) {
    return from == nullptr ? Sum{} : cpu::load(from[offset(s, d, item, unit)]);
  }

  const LstmParams p_;
  const Block<T> block_;
  const int64_t rows_, padded_, blocks_;
};

}  // namespace

void lstm(const LstmCall& call) {
  visit_floating(call.out.dtype(), [&]<typename T>() {
    using Sum = typename Lstm<T>::Sum;
    const Lstm<T> layer(call.params, choose_block<T>(matmul_level()));
    Temporaries temporaries(call.op);
    const Array memory = temporaries.empty({layer.workspace()}, call.gates.dtype(), call.out.device());
    const LstmWeights *f = &call.weights[0], *b = &call.weights[1];
    runtime::run_host(call.op, call.out.device(),
                      {write(call.out), write(call.h_n), write(call.c_n), write(memory), read(call.gates),
                       read(f->w_hh), read(b->w_hh), read_if(f->b_ih), read_if(b->b_ih), read_if(f->b_hh),
                       read_if(b->b_hh), read_if(call.h0), read_if(call.c0)},
                      [layer](void* const* p) {
                        const auto in = [&](int i) { return static_cast<const T*>(p[i]); };
                        layer.run({static_cast<T*>(p[0]),
                                   static_cast<T*>(p[1]),
                                   static_cast<T*>(p[2]),
                                   static_cast<const Sum*>(p[4]),
                                   {in(5), in(6)},
                                   {in(7), in(8)},
                                   {in(9), in(10)},
                                   in(11),
                                   in(12)},
                                  static_cast<Sum*>(p[3]));
                      });
  });
}

}  // namespace gpukit::cpu
