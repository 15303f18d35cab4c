#include "gpukit/ops/audio/one_pole.h"

#include <algorithm>
#include <cmath>

#include "gpukit/base/thread_pool.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/audio/one_pole.cuh"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::audio {
namespace {

const jit::KernelSet kernels("gpukit/ops/audio/one_pole.cuh", {"gpukit::one_pole_ends", "gpukit::one_pole_rows"});
enum Kernel { kEnds, kRows };

OnePoleParams make_params(int64_t rows, int64_t n, double a, double b0, double b1) {
  OnePoleParams p{};
  p.rows = rows;
  p.n = n;
  p.tiles = ceil_div(n, int64_t{kPoleTile});
  p.a = static_cast<float>(a);
  p.b0 = static_cast<float>(b0);
  p.b1 = static_cast<float>(b1);
  for (int k = 0; k < 5; ++k) p.lane_step[k] = static_cast<float>(std::pow(a, kPoleEach << k));
  for (int lane = 0; lane < 32; ++lane) p.lane_power[lane] = static_cast<float>(std::pow(a, kPoleEach * lane));
  p.warp_power = static_cast<float>(std::pow(a, 32 * kPoleEach));
  return p;
}

void on_gpu(const Array& to, const Array& x, int64_t rows, int64_t n, double a, double b0, double b1,
            Temporaries& temporaries) {
  const OnePoleParams p = make_params(rows, n, a, b0, b1);
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(std::min<int64_t>(rows * p.tiles, 1 << 20)),
                                 .block_x = kPoleThreads};
  Array ends, edges;
  if (p.tiles > 1) {
    ends = temporaries.empty({rows, p.tiles}, DType::float32, x.device());
    edges = temporaries.empty({rows, p.tiles}, DType::float32, x.device());
    jit::launch(kernels.get(kEnds), x.device(), config, write(ends), write(edges), read(x), p);
    const double far = std::pow(a, kPoleTile);
    // A tile whose share has decayed to nothing is its neighbour's only.
    if (static_cast<float>(far) != 0.0f) on_gpu(ends, ends, rows, p.tiles, far, 1.0, 0.0, temporaries);
  }
  jit::launch(kernels.get(kRows), x.device(), config, write(to), read(x), read_if(ends), read_if(edges), p);
}

}  // namespace

void one_pole(const char* op, const Array& to, const Array& x, double a, double b0, double b1,
              Temporaries& temporaries) {
  const int64_t n = x.shape(-1), rows = x.ndim() == 2 ? x.shape(0) : 1;
  if (rows == 0 || n == 0) return;
  if (x.device().kind == DeviceKind::cuda) {
    on_gpu(to, x, rows, n, a, b0, b1, temporaries);
    return;
  }
  runtime::run_host(op, to.device(), {write(to), read(x)}, [=](void* const* address) {
    auto* out = static_cast<float*>(address[0]);
    const auto* in = static_cast<const float*>(address[1]);
    parallel_for(rows, std::max<int64_t>(1, 32768 / n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        double y = 0, before = 0;
        for (int64_t i = row * n; i < (row + 1) * n; ++i) {
          const double now = static_cast<double>(in[i]);
          y = (a == 0 ? 0.0 : a * y) + b0 * now + (b1 == 0 ? 0.0 : b1 * before);
          before = now;
          out[i] = static_cast<float>(y);
        }
      }
    });
  });
}

}  // namespace gpukit::audio
