// The two operations of a state space layer (Mamba) that look back in time.
//
// Arrays have one float dtype and any strides; sums are float32 (float64 for float64). States pass from call to call,
// so a sequence may be cut anywhere and taken token by token. An item does not depend on its batch. All throw
// ShapeError, DTypeError, DeviceError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

struct CausalConvOptions {
  Array bias = {};    // [channels]
  Array state = {};   // [batch, channels, taps - 1]: the inputs before the first; read, then set to the last ones
  bool silu = false;  // of the result
};

/// out[b, c, t] = sum over j of weight[c, j] x[b, c, t + j - (taps - 1)]: each channel of x [batch, channels, length]
/// by its own weights [channels, taps]. Before the start is the state, or zeros. One rounding, after bias and silu.
Array causal_conv1d(const Array& x, const Array& weight, const CausalConvOptions& options = {},
                    const Array* out = nullptr);

struct SelectiveScanOptions {
  Array d = {};           // [channels]: d x is added to the result
  Array z = {};           // like x: the result is multiplied by silu(z)
  Array delta_bias = {};  // [channels]
  bool delta_softplus = false;
  Array state = {};  // [batch, channels, states], float32 (float64 beside float64): read, then set to the last one
};

/// For every channel c and state n, h = exp(delta a[c, n]) h + delta b[n] x, and out = sum over n of h c[n].
/// x and delta are [batch, channels, length], a [channels, states] of the state's dtype, b and c [batch, states,
/// length], the same for all channels. Without a state h starts at 0.
Array selective_scan(const Array& x, const Array& delta, const Array& a, const Array& b, const Array& c,
                     const SelectiveScanOptions& options = {}, const Array* out = nullptr);

}  // namespace gpukit
