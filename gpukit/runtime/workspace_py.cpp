// _fill_workspaces: for tests that no result depends on what ran before.
#include "gpukit/runtime/workspace.h"

#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/runtime/device.h"

namespace gpukit {

void bind_workspace(nb::module_& m) {
  python::runtime_module(m).def(
      "_fill_workspaces", [](uint32_t word) { runtime::fill_workspaces(runtime::default_device(), word); }, "word"_a,
      nb::call_guard<python::GilReleased>(),
      "Writes a word over what the current stream of the default device keeps for its next calls.");
}

}  // namespace gpukit
