#include "gpukit/io/lazy_loader.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <tuple>

#include "gpukit/python/gil.h"
#include "gpukit/python/path.h"

namespace gpukit {
namespace {

using namespace python;
using io::LazyLoader;
using io::TensorState;
// Reading lets signals through, which takes the GIL while the loader is locked.
using Unlocked = nb::call_guard<GilReleased>;

/// on disk, loading, loaded, evicted.
std::tuple<int64_t, int64_t, int64_t, int64_t> states_of(const LazyLoader& self, const std::string& prefix) {
  std::array<int64_t, 4> counts{};
  for (const std::string& name : self.with_prefix(prefix)) ++counts[static_cast<size_t>(self.state(name))];
  return {counts[0], counts[1], counts[2], counts[3]};
}

std::tuple<int64_t, int64_t> counted(const LazyLoader::Unloaded& sum) { return {sum.tensors, sum.bytes}; }

bool all_loaded(const LazyLoader& self, const std::string& prefix) {
  const std::vector<std::string> names = self.with_prefix(prefix);
  for (const std::string& name : names)
    if (self.state(name) != TensorState::loaded) return false;
  return !names.empty();
}

void bind_stats(nb::module_& m) {
  nb::enum_<TensorState>(m, "TensorState", "Where a tensor of a LazyModelLoader is.")
      .value("OnDisk", TensorState::on_disk)
      .value("Loading", TensorState::loading)
      .value("Loaded", TensorState::loaded)
      .value("Evicted", TensorState::evicted);
  nb::class_<LazyLoader::Stats>(m, "PoolStats", "The budget of a LazyModelLoader and what became of it.")
      .def_ro("quota", &LazyLoader::Stats::budget_bytes)
      .def_ro("used", &LazyLoader::Stats::loaded_bytes)
      .def_ro("peak_used", &LazyLoader::Stats::peak_bytes)
      .def_prop_ro("available", [](const LazyLoader::Stats& s) { return s.budget_bytes - s.loaded_bytes; })
      .def_prop_ro(
          "utilization",
          [](const LazyLoader::Stats& s) {
            return static_cast<double>(s.loaded_bytes) / static_cast<double>(s.budget_bytes);
          },
          "The part of the budget in use.")
      .def_ro("total_blocks", &LazyLoader::Stats::tensors, "Tensors known.")
      .def_ro("active_blocks", &LazyLoader::Stats::loaded, "Tensors loaded.")
      .def_ro("hits", &LazyLoader::Stats::hits)
      .def_ro("misses", &LazyLoader::Stats::misses)
      .def_ro("eviction_count", &LazyLoader::Stats::evictions);
}

}  // namespace

void bind_lazy_loader(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_io", "The functions of pygpukit.io; internal.");
  bind_stats(m);
  nb::class_<LazyLoader>(m, "LazyModelLoader",
                         "Tensors that are read when asked for; what was used longest ago makes room for them. What is "
                         "loaded stays within memory_budget bytes.")
      .def(
          "__init__",
          [](LazyLoader* self, IntArg memory_budget, bool enable_eviction, DeviceArg device) {
            new (self) LazyLoader(to_int("LazyModelLoader", "memory_budget", memory_budget), enable_eviction,
                                  to_device(device));
          },
          "memory_budget"_a, "enable_eviction"_a = true, nb::kw_only(), "device"_a = nb::none())
      .def(
          "load_file",
          [](LazyLoader& self, PathArg path) {
            const std::string where = to_path("LazyModelLoader.load_file", path);
            in_scope([&] { return self.add_file(where), 0; });
          },
          "path"_a, "Makes the tensors of a file, an index or a folder known; reads none of them.")
      .def(
          "get",
          [](LazyLoader& self, const std::string& name) { return wrap(in_scope([&] { return self.get(name); })); },
          "name"_a, "The tensor on the device, read where it is not there.")
      .def(
          "prefetch",
          [](LazyLoader& self, const std::string& prefix) { return in_scope([&] { return self.prefetch(prefix); }); },
          "prefix"_a,
          "Begins to load what begins with prefix, as far as there is room without eviction, and does not wait; how "
          "many.")
      .def(
          "wait", [](LazyLoader& self) { in_scope([&] { return self.wait(), 0; }); },
          "Until what prefetch began is loaded. `get` waits for its own tensor.")
      .def_prop_ro("tensor_names", &LazyLoader::names, Unlocked())
      .def_prop_ro(
          "num_tensors", [](const LazyLoader& self) { return self.stats().tensors; }, Unlocked())
      .def_prop_ro("num_files", &LazyLoader::num_files, Unlocked())
      .def_prop_ro("total_size", &LazyLoader::total_bytes, Unlocked(), "Bytes of all tensors.")
      .def_prop_ro(
          "loaded_size", [](const LazyLoader& self) { return self.stats().loaded_bytes; }, Unlocked())
      .def_prop_ro("pool_stats", &LazyLoader::stats, Unlocked())
      .def("loaded_tensors", &LazyLoader::loaded, Unlocked(), "Names, the one used longest ago first.")
      .def(
          "num_loaded", [](const LazyLoader& self) { return self.stats().loaded; }, Unlocked())
      .def(
          "tensor_state", [](const LazyLoader& self, const std::string& name) { return self.state(name); }, Unlocked(),
          "name"_a)
      .def(
          "unload_model", [](LazyLoader& self) { return counted(self.unload("")); }, Unlocked(),
          "(tensors, bytes) given up: all.")
      .def(
          "unload_layer", [](LazyLoader& self, const std::string& prefix) { return counted(self.unload(prefix)); },
          Unlocked(), "prefix"_a, "(tensors, bytes) given up.")
      .def(
          "unload_tensors",
          [](LazyLoader& self, const std::vector<std::string>& names) { return counted(self.unload(names)); },
          Unlocked(), "names"_a, "(tensors, bytes) given up.")
      .def("clear", &LazyLoader::clear, Unlocked(), "Gives up all tensors and forgets the files.")
      .def("get_layer_tensors", &LazyLoader::with_prefix, Unlocked(), "prefix"_a, "Names that begin with prefix.")
      .def("layer_size", &LazyLoader::bytes_of, Unlocked(), "prefix"_a, "Bytes of the tensors that begin with prefix.")
      .def("is_layer_loaded", &all_loaded, Unlocked(), "prefix"_a)
      .def("layer_state", &states_of, Unlocked(), "prefix"_a, "How many are (on disk, loading, loaded, evicted).")
      .def(
          "__len__", [](const LazyLoader& self) { return self.stats().tensors; }, Unlocked())
      .def("__contains__", [](const LazyLoader& self, AnyArg name) {
        if (!nb::isinstance<nb::str>(name)) return false;
        const std::string text = to_text("LazyModelLoader", "name", name);
        return in_scope([&] { return self.contains(text); });
      });
}

}  // namespace gpukit
