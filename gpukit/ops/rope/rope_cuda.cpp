#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/rope/rope_impl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {

namespace {

const jit::KernelSet kernels("gpukit/ops/rope/rope.cuh", {"gpukit::rope<{T}>", "gpukit::qkv_rope_append<{T}>"},
                             {DType::float16, DType::bfloat16, DType::float32});

const jit::KernelSet plain("gpukit/ops/rope/rope.cuh", {"gpukit::qkv_find_overtaken"});

/// One warp per head of a token.
jit::LaunchConfig warps_for(int64_t units) {
  return {.grid_x = static_cast<unsigned>(std::min<int64_t>(ceil_div(units, kRopeWarps), 0x7fffffff)),
          .block_x = 32 * kRopeWarps};
}

}  // namespace

void rope(const RopeCall& call) {
  const bool both = call.b.defined();
  RopeParams p{};
  p.tokens = call.a.shape()[0];
  p.num_positions = call.cos.shape()[0];
  p.heads_a = static_cast<int32_t>(call.a.shape()[1]);
  p.pairs = static_cast<int32_t>(call.pairs);
  p.interleaved = call.interleaved ? 1 : 0;
  p.a_token = call.a.strides()[0];
  p.a_head = call.a.strides()[1];
  p.a_step = call.a.strides()[2];
  if (both) {
    p.heads_b = static_cast<int32_t>(call.b.shape()[1]);
    p.b_token = call.b.strides()[0];
    p.b_head = call.b.strides()[1];
    p.b_step = call.b.strides()[2];
  }
  p.position_step = call.positions.defined() ? call.positions.strides()[0] : 0;
  p.cos_row = call.cos.strides()[0];
  p.cos_step = call.cos.strides()[1];
  p.sin_row = call.sin.strides()[0];
  p.sin_step = call.sin.strides()[1];
  p.short_table = call.cos.dtype() != DType::float32 ? 1 : 0;
  p.fault_op = runtime::fault_code(call.op);
  jit::launch(kernels.get(0, call.a.dtype()), call.a.device(),
              warps_for(p.tokens * (int64_t{p.heads_a} + int64_t{p.heads_b})), write(call.a), write_if(call.b),
              read(call.cos), read(call.sin), read_if(call.positions), runtime::fault_address(call.a.device()), p);
}

void qkv_rope_append(const QkvCall& c) {
  const QkvParams& p = c.params;
  const auto padded = static_cast<int32_t>(ceil_power(p.dim));
  jit::LaunchConfig config = warps_for(p.tokens * (int64_t{p.heads} + 2 * int64_t{p.kv_heads}));
  config.overlaps = may_start_early(c.qkv, config.grid_x);
  config.shared_bytes = static_cast<unsigned>(sizeof(float)) * kRopeWarps * static_cast<unsigned>(p.dim + padded);
  const Device device = c.qkv.device();
  Temporaries temporaries("qkv_rope_append");
  Array overtaken;
  if (p.tokens > kFewTokens) {
    overtaken = temporaries.empty({p.tokens}, DType::uint8, device);
    jit::launch(plain.get(0), device,
                {.grid_x = static_cast<unsigned>(ceil_div(p.tokens, int64_t{kFewTokens})), .block_x = kFewTokens},
                write(overtaken), read_if(c.cache.block_tables), read(c.sequence_ids), read(c.positions), p);
  }
  // Scales of int8 are written, those of float8 are read: as written they are ordered after both.
  jit::launch(kernels.get(1, c.qkv.dtype()), device, config, write(c.q_out), read(c.qkv), write(c.cache.k),
              write(c.cache.v), write_if(c.cache.k_scale), write_if(c.cache.v_scale), read_if(c.cache.block_tables),
              read(c.sequence_ids), read(c.positions), read_if(c.bias), read_if(c.q_norm), read_if(c.k_norm),
              read_if(c.cos), read_if(c.sin), read_if(overtaken), runtime::fault_address(device), p, padded);
}

}  // namespace gpukit::cuda
