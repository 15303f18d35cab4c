// Caches of compiled kernels, in memory and on disk.
#include "gpukit/scheduler/compat/kernel_cache.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "gpukit/python/byte_count.h"
#include "gpukit/scheduler/compat/persistent_cache.h"
#include "gpukit/scheduler/dispatch/dispatch_py.h"

namespace gpukit {

using python::Bytes;
using python::quoted;
using python::text_of;
using scheduler::ArchFingerprint;
using scheduler::CacheConfig;
using scheduler::CachedKernel;
using scheduler::CacheStats;
using scheduler::CompileOptions;
using scheduler::KernelCache;
using scheduler::PersistentCache;
using scheduler::PersistentCacheConfig;
using scheduler::PersistentCacheStats;
using scheduler::PersistentEntry;

namespace {

using OptionalOptions = std::optional<CompileOptions>;
using Unlocked = nb::call_guard<python::GilReleased>;

void bind_values(nb::module_& m) {
  nb::class_<CompileOptions>(m, "CompileOptions",
                             "What a kernel is compiled with. flag, define and include give copies.")
      .def(
          "__init__",
          [](CompileOptions* self, std::string capability) {
            new (self) CompileOptions;
            self->compute_capability = std::move(capability);
          },
          "compute_capability"_a = "sm_75")
      .def("flag", &CompileOptions::flag, "f"_a)
      .def("define", &CompileOptions::define, "name"_a, "value"_a = "")
      .def("include", &CompileOptions::include, "path"_a)
      .def_ro("compute_capability", &CompileOptions::compute_capability)
      .def_ro("flags", &CompileOptions::flags)
      .def_ro("defines", &CompileOptions::defines, "(name, value) pairs.")
      .def_ro("includes", &CompileOptions::includes)
      .def(
          "__eq__", [](const CompileOptions& a, const CompileOptions& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", [](const CompileOptions& o) {
        return "CompileOptions(" + quoted(o.compute_capability) + ", flags=" + std::to_string(o.flags.size()) +
               ", defines=" + std::to_string(o.defines.size()) + ", includes=" + std::to_string(o.includes.size()) +
               ")";
      });

  nb::class_<CacheConfig>(m, "CacheConfig", "Limits of a kernel cache.")
      .def(
          "__init__",
          [](CacheConfig* self, int64_t entries, Bytes<"CacheConfig: max_ptx_size"> size, bool eviction, double ttl) {
            new (self) CacheConfig{entries, size, eviction, ttl};
          },
          "max_entries"_a = 1024, "max_ptx_size"_a = int64_t{256} << 20, "enable_eviction"_a = true,
          "ttl_seconds"_a = 0.0)
      .def_ro("max_entries", &CacheConfig::max_entries)
      .def_ro("max_ptx_size", &CacheConfig::max_ptx_size)
      .def_ro("enable_eviction", &CacheConfig::enable_eviction)
      .def_ro("ttl_seconds", &CacheConfig::ttl_seconds, "0: entries do not expire.")
      .def("__repr__", [](const CacheConfig& c) {
        return "CacheConfig(max_entries=" + std::to_string(c.max_entries) +
               ", max_ptx_size=" + std::to_string(c.max_ptx_size) + ", enable_eviction=" + text_of(c.enable_eviction) +
               ", ttl_seconds=" + text_of(c.ttl_seconds) + ")";
      });

  nb::class_<CachedKernel>(m, "CachedKernel", "An entry of a kernel cache, as it stood when asked for.")
      .def_ro("key", &CachedKernel::key)
      .def_ro("name", &CachedKernel::name)
      .def_ro("ptx", &CachedKernel::ptx)
      .def_ro("module_handle", &CachedKernel::module_handle)
      .def_ro("function_handle", &CachedKernel::function_handle)
      .def_ro("created_at", &CachedKernel::created_at, "Seconds since 1970.")
      .def_ro("last_access", &CachedKernel::last_access)
      .def_ro("access_count", &CachedKernel::access_count)
      .def("is_loaded", &CachedKernel::is_loaded, "True when its handles were set.")
      .def("__repr__", [](const CachedKernel& k) {
        return "CachedKernel(name=" + quoted(k.name) + ", ptx=" + std::to_string(k.ptx.size()) +
               " bytes, loaded=" + text_of(k.is_loaded()) + ")";
      });

  nb::class_<CacheStats>(m, "CacheStats", "Counts of a kernel cache.")
      .def_ro("hits", &CacheStats::hits)
      .def_ro("misses", &CacheStats::misses)
      .def_ro("entries", &CacheStats::entries)
      .def_ro("ptx_size", &CacheStats::ptx_size)
      .def_ro("evictions", &CacheStats::evictions)
      .def_ro("ttl_evictions", &CacheStats::ttl_evictions)
      .def_ro("loaded_count", &CacheStats::loaded_count)
      .def("hit_rate", &CacheStats::hit_rate, "Hits of all lookups; 0 before the first.")
      .def("__repr__", [](const CacheStats& s) {
        return "CacheStats(entries=" + std::to_string(s.entries) + ", hits=" + std::to_string(s.hits) +
               ", misses=" + std::to_string(s.misses) + ", evictions=" + std::to_string(s.evictions) + ")";
      });
}

void bind_cache(nb::module_& m) {
  nb::class_<KernelCache>(
      m, "KernelCache",
      "Compiled kernels in memory, for programs that compile by themselves. The least recently used "
      "goes first.")
      .def(
          "__init__",
          [](KernelCache* self, const std::optional<CacheConfig>& config) {
            new (self) KernelCache(config.value_or(CacheConfig()));
          },
          "config"_a = nb::none())
      .def_static(
          "compute_key",
          [](std::string_view source, std::string_view name, const OptionalOptions& options) {
            return KernelCache::compute_key(source, name, options.value_or(CompileOptions()));
          },
          "source"_a, "name"_a, "options"_a = nb::none())
      .def_static("hash_source", &KernelCache::hash_source, "source"_a)
      .def("get", &KernelCache::get, "key"_a, "Counts as a hit or a miss.")
      .def(
          "get_by_name",
          [](KernelCache& c, const std::string& name, const OptionalOptions& options) {
            return c.get_by_name(name, options.value_or(CompileOptions()));
          },
          "name"_a, "options"_a = nb::none(), "What was inserted last under this name with these options.")
      .def(
          "insert",
          [](KernelCache& c, std::string_view source, const std::string& name, std::string ptx,
             const OptionalOptions& options) {
            return c.insert(source, name, std::move(ptx), options.value_or(CompileOptions()));
          },
          "source"_a, "name"_a, "ptx"_a, "options"_a = nb::none(), "Returns the key.")
      .def("set_handles", &KernelCache::set_handles, "key"_a, "module"_a, "function"_a)
      .def("remove", &KernelCache::remove, "key"_a)
      .def("contains", &KernelCache::contains, "key"_a)
      .def("kernel_names", &KernelCache::kernel_names)
      .def("clear_expired", &KernelCache::clear_expired, "Returns how many went.")
      .def("stats", &KernelCache::stats)
      .def("len", &KernelCache::size)
      .def("__len__", &KernelCache::size)
      .def("is_empty", [](const KernelCache& c) { return c.size() == 0; })
      .def("clear", &KernelCache::clear)
      .def("__repr__", [](const KernelCache& c) {
        return "KernelCache(entries=" + std::to_string(c.size()) +
               ", max_entries=" + std::to_string(c.config().max_entries) + ")";
      });
}

void bind_persistent_values(nb::module_& m) {
  nb::class_<ArchFingerprint>(m, "ArchFingerprint", "What compiled code depends on.")
      .def(
          "__init__",
          [](ArchFingerprint* self, int64_t sm, int64_t global, int64_t shared, int64_t registers, int64_t l2,
             int64_t driver) { new (self) ArchFingerprint{sm, global, shared, registers, l2, driver}; },
          "sm_version"_a, "global_memory"_a, "shared_memory_per_sm"_a, "max_registers_per_block"_a, "l2_cache_size"_a,
          "driver_version"_a)
      .def_ro("sm_version", &ArchFingerprint::sm_version)
      .def_ro("global_memory", &ArchFingerprint::global_memory)
      .def_ro("shared_memory_per_sm", &ArchFingerprint::shared_memory_per_sm)
      .def_ro("max_registers_per_block", &ArchFingerprint::max_registers_per_block)
      .def_ro("l2_cache_size", &ArchFingerprint::l2_cache_size)
      .def_ro("driver_version", &ArchFingerprint::driver_version)
      .def("hash", &ArchFingerprint::hash)
      .def("is_compatible", &ArchFingerprint::is_compatible, "other"_a, "True for the same SM version and driver.")
      .def(
          "__eq__", [](const ArchFingerprint& a, const ArchFingerprint& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__", &ArchFingerprint::hash)
      .def("__repr__", [](const ArchFingerprint& a) {
        return "ArchFingerprint(sm_version=" + std::to_string(a.sm_version) +
               ", driver_version=" + std::to_string(a.driver_version) + ")";
      });

  nb::class_<PersistentCacheConfig>(m, "PersistentCacheConfig", "Place and limits of a cache on disk.")
      .def(
          "__init__",
          [](PersistentCacheConfig* self, const std::optional<std::string>& folder,
             Bytes<"PersistentCacheConfig: max_size"> size, int64_t entries, bool cleanup, double ttl) {
            new (self) PersistentCacheConfig{folder.value_or(""), size, entries, cleanup, ttl};
          },
          "cache_dir"_a = nb::none(), "max_size"_a = int64_t{512} << 20, "max_entries"_a = 1000,
          "auto_cleanup"_a = true, "ttl_seconds"_a = 0.0)
      .def_prop_ro(
          "cache_dir",
          [](const PersistentCacheConfig& c) -> std::optional<std::string> {
            if (c.cache_dir.empty()) return std::nullopt;
            return c.cache_dir;
          },
          "None: ~/.pygpukit/cache.")
      .def_ro("max_size", &PersistentCacheConfig::max_size)
      .def_ro("max_entries", &PersistentCacheConfig::max_entries)
      .def_ro("auto_cleanup", &PersistentCacheConfig::auto_cleanup)
      .def_ro("ttl_seconds", &PersistentCacheConfig::ttl_seconds)
      .def("__repr__", [](const PersistentCacheConfig& c) {
        return "PersistentCacheConfig(cache_dir=" + (c.cache_dir.empty() ? "None" : quoted(c.cache_dir)) +
               ", max_size=" + std::to_string(c.max_size) + ", max_entries=" + std::to_string(c.max_entries) + ")";
      });

  nb::class_<PersistentEntry>(m, "PersistentEntry", "An entry of a cache on disk.")
      .def_ro("name", &PersistentEntry::name)
      .def_ro("ptx", &PersistentEntry::ptx)
      .def_ro("source_hash", &PersistentEntry::source_hash)
      .def_ro("options_hash", &PersistentEntry::options_hash)
      .def_ro("created_at", &PersistentEntry::created_at, "Seconds since 1970.")
      .def_ro("last_access", &PersistentEntry::last_access)
      .def_ro("access_count", &PersistentEntry::access_count)
      .def("ptx_size", &PersistentEntry::ptx_size)
      .def("__repr__", [](const PersistentEntry& e) {
        return "PersistentEntry(name=" + quoted(e.name) + ", ptx=" + std::to_string(e.ptx_size()) + " bytes)";
      });

  nb::class_<PersistentCacheStats>(m, "PersistentCacheStats", "Counts of a cache on disk.")
      .def_ro("entries", &PersistentCacheStats::entries)
      .def_ro("total_size", &PersistentCacheStats::total_size)
      .def_ro("hits", &PersistentCacheStats::hits)
      .def_ro("misses", &PersistentCacheStats::misses)
      .def_ro("evictions", &PersistentCacheStats::evictions)
      .def_ro("load_errors", &PersistentCacheStats::load_errors)
      .def_ro("save_errors", &PersistentCacheStats::save_errors)
      .def("hit_rate", &PersistentCacheStats::hit_rate)
      .def("__repr__", [](const PersistentCacheStats& s) {
        return "PersistentCacheStats(entries=" + std::to_string(s.entries) + ", hits=" + std::to_string(s.hits) +
               ", misses=" + std::to_string(s.misses) + ")";
      });
}

void bind_persistent(nb::module_& m) {
  nb::class_<PersistentCache>(m, "PersistentCache",
                              "Compiled kernels on disk, for programs that compile by themselves: one file for each "
                              "entry in a folder of this user alone. A file that is cut or changed is a miss.")
      .def(
          "__init__",
          [](PersistentCache* self, const std::optional<PersistentCacheConfig>& config, const ArchFingerprint& arch) {
            new (self) PersistentCache(config.value_or(PersistentCacheConfig()), arch);
          },
          "config"_a.none(), "arch"_a)
      .def("initialize", &PersistentCache::initialize, Unlocked(), "Opens the folder, making it when missing.")
      .def_static("compute_key", &PersistentCache::compute_key, "source_hash"_a, "name"_a, "options_hash"_a,
                  "arch_hash"_a)
      .def_static("hash_source", &PersistentCache::hash_source, "source"_a)
      .def_static("hash_options", &PersistentCache::hash_options, "options"_a)
      .def("get", &PersistentCache::get, "key"_a, Unlocked())
      .def("insert", &PersistentCache::insert, "source"_a, "name"_a, "options"_a, "ptx"_a, Unlocked(),
           "Returns the key.")
      .def("remove", &PersistentCache::remove, "key"_a, Unlocked())
      .def("clear", &PersistentCache::clear, Unlocked())
      .def("cleanup", &PersistentCache::cleanup, Unlocked(),
           "Removes what has expired or is too much; returns how many.")
      .def("contains", &PersistentCache::contains, "key"_a, Unlocked())
      .def("len", &PersistentCache::size, Unlocked())
      .def("__len__", &PersistentCache::size, Unlocked())
      .def("is_empty", [](PersistentCache& c) { return c.size() == 0; })
      .def("stats", &PersistentCache::stats, Unlocked())
      .def("__repr__", [](const PersistentCache& c) { return "PersistentCache(" + quoted(c.path()) + ")"; });
}

}  // namespace

void bind_kernel_cache(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "dispatch");
  bind_values(m);
  bind_cache(m);
  bind_persistent_values(m);
  bind_persistent(m);
  python::lift(core, "dispatch", {"CompileOptions", "CacheConfig", "KernelCache", "CachedKernel", "CacheStats"});
}

}  // namespace gpukit
