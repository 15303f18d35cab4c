#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/sampling/sampling_impl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {
namespace {

using enum DType;
const jit::KernelSet key_kernels("gpukit/ops/sampling/sampling_keys.cuh", {"gpukit::sampling_keys<{T}>"},
                                 {float16, bfloat16, float32});
enum PlainKernel { kCount, kChoose };
const jit::KernelSet plain("gpukit/ops/sampling/sampling.cuh", {"gpukit::sampling_count", "gpukit::sampling_choose"});

}  // namespace

void sample(const SamplingWork& w) {
  const SamplingSpace& s = w.space;
  const Device device = w.out.device();
  const int64_t rows = w.logits.shape()[0];
  const auto grid = static_cast<unsigned>(rows);
  Temporaries temporaries("sample");
  const Array keys = temporaries.empty({rows, s.vocab}, uint32, device);
  Array counts;
  if (w.history.defined()) {
    counts = temporaries.empty({rows, s.vocab}, uint32, device);
    jit::launch(plain.get(kCount), device, {.grid_x = grid, .block_x = 256}, write(counts), read(w.history),
                read_if(w.history_lengths), read_if(w.prompt_lengths), runtime::fault_address(device), s);
  }
  jit::launch(
      key_kernels.get(0, w.logits.dtype()), device,
      {.grid_x = grid, .grid_y = static_cast<unsigned>(ceil_div(s.vocab, int64_t{kKeysOfBlock})), .block_x = 256},
      write(keys), read(w.logits), read_if(counts), read_if(w.allowed), read_if(w.repetition), read_if(w.frequency),
      read_if(w.presence), s);
  jit::launch(plain.get(kChoose), device, {.grid_x = grid, .block_x = kChooseThreads}, write(w.out),
              write_if(w.logprobs), write_if(w.top_ids), write_if(w.top_logprobs), write(keys), read_if(w.bias_ids),
              read_if(w.bias_values), read_if(w.temperature), read_if(w.top_k), read_if(w.top_p), read_if(w.min_p),
              read_if(w.seed), read_if(w.position), read_if(w.uniform), runtime::fault_address(device), s);
}

}  // namespace gpukit::cuda
