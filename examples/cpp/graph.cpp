// A layer captured as a graph: rmsnorm, a linear layer with its weights packed once, softmax; replayed with new inputs.
#include <cstdio>
#include <exception>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/ops/norm/norm.h"
#include "gpukit/ops/softmax/softmax.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"

using gpukit::Array;

namespace {

Array ramp(int64_t rows, int64_t columns, float first, gpukit::Device device) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i % 7) * 0.25f;
  return gpukit::from_host(values.data(), {rows, columns}, gpukit::DType::float32, device);
}

std::vector<float> to_vector(const Array& array) {
  std::vector<float> values(static_cast<size_t>(array.size()));
  gpukit::to_host(values.data(), array);
  return values;
}

}  // namespace

int main() {
  try {
    const gpukit::Device device = gpukit::runtime::default_device();
    const int64_t rows = 3, width = 64, outputs = 5;
    const Array gamma = gpukit::ones({width});
    const gpukit::Weight weight(ramp(outputs, width, -1.0f, device));
    const Array x = gpukit::zeros({rows, width}), normed = gpukit::empty({rows, width});
    const Array logits = gpukit::empty({rows, outputs}), probabilities = gpukit::empty({rows, outputs});
    const auto layer = [&] {
      gpukit::rmsnorm(x, gamma, 1e-5, &normed);
      gpukit::linear(normed, weight, {}, &logits);
      gpukit::softmax(logits, -1, &probabilities);
    };

    gpukit::runtime::Graph graph(device);
    {
      gpukit::runtime::ScopedCapture capture(graph);
      layer();
      capture.end();
    }
    int equal = 0;
    const int replays = 3;
    for (int i = 0; i < replays; ++i) {
      gpukit::copy_into(x, ramp(rows, width, static_cast<float>(i), device));
      graph.replay();
      const std::vector<float> replayed = to_vector(probabilities);
      layer();
      equal += to_vector(probabilities) == replayed ? 1 : 0;
    }
    std::printf("%lld nodes, %d of %d replays equal to the calls themselves\n",
                static_cast<long long>(graph.num_nodes()), equal, replays);
    return equal == replays ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
