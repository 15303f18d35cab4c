#include "gpukit/base/env.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <mutex>

#include "gpukit/base/env_attention.h"
#include "gpukit/base/env_triton.h"
#include "gpukit/base/error.h"
#include "gpukit/base/fork.h"

namespace gpukit::env {
namespace {

enum Id {
  kDevice,
  kNvrtc,
  kCacheDir,
  kCacheMaxMb,
  kCache,
  kAllowTf32,
  kNoTf32,
  kNoCublasLt,
  kCublasLt,
  kPreferCublasLt,
  kFlashAttention,
  kFlashDecoding,
  kFa3,
  kDisableGroupedGemm,
  kUseTriton,
  kDeterminism,
  kLog,
  kLaunchBlocking,
  kMemoryDebug,
  kNumThreads,
  kRequireGpu,
  kAssets,
  kRequireAssets,
  kCount
};

struct Row {
  const char* name;
  const char* meaning;
  const char* valid;
};

constexpr Row kRows[kCount] = {
    {"PYGPUKIT_DEVICE", "default device; cuda fails instead of falling back", "cpu, cuda, cuda:N"},
    {"PYGPUKIT_NVRTC", "off: driver only; else this compiler library", "off, a path"},
    {"PYGPUKIT_CACHE_DIR", "folder of the kernel cache", "a path"},
    {"PYGPUKIT_CACHE_MAX_MB", "size limit of the kernel cache", "a positive integer"},
    {"PYGPUKIT_CACHE", "off: no kernel cache on disk", "on, off"},
    {"PYGPUKIT_ALLOW_TF32", "float32 matrix products may use TF32", "0, 1"},
    {"PYGPUKIT_NO_TF32", "float32 matrix products never use TF32; wins over ALLOW", "0, 1"},
    {"PYGPUKIT_NO_CUBLASLT", "do not use cuBLASLt", "0, 1"},
    {"PYGPUKIT_CUBLASLT", "this cuBLASLt library", "a path"},
    {"PYGPUKIT_PREFER_CUBLASLT", "cuBLASLt makes the matrix products that it was measured to make faster", "0, 1"},
    {"PYGPUKIT_FLASH_ATTENTION", "taken as in 0.2; attention never makes the whole matrix of scores", "0, 1, auto"},
    {"PYGPUKIT_FLASH_DECODING", "1: cut the keys of attention among blocks, 0: do not; no bit depends on it",
     "0, 1, -1"},
    {"PYGPUKIT_FA3", "taken as in 0.2; kernels of attention are chosen by shape", "0, 1, -1"},
    {"PYGPUKIT_DISABLE_GROUPED_GEMM", "taken as in 0.2; products of experts are always grouped", "0, 1"},
    {"PYGPUKIT_USE_TRITON", "whether programs that have both ways use Triton's kernels", "0, 1"},
    {"PYGPUKIT_DETERMINISM", "what equal bits are promised for", "not_guaranteed, run_to_run, batch_invariant"},
    {"PYGPUKIT_LOG", "level of the logger", "debug, info, warning, error, off"},
    {"PYGPUKIT_LAUNCH_BLOCKING", "wait after every launch, to find which one fails", "0, 1"},
    {"PYGPUKIT_MEMORY_DEBUG", "check and poison memory, to find bad uses", "0, 1"},
    {"PYGPUKIT_NUM_THREADS", "threads of the CPU backend; results do not depend on it", "a positive integer"},
    {"PYGPUKIT_REQUIRE_GPU", "tests only: a missing GPU is a failure", "0, 1"},
    {"PYGPUKIT_ASSETS", "tests only: folder of model files", "a path"},
    {"PYGPUKIT_REQUIRE_ASSETS", "tests only: a missing model file is a failure", "0, 1"},
};

using Values = std::array<std::optional<std::string>, kCount>;

std::mutex g_mutex;
std::mutex& values_mutex() { return g_mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<values_mutex>();
Values* g_values = nullptr;  // leaked

std::optional<std::string> value_of(Id id) {
  std::lock_guard lock(g_mutex);
  if (g_values == nullptr) {
    g_values = new Values;
    for (int i = 0; i < kCount; ++i) (*g_values)[i] = get(kRows[i].name);
  }
  return (*g_values)[id];
}

[[noreturn]] void invalid(Id id, const std::string& value) {
  throw ArgumentError("environment", kRows[id].name, std::string("be one of: ") + kRows[id].valid, "'" + value + "'");
}

bool flag(Id id) {
  const auto value = value_of(id);
  if (!value || *value == "0") return false;
  if (*value == "1") return true;
  invalid(id, *value);
}

int64_t positive(Id id, int64_t standard, int64_t limit) {
  const auto value = value_of(id);
  if (!value) return standard;
  int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || stop != end || number < 1 || number > limit) invalid(id, *value);
  return number;
}

/// One of `valid`; nullopt when unset.
std::optional<std::string> one_of(Id id, std::initializer_list<const char*> valid) {
  const auto value = value_of(id);
  if (!value) return std::nullopt;
  for (const char* text : valid)
    if (*value == text) return value;
  invalid(id, *value);
}

}  // namespace

std::optional<DeviceChoice> device() {
  const auto value = value_of(kDevice);
  if (!value) return std::nullopt;
  try {
    return DeviceChoice{device_from_name(*value), value->find(':') != std::string::npos};
  } catch (const ArgumentError&) {
    invalid(kDevice, *value);
  }
}

NvrtcChoice nvrtc() {
  const auto value = value_of(kNvrtc);
  if (!value) return {};
  if (*value == "off") return {.off = true, .path = {}};
  return {.off = false, .path = *value};
}

std::string cache_dir() { return value_of(kCacheDir).value_or(""); }
int64_t cache_max_mb() { return positive(kCacheMaxMb, 1024, int64_t{1} << 40); }

bool cache_enabled() {
  const auto value = value_of(kCache);
  if (!value || *value == "on") return true;
  if (*value == "off") return false;
  invalid(kCache, *value);
}

bool allow_tf32() { return flag(kAllowTf32) && !flag(kNoTf32); }
bool no_cublaslt() { return flag(kNoCublasLt); }
bool prefer_cublaslt() { return flag(kPreferCublasLt) && !flag(kNoCublasLt); }

std::optional<bool> flash_decoding() {
  const auto value = one_of(kFlashDecoding, {"0", "1", "-1"});
  if (!value || *value == "-1") return std::nullopt;
  return *value == "1";
}

std::optional<bool> use_triton() {
  const bool value = flag(kUseTriton);
  return value_of(kUseTriton) ? std::optional(value) : std::nullopt;
}

const char* name(Determinism level) {
  switch (level) {
    case Determinism::not_guaranteed: return "not_guaranteed";
    case Determinism::batch_invariant: return "batch_invariant";
    default: return "run_to_run";
  }
}

Determinism determinism() {
  const auto value = value_of(kDeterminism);
  if (!value) return Determinism::run_to_run;
  for (Determinism level : {Determinism::not_guaranteed, Determinism::run_to_run, Determinism::batch_invariant})
    if (*value == name(level)) return level;
  invalid(kDeterminism, *value);
}

std::optional<LogLevel> log_level() {
  const auto value = value_of(kLog);
  if (!value) return std::nullopt;
  for (LogLevel level : {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error, LogLevel::off})
    if (*value == gpukit::name(level)) return level;
  invalid(kLog, *value);
}

bool launch_blocking() { return flag(kLaunchBlocking); }
bool memory_debug() { return flag(kMemoryDebug); }
int num_threads() { return static_cast<int>(positive(kNumThreads, 0, 65536)); }
bool require_gpu() { return flag(kRequireGpu); }
std::string assets() { return value_of(kAssets).value_or(""); }
bool require_assets() { return flag(kRequireAssets); }

std::vector<Variable> list() {
  std::vector<Variable> all;
  for (int i = 0; i < kCount; ++i)
    all.push_back({kRows[i].name, kRows[i].meaning, kRows[i].valid, value_of(static_cast<Id>(i))});
  return all;
}

void check() {
  for (Id id :
       {kAllowTf32, kNoTf32, kNoCublasLt, kPreferCublasLt, kLaunchBlocking, kMemoryDebug, kRequireGpu, kRequireAssets})
    flag(id);
  flag(kDisableGroupedGemm);
  flag(kUseTriton);
  one_of(kFlashAttention, {"0", "1", "auto"});
  one_of(kFa3, {"0", "1", "-1"});
  flash_decoding();
  device();
  cache_max_mb();
  cache_enabled();
  determinism();
  log_level();
  num_threads();
}

std::optional<std::string> get(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

void reread() {
  std::lock_guard lock(g_mutex);
  delete g_values;
  g_values = nullptr;
}

}  // namespace gpukit::env
