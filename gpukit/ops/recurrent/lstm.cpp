#include "gpukit/ops/recurrent/lstm.h"

#include <algorithm>
#include <span>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/recurrent/lstm_impl.h"

namespace gpukit {

namespace {

struct Direction {
  const LstmWeights* weights;
  bool reversed;
};

void check_like(const char* op, const char* argument, const Array& a, const Array& x, const Dims& shape) {
  if (a.device() != x.device())
    throw DeviceError(std::string(op) + ": " + argument + " is on " + str(a.device()) + ", x is on " + str(x.device()) +
                      "; move one with x.to(device)");
  check_dtype(op, argument, a, x.dtype());
  check_shape(op, argument, a, shape);
}

void check_weights(const char* op, const LstmWeights& w, const Array& x, int64_t hidden) {
  const int64_t rows = 4 * hidden;
  check_like(op, "W_ih", w.w_ih, x, {rows, x.shape()[2]});
  check_like(op, "W_hh", w.w_hh, x, {rows, hidden});
  if (w.b_ih.defined()) check_like(op, "b_ih", w.b_ih, x, {rows});
  if (w.b_hh.defined()) check_like(op, "b_hh", w.b_hh, x, {rows});
}

LstmStateStrides strides_of(const Array& states) {
  if (!states.defined()) return {};
  const Dims& s = states.strides();
  return {s[0], s[1], s[2]};
}

/// Everything is checked; states are [directions, batch, hidden].
void run(const char* op, const Array& x, std::span<const Direction> directions, const Array& h0, const Array& c0,
         const LstmResult& r, MatmulPrecision precision, Temporaries& temporaries) {
  const int64_t count = static_cast<int64_t>(directions.size()), batch = x.shape()[0], steps = x.shape()[1];
  const int64_t hidden = r.h_n.shape()[2];
  const DType sums = x.dtype() == DType::float64 ? DType::float64 : DType::float32;
  LstmCall call{op, r.out, r.h_n, r.c_n, temporaries.empty({count, batch, steps, 4 * hidden}, sums, x.device()),
                {}, h0,    c0,    {}};
  LstmParams& p = call.params;
  p.directions = count;
  p.batch = batch;
  p.steps = steps;
  p.hidden = hidden;
  p.out_batch = r.out.strides()[0];
  p.out_step = r.out.strides()[1];
  p.out_unit = r.out.strides()[2];
  for (size_t d = 0; d < 2; ++d) {
    const Direction& direction = directions[std::min(d, directions.size() - 1)];
    const LstmWeights& w = *direction.weights;
    call.weights[d] = w;
    p.reversed[d] = direction.reversed;
    p.weights[d] = {w.w_hh.strides()[0], w.w_hh.strides()[1], w.b_ih.defined() ? w.b_ih.strides()[0] : 0,
                    w.b_hh.defined() ? w.b_hh.strides()[0] : 0};
    if (d < directions.size() && steps > 0) {
      const Array gates = call.gates.narrow(0, static_cast<int64_t>(d), 1).reshape_view({batch, steps, 4 * hidden});
      matmul(x, transpose(w.w_ih), &gates, {.precision = precision, .out_dtype = sums});
    }
  }
  p.h0 = strides_of(h0);
  p.c0 = strides_of(c0);
  p.h_n = strides_of(r.h_n);
  p.c_n = strides_of(r.c_n);
  switch (x.device().kind) {
    case DeviceKind::cpu: cpu::lstm(call); break;
    case DeviceKind::cuda: cuda::lstm(call); break;
  }
}

LstmResult lstm(const char* op, const Array& x, std::span<const Direction> directions, const Array& h0, const Array& c0,
                const LstmResult* given, MatmulPrecision precision) {
  check_floating(op, "x", x);
  if (precision == MatmulPrecision::tf32 && x.dtype() != DType::float32)
    throw Error(std::string(op) + ": use_tf32 needs float32 arrays, got " + name(x.dtype()));
  check_ndim(op, "x", x, 3);
  const LstmWeights& first = *directions[0].weights;
  check_ndim(op, "W_hh", first.w_hh, 2);
  const int64_t count = static_cast<int64_t>(directions.size()), hidden = first.w_hh.shape()[1];
  for (const Direction& d : directions) check_weights(op, *d.weights, x, hidden);
  const int64_t batch = x.shape()[0];
  const Dims states = count == 1 ? Dims{batch, hidden} : Dims{count, batch, hidden};
  if (h0.defined()) check_like(op, "h0", h0, x, states);
  if (c0.defined()) check_like(op, "c0", c0, x, states);
  const auto made = [&](const Array LstmResult::*member, const Dims& shape) {
    return result(op, given == nullptr ? nullptr : &(given->*member), shape, x.dtype(), x.device());
  };
  const LstmResult r{made(&LstmResult::out, {batch, x.shape()[1], count * hidden}), made(&LstmResult::h_n, states),
                     made(&LstmResult::c_n, states)};
  if (r.h_n.size() == 0) return r;
  if (may_share_memory(r.out, r.h_n) || may_share_memory(r.out, r.c_n) || may_share_memory(r.h_n, r.c_n))
    throw ArgumentError(std::string(op) + ": out, h_n and c_n share memory");

  Temporaries temporaries(op);
  const auto meets = [](const Array& a, const Array& b) { return b.defined() && may_share_memory(a, b); };
  const auto meets_weights = [&](const Array& a) {
    return std::any_of(directions.begin(), directions.end(), [&](const Direction& d) {
      return meets(a, d.weights->w_hh) || meets(a, d.weights->b_ih) || meets(a, d.weights->b_hh);
    });
  };
  // Results that meet x are written after it was used up; states in place are read before they are written.
  const auto apart = [&](const Array& a, bool clash) {
    return clash || meets_weights(a) ? temporaries.empty_like(a) : a;
  };
  const LstmResult target{apart(r.out, meets(r.out, h0) || meets(r.out, c0)),
                          apart(r.h_n, must_buffer(r.h_n, {h0.defined() ? &h0 : nullptr}) || meets(r.h_n, c0)),
                          apart(r.c_n, must_buffer(r.c_n, {c0.defined() ? &c0 : nullptr}) || meets(r.c_n, h0))};
  const auto stacked = [&](const Array& a) { return !a.defined() || count > 1 ? a : a.expand_dims(0); };
  run(op, x, directions, stacked(h0), stacked(c0), {target.out, stacked(target.h_n), stacked(target.c_n)}, precision,
      temporaries);
  const auto give = [](const Array& to, const Array& from) {
    if (!begin_together(to, from)) copy_into(to, from);
  };
  give(r.out, target.out);
  give(r.h_n, target.h_n);
  give(r.c_n, target.c_n);
  return r;
}

}  // namespace

LstmResult lstm_forward(const Array& x, const LstmWeights& weights, const Array& h0, const Array& c0, bool reverse,
                        const LstmResult* result, MatmulPrecision precision) {
  const Direction direction[] = {{&weights, reverse}};
  return lstm("lstm_forward", x, direction, h0, c0, result, precision);
}

LstmResult lstm_bidirectional(const Array& x, const LstmWeights& forward, const LstmWeights& backward, const Array& h0,
                              const Array& c0, const LstmResult* result, MatmulPrecision precision) {
  const Direction directions[] = {{&forward, false}, {&backward, true}};
  return lstm("lstm_bidirectional", x, directions, h0, c0, result, precision);
}

}  // namespace gpukit
