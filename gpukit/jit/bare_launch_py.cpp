// time_bare_launch: the host cost of the driver's launch call alone, the floor every submit time is compared with.
#include <algorithm>
#include <vector>

#include "gpukit/array/array.h"
#include "gpukit/base/files.h"
#include "gpukit/jit/kernel.h"
#include "gpukit/memory/hold.h"
#include "gpukit/python/bind.h"
#include "gpukit/runtime/device.h"

namespace gpukit {

namespace {

const jit::KernelSet kernels("gpukit/jit/bare_launch.cuh", {"gpukit::bare_add"});

/// Median microseconds of one of `calls` launches on an idle stream, the wait not counted.
double time_bare_launch(int calls, int rounds) {
  const Device device{DeviceKind::cuda, 0};
  runtime::DeviceState& state = runtime::open_device(device);
  int64_t n = 1024;
  Array out = Array::empty({n}, DType::float32, device), a = Array::empty_like(out), b = Array::empty_like(out);
  state.context.make_current();
  const driver::Api& api = state.context.api();
  driver::FunctionHandle function = kernels.get(0).function(device);
  const memory::Pin pins[3] = {memory::Pin(out.storage()), memory::Pin(a.storage()), memory::Pin(b.storage())};
  driver::Address pointers[3] = {pins[0].address(), pins[1].address(), pins[2].address()};
  void* values[] = {&pointers[0], &pointers[1], &pointers[2], &n};
  driver::LaunchShape shape;
  shape.grid[0] = 4;
  shape.block[0] = 256;
  std::vector<double> samples;
  for (int round = 0; round < rounds + 1; ++round) {
    state.default_stream->synchronize();
    int64_t begin = files::monotonic_ns();
    int code = 0;
    for (int i = 0; i < calls; ++i) code |= api.launch(function, shape, state.default_stream->handle(), values);
    int64_t end = files::monotonic_ns();
    api.check(code, "time_bare_launch");
    if (round > 0) samples.push_back(static_cast<double>(end - begin) / 1e3 / calls);
  }
  runtime::synchronize(*state.default_stream, "time_bare_launch");
  std::nth_element(samples.begin(), samples.begin() + rounds / 2, samples.end());
  return samples[static_cast<size_t>(rounds) / 2];
}

}  // namespace

void bind_bare_launch(nb::module_& m) {
  m.def("_time_bare_launch", &time_bare_launch, "calls"_a = 256, "rounds"_a = 50, nb::call_guard<python::GilReleased>(),
        "Median host microseconds of one launch through the driver alone, on an idle stream of cuda:0.");
}

}  // namespace gpukit
