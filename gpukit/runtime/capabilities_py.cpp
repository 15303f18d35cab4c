// What kernels a chip can run.
#include "gpukit/runtime/capabilities.h"

#include <nanobind/stl/string.h>

#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"

namespace gpukit {

using runtime::DeviceCapabilities;
using runtime::KernelType;

namespace {

/// A class with named values instead of an enum: its members have names of their own.
struct KernelTypeObject {
  KernelType type;
};

void bind_kernel_type(nb::module_& m) {
  nb::class_<KernelTypeObject> type(m, "KernelType", "A way to compute a matrix product.");
  type.def(
          "uses_tensor_cores", [](const KernelTypeObject& k) { return runtime::uses_tensor_cores(k.type); },
          "True for kernels on matrix units.")
      .def(
          "min_sm_version", [](const KernelTypeObject& k) { return runtime::min_sm_version(k.type); },
          "The oldest chip that has what the kernel needs, e.g. 80.")
      .def(
          "name", [](const KernelTypeObject& k) { return runtime::name(k.type); }, "The name of the class attribute.")
      .def(
          "__eq__",
          [](const KernelTypeObject& a, nb::handle b) {
            return nb::isinstance<KernelTypeObject>(b) && nb::cast<KernelTypeObject&>(b).type == a.type;
          },
          "other"_a)
      .def("__hash__", [](const KernelTypeObject& k) { return static_cast<int>(k.type); })
      .def("__repr__", [](const KernelTypeObject& k) { return std::string("KernelType.") + runtime::name(k.type); });
  for (int i = 0; i < runtime::kNumKernelTypes; ++i) {
    const auto value = static_cast<KernelType>(i);
    type.attr(runtime::name(value)) = nb::cast(KernelTypeObject{value});
  }
}

}  // namespace

void bind_capabilities(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "device");
  bind_kernel_type(m);
  using Caps = DeviceCapabilities;
  nb::class_<Caps>(m, "DeviceCapabilities",
                   "What a chip can do, from its SM version (90 for compute capability 9.0; 0 is the CPU).")
      .def(nb::init<int>(), "sm_version"_a = 86)
      .def_static(
          "of",
          [](python::DeviceArg device) {
            const Device where = python::to_device(device);
            return python::in_scope([&] { return Caps::of(where); });
          },
          "device"_a, "The capabilities of a device that is present.")
      .def_static(
          "ampere", [] { return Caps(80); }, "SM 80.")
      .def_static(
          "ada", [] { return Caps(89); }, "SM 89.")
      .def_static(
          "hopper", [] { return Caps(90); }, "SM 90.")
      .def_ro("device_id", &Caps::device_id)
      .def_ro("name", &Caps::name)
      .def_ro("sm_version", &Caps::sm_version)
      .def_ro("compute_capability", &Caps::sm_version, "The same number as sm_version.")
      .def_prop_ro("compute_major", [](const Caps& c) { return c.sm_version / 10; })
      .def_prop_ro("compute_minor", [](const Caps& c) { return c.sm_version % 10; })
      .def_prop_ro("tensorcore", &Caps::tensorcore, "TF32 on matrix units.")
      .def_prop_ro("tensorcore_fp16", &Caps::tensorcore_fp16)
      .def_prop_ro("tensorcore_bf16", &Caps::tensorcore_bf16)
      .def_prop_ro("async_copy", &Caps::async_copy, "Copies from global to shared memory without registers.")
      .def_ro("total_memory", &Caps::total_memory)
      .def_ro("l2_cache_size", &Caps::l2_cache_size)
      .def_ro("shared_mem_per_block", &Caps::shared_mem_per_block)
      .def_ro("max_threads_per_block", &Caps::max_threads_per_block)
      .def_ro("sm_count", &Caps::sm_count)
      .def_ro("warp_size", &Caps::warp_size)
      .def(
          "supports_kernel", [](const Caps& c, const KernelTypeObject& k) { return c.supports_kernel(k.type); },
          "kernel_type"_a, "True when the chip has what the kernel needs.")
      .def(
          "best_matmul_kernel",
          [](const Caps& c, bool use_tf32, bool dtype_is_fp32, bool large_matrix) {
            return KernelTypeObject{c.best_matmul_kernel(use_tf32, dtype_is_fp32, large_matrix)};
          },
          "use_tf32"_a = false, "dtype_is_fp32"_a = true, "large_matrix"_a = true,
          "The kind of kernel that suits a matrix product on this chip. float32 is exact unless TF32 is asked for.")
      .def("is_ampere_or_newer", [](const Caps& c) { return c.sm_version >= 80; })
      .def("__repr__", [](const Caps& c) {
        return "DeviceCapabilities(name='" + c.name + "', sm_version=" + std::to_string(c.sm_version) + ")";
      });
  nb::module_ top = python::runtime_module(core);
  for (const char* name : {"KernelType", "DeviceCapabilities"}) top.attr(name) = m.attr(name);
}

}  // namespace gpukit
