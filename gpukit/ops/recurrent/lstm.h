// Long short-term memory, one layer. Gates stand in the order input, forget, cell, output, in four blocks of `hidden`
// rows of the weights:
//   i, f, g, o = x[t] w_ih^T + b_ih + h w_hh^T + b_hh;  c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c).
//
// All arrays have one float dtype and any strides. Sums are float32 (float64 for float64); h and c are rounded to the
// dtype after every step, so a sequence may be cut anywhere: the states carry the same bits on. An item does not depend
// on its batch. All throw ShapeError, DTypeError, DeviceError.
//
// `precision` is that of the product of x by w_ih. The sums over h are always exact: what they wait for is the step
// before, not arithmetic. Throws Error for tf32 with anything but float32.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/matmul.h"

namespace gpukit {

struct LstmWeights {
  Array w_ih, w_hh;  // [4 hidden, inputs], [4 hidden, hidden]
  Array b_ih, b_hh;  // [4 hidden]; may be undefined
};

/// In calls with results, h_n and c_n may be h0 and c0 themselves; out may be x.
struct LstmResult {
  Array out, h_n, c_n;
};

/// x [batch, steps, inputs] to out [batch, steps, hidden]; states are [batch, hidden], zeros where undefined. `reverse`
/// goes from the last step to the first: out[t] stays beside x[t], and the states are those after step 0.
LstmResult lstm_forward(const Array& x, const LstmWeights& weights, const Array& h0 = {}, const Array& c0 = {},
                        bool reverse = false, const LstmResult* result = nullptr,
                        MatmulPrecision precision = MatmulPrecision::automatic);
/// Both directions side by side: out [batch, steps, 2 hidden], states [2, batch, hidden], the forward one first.
LstmResult lstm_bidirectional(const Array& x, const LstmWeights& forward, const LstmWeights& backward,
                              const Array& h0 = {}, const Array& c0 = {}, const LstmResult* result = nullptr,
                              MatmulPrecision precision = MatmulPrecision::automatic);

}  // namespace gpukit
