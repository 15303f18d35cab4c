// _BinaryKernel: kernels of other compilers, launched with arrays and numbers.
#include "gpukit/jit/binary_kernel.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/env_triton.h"
#include "gpukit/base/error.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/hold.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using jit::Argument;
using jit::BinaryKernel;

/// An array whose address another library knows: it stays where it is for the life of this.
struct PinnedArray {
  explicit PinnedArray(const Array& given) : array(given), pin(given.storage()) { memory::melt(*given.storage()); }
  uint64_t address() const { return pin.address() + static_cast<uint64_t>(array.offset_bytes()); }
  Array array;
  memory::Pin pin;
};

/// One call's arguments; the tuple keeps the arrays.
std::vector<Argument> to_arguments(const BinaryKernel& kernel, const nb::tuple& values) {
  std::vector<Argument> arguments(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    Argument& argument = arguments[i];
    const nb::handle value = values[i];
    if (const Array* array = python::try_array(value)) {
      argument.kind = Argument::Kind::array;
      argument.dtype = array->dtype();  // strides are for the kernel to know
      argument.device = array->device();
      argument.size = array->size();
      argument.use = read(*array);
    } else if (value.is_none()) {
      argument.kind = Argument::Kind::null;
    } else {
      argument.kind = Argument::Kind::number;
      const std::string label = "argument " + std::to_string(i + 1);
      argument.number = python::to_scalar(kernel.name().c_str(), label.c_str(), value);
    }
  }
  return arguments;
}

jit::LaunchOptions to_options(const BinaryKernel& kernel, python::ExtentArg grid, int64_t threads,
                              int64_t shared_bytes) {
  jit::LaunchOptions options;
  const auto [x, y, z] = python::to_extent(kernel.name().c_str(), "grid", grid);
  options.grid = jit::Extent{x, y, z};
  options.block = jit::Extent{threads, 1, 1};
  options.shared_bytes = shared_bytes;
  return options;
}

void launch(const BinaryKernel& kernel, python::DeviceArg device, nb::tuple arguments, python::ExtentArg grid,
            int64_t threads, int64_t shared_bytes) {
  const Device where = python::to_device(device);
  const jit::LaunchOptions options = to_options(kernel, grid, threads, shared_bytes);
  const std::vector<Argument> values = to_arguments(kernel, arguments);
  python::in_scope([&] { return kernel.launch(where, values, options), 0; });
}

/// (bytes of each parameter, grid, block, shared bytes)
nb::tuple pack(const BinaryKernel& kernel, python::DeviceArg device, nb::tuple arguments, python::ExtentArg grid,
               int64_t threads, int64_t shared_bytes) {
  const Device where = python::to_device(device);
  const std::vector<Argument> values = to_arguments(kernel, arguments);
  jit::PackedCall call;
  kernel.pack(where, values, to_options(kernel, grid, threads, shared_bytes), &call);
  nb::list bytes;
  for (size_t i = 0; i < call.num_values; ++i) bytes.append(nb::bytes(call.pointers[i], call.sizes[i]));
  nb::list written;
  for (size_t i = 0; i < call.num_uses; ++i) written.append(call.uses[i].write);
  const jit::LaunchConfig& config = call.config;
  return nb::make_tuple(bytes, nb::make_tuple(config.grid_x, config.grid_y, config.grid_z),
                        nb::make_tuple(config.block_x, config.block_y, config.block_z), config.shared_bytes, written);
}

}  // namespace

void bind_binary_kernel(nb::module_& m) {
  m.def("_use_triton", &env::use_triton, "PYGPUKIT_USE_TRITON, or None when it is not set; internal.");
  nb::class_<BinaryKernel>(m, "_BinaryKernel", "Machine code of another compiler with one kernel; internal.")
      .def(
          "__init__",
          [](BinaryKernel* self, std::string name, const nb::bytes& code, const std::vector<std::string>& types) {
            new (self) BinaryKernel(std::move(name), std::string(code.c_str(), code.size()), types);
          },
          "name"_a, "code"_a, "types"_a, "`types`: of the parameters, in Triton's words (i32, fp32, *bf16, *kbf16).")
      .def_prop_ro("name", &BinaryKernel::name)
      .def(
          "attributes",
          [](const BinaryKernel& self, python::DeviceArg device) {
            const Device where = python::to_device(device);
            const driver::FunctionAttributes found = python::in_scope([&] { return self.attributes(where); });
            nb::dict d;
            d["registers"] = found.registers;
            d["local_bytes"] = found.local_bytes;
            d["max_threads"] = found.max_threads;
            return python::AnyDict(d);
          },
          "device"_a, "Loads the code on a device. What the driver says of the kernel.")
      .def("launch", &launch, "device"_a, "arguments"_a, "grid"_a, "threads"_a, "shared_bytes"_a,
           nb::sig("def launch(self, device: Device | str | None, arguments: tuple[typing.Any, ...], grid: int | "
                   "collections.abc.Sequence[int], threads: int, shared_bytes: int) -> None"),
           "On the current stream: arrays for pointers, strided ones too, None for null, numbers.")
      .def("_pack", &pack, "device"_a, "arguments"_a, "grid"_a, "threads"_a, "shared_bytes"_a,
           nb::sig("def _pack(self, device: Device | str | None, arguments: tuple[typing.Any, ...], grid: int | "
                   "collections.abc.Sequence[int], threads: int, shared_bytes: int) -> tuple[typing.Any, ...]"),
           "What a launch would pass. Launches nothing.");
  nb::class_<PinnedArray>(m, "_PinnedArray", "Keeps an array's memory resident and in place while it lives; internal.")
      .def(
          "__init__",
          [](PinnedArray* self, python::ArrayArg array) {
            const Array& given = python::to_array("data_ptr", "array", array);
            python::in_scope([&] { return new (self) PinnedArray(given); });
          },
          "array"_a)
      .def_prop_ro("address", &PinnedArray::address, "Of element 0.");
  m.def(
      "_address_alignment",
      [](python::ArrayArg array) { return jit::address_alignment(read(python::to_array("data_ptr", "array", array))); },
      "array"_a, "What every address of element 0 is a multiple of, as far as 256; internal.");
}

}  // namespace gpukit
