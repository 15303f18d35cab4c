#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/recurrent/lstm_impl.h"

namespace gpukit::cuda {

namespace {

using enum DType;
const jit::KernelSet kernels("gpukit/ops/recurrent/lstm.cuh", {"gpukit::lstm<{T}>"},
                             {float16, bfloat16, float32, float64});

}  // namespace

void lstm(const LstmCall& call) {
  const LstmParams& p = call.params;
  const LstmWeights &f = call.weights[0], &b = call.weights[1];
  const int64_t shared = 3 * p.hidden * itemsize(call.gates.dtype());
  // What every supported chip has.
  if (constexpr int64_t kMost = 99 * 1024; shared > kMost)
    throw UnsupportedError(std::string(call.op) + ": states of " + std::to_string(shared) +
                           " bytes an item do not fit the shared memory of a block (" + std::to_string(kMost) + ")");
  const unsigned threads = static_cast<unsigned>(std::min<int64_t>(1024, p.hidden * 32));
  jit::launch(kernels.get(0, call.out.dtype()), call.out.device(),
              {.grid_x = static_cast<unsigned>(p.batch),
               .grid_y = static_cast<unsigned>(p.directions),
               .block_x = threads,
               .shared_bytes = static_cast<unsigned>(shared)},
              write(call.out), write(call.h_n), write(call.c_n), read(call.gates), read(f.w_hh), read(b.w_hh),
              read_if(f.b_ih), read_if(b.b_ih), read_if(f.b_hh), read_if(b.b_hh), read_if(call.h0), read_if(call.c0),
              p);
}

}  // namespace gpukit::cuda
