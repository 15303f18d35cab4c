// Kernels seen from tools: the list of built-in modules, compile reports, the bundle, the disk cache.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/driver/nvrtc.h"
#include "gpukit/jit/bundle.h"
#include "gpukit/jit/cache.h"
#include "gpukit/jit/compiler.h"
#include "gpukit/jit/kernel_check.h"
#include "gpukit/jit/source.h"
#include "gpukit/python/bind.h"
#include "gpukit/runtime/device.h"

namespace gpukit {
namespace {

const jit::Module& module_at(int64_t index) {
  const auto& modules = jit::all_modules();
  if (index < 0 || index >= static_cast<int64_t>(modules.size())) {
    throw OutOfRangeError("kernel module", index, static_cast<int64_t>(modules.size()));
  }
  return *modules[static_cast<size_t>(index)];
}

/// Where the module's code came from on the first device that has it.
const char* origin_of(const jit::Module& module) {
  for (int16_t i = 0; i < jit::kMaxDevices; ++i) {
    const jit::Origin origin = module.origin({DeviceKind::cuda, i});
    if (origin != jit::Origin::none) return jit::name(origin);
  }
  return jit::name(jit::Origin::none);
}

/// The compiler itself, whether or not there is a GPU to launch on.
python::AnyDict compiler_info() {
  std::string reason;
  const bool available = python::in_scope([&] { return jit::compiler_available(&reason); });
  nb::dict result;
  result["version"] = nb::none();
  result["reason"] = reason;
  if (!available) return result;
  const jit::CompilerVersion version = jit::compiler_version();
  result["version"] = nb::make_tuple(version.major, version.minor);
  result["path"] = driver::nvrtc_path();
  result["archs"] = driver::nvrtc_archs();
  return result;
}

python::AnyList kernel_modules() {
  nb::list result;
  for (const jit::Module* module : jit::all_modules()) {
    nb::dict entry;
    entry["source"] = module->source();
    entry["dtype"] = module->dtype() ? nb::object(nb::str(name(*module->dtype()))) : nb::none();
    entry["names"] = module->expressions();
    entry["archs"] = module->archs();
    entry["set"] = module->set();
    entry["origin"] = origin_of(*module);
    result.append(entry);
  }
  return result;
}

python::AnyDict compile_module(int64_t index, const std::string& arch) {
  const jit::KernelReport report = python::in_scope([&] { return jit::check_module(module_at(index), arch); });
  nb::dict result;
  result["cached"] = report.cached;
  result["kernels"] = report.num_kernels;
  result["max_registers"] = report.max_registers;
  result["spill_bytes"] = report.spill_bytes;
  result["stack_bytes"] = report.stack_bytes;
  result["serialized"] = report.serialized;
  result["sm"] = report.sm;
  result["abi_version"] = report.abi_version;
  result["ptx_version"] = report.ptx_version;
  result["log"] = report.log;
  return result;
}

python::AnyDict build_bundle(const std::string& path, const std::vector<std::string>& archs, int num_threads,
                             const nb::object& progress, const std::string& only) {
  if (num_threads <= 0) num_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::function<void(int64_t, int64_t)> tell;
  if (!progress.is_none()) {
    tell = [&](int64_t done, int64_t total) {
      python::GilHeld gil;
      progress(done, total);
    };
  }
  const jit::BundleReport report =
      python::in_scope([&] { return jit::build_bundle(path, archs, num_threads, only, tell); });
  nb::dict result;
  result["entries"] = report.entries;
  result["bytes"] = report.bytes;
  return result;
}

python::AnyDict bundle_info() {
  nb::dict result;
  const jit::Bundle* bundle = python::in_scope([] { return jit::bundle(); });
  result["path"] = bundle == nullptr ? nb::none() : nb::object(python::from_text(bundle->path()));
  result["reason"] = bundle == nullptr ? jit::bundle_reason() : std::string();
  if (bundle == nullptr) return result;
  result["entries"] = bundle->size();
  result["bytes"] = bundle->bytes();
  result["archs"] = bundle->archs();
  result["nvrtc"] = nb::make_tuple(bundle->compiler().major, bundle->compiler().minor);
  return result;
}

/// {source: names of kernels}
python::AnyDict not_bundled(int sm) {
  const auto missing = python::in_scope([&] {
    const jit::Bundle* bundle = jit::bundle();
    return bundle == nullptr ? std::vector<const jit::Module*>(jit::all_modules().begin(), jit::all_modules().end())
                             : jit::not_bundled(*bundle, sm / 10, sm % 10);
  });
  nb::dict result;
  for (const jit::Module* module : missing) {
    const nb::str source(module->source().c_str());
    if (!result.contains(source)) result[source] = nb::list();
    nb::list names = nb::borrow<nb::list>(result[source]);
    for (const std::string& name : module->expressions()) names.append(name);
  }
  return result;
}

python::AnyDict cache_info() {
  const jit::CacheStats stats = python::in_scope([] { return jit::cache_stats(); });
  nb::dict result;
  result["folder"] = stats.folder;
  result["enabled"] = stats.enabled;
  result["reason"] = stats.reason;
  result["entries"] = stats.entries;
  result["bytes"] = stats.bytes;
  result["max_bytes"] = stats.max_bytes;
  result["hits"] = stats.hits;
  result["misses"] = stats.misses;
  result["writes"] = stats.writes;
  return result;
}

/// The compiler's log; raises NvrtcError with it when the program does not compile.
std::string compile_source(const std::string& source, const std::string& arch) {
  return python::in_scope([&] {
    jit::CompileRequest request;
    request.name = "source";
    request.source = source;
    request.files = jit::include_closure(source).files;
    request.arch = "sm_" + arch;
    request.options = jit::builtin_options();
    return jit::compile(request).log;
  });
}

/// Loads every built-in module on a device, so that later processes find it in the cache. Gives how many came from
/// where.
python::AnyDict warm_cache(python::DeviceArg device_or_none, const nb::object& progress) {
  const Device device = python::to_device(device_or_none);
  if (device.kind != DeviceKind::cuda)
    throw DeviceError("cache warm: needs a GPU; " + runtime::cuda_unavailable_reason());
  nb::dict result;
  const auto& properties = runtime::properties(device);
  const auto total = static_cast<int64_t>(jit::all_modules().size());
  int64_t done = 0;
  for (jit::Module* module : jit::all_modules()) {
    const char* origin = python::in_scope([&]() -> const char* {
      try {
        module->target(properties.sm_major, properties.sm_minor);
      } catch (const UnsupportedError&) {
        return "not for this chip";
      }
      for (size_t i = 0; i < module->expressions().size(); ++i) module->load(device, static_cast<int>(i));
      return jit::name(module->origin(device));
    });
    const nb::str key(origin);
    result[key] = (result.contains(key) ? nb::cast<int64_t>(result[key]) : 0) + 1;
    if (!progress.is_none()) progress(++done, total);
  }
  return result;
}

}  // namespace

void bind_kernel_tools(nb::module_& m) {
  m.def("_compiler_info", &compiler_info, "NVRTC's version, path and chips, or why there is none.");
  m.def("_kernel_modules", &kernel_modules, "Every built-in kernel module: source, dtype, names, archs, set, origin.");
  m.def("_compile_module", &compile_module, "index"_a, "arch"_a,
        "Compiles one built-in module for a chip such as '90a' and tells registers, spills and image headers.");
  m.def("_compile_source", &compile_source, "source"_a, "arch"_a,
        "Compiles a program that may include the library's kernel sources; gives the compiler's log. For tests.");
  m.def(
      "_module_applies", [](int64_t index, const std::string& arch) { return jit::applies(module_at(index), arch); },
      "index"_a, "arch"_a, "Whether a built-in module is made for a chip.");
  m.def("_build_bundle", &build_bundle, "path"_a, "archs"_a, "num_threads"_a = 0, "progress"_a = nb::none(),
        "only"_a = "", "Compiles every built-in kernel for the chips and writes the bundle.");
  m.def("_set_bundle_path", &jit::set_bundle_path, "path"_a, "Where the wheel's kernel bundle lies.");
  m.def("_bundle_info", &bundle_info, "The kernel bundle in use, or why there is none.");
  m.def("_not_bundled", &not_bundled, "sm"_a, "{source: kernels} that the bundle in use has no code of for SM 90, ...");
  m.def("_cache_info", &cache_info, "State and counters of the kernel cache.");
  m.def(
      "_cache_clear", [] { return python::in_scope([] { return jit::cache_clear(); }); },
      "Removes every cache entry; gives their number.");
  m.def("_cache_warm", &warm_cache, "device"_a = nb::none(), "progress"_a = nb::none(),
        "Loads every built-in kernel once; gives how many modules came from where.");
}

}  // namespace gpukit
