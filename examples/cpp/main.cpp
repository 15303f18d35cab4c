// Arrays from C++: the default device, a sum and a matrix product, read back to the host.
#include <cstdio>
#include <exception>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/version.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/runtime/device.h"

int main() {
  try {
    const gpukit::Device device = gpukit::runtime::default_device();
    std::printf("gpukit %s on %s\n", gpukit::version(), gpukit::str(device).c_str());

    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    const gpukit::Array a = gpukit::from_host(values.data(), {2, 3}, gpukit::DType::float32, device);
    const gpukit::Array b = gpukit::add(a, gpukit::ones({2, 3}));
    const gpukit::Array c = gpukit::matmul(a, b.transpose());

    std::vector<float> result(4);
    gpukit::to_host(result.data(), c);
    std::printf("a @ (a + 1).T = [[%g, %g], [%g, %g]]\n", result[0], result[1], result[2], result[3]);
    return result == std::vector<float>{20, 38, 47, 92} ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
