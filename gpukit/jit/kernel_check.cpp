#include "gpukit/jit/kernel_check.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/jit/bundle.h"
#include "gpukit/jit/cache.h"

namespace gpukit::jit {
namespace {

constexpr size_t kElfHeaderBytes = 64;
constexpr size_t kPtxHeaderBytes = 1024;

/// The number before every `word` in the log, e.g. ` bytes spill stores`.
template <typename F>
void numbers_before(std::string_view log, std::string_view word, F&& f) {
  for (size_t at = log.find(word); at != std::string_view::npos; at = log.find(word, at + word.size())) {
    int64_t value = 0, scale = 1;
    for (size_t i = at; i-- > 0 && log[i] >= '0' && log[i] <= '9'; scale *= 10) value += scale * (log[i] - '0');
    f(value);
  }
}

int number_of(const std::string& arch) { return std::stoi(arch.substr(0, arch.find_first_not_of("0123456789"))); }

/// One thing to compile for the bundle.
struct Job {
  const Module* module;
  std::string arch;  // with its prefix
};

/// Runs `f(i)` for 0 <= i < count on several threads; the first exception is rethrown when all have stopped.
template <typename F>
void for_each_index(size_t count, int num_threads, F&& f) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        f(i);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

KernelReport report_of(const Image& image) {
  KernelReport report;
  report.log = image.log;
  report.num_kernels = static_cast<int>(image.names.size());
  numbers_before(image.log, " registers",
                 [&](int64_t n) { report.max_registers = std::max<int>(report.max_registers, static_cast<int>(n)); });
  numbers_before(image.log, " bytes spill stores", [&](int64_t n) { report.spill_bytes += n; });
  numbers_before(image.log, " bytes spill loads", [&](int64_t n) { report.spill_bytes += n; });
  numbers_before(image.log, " bytes stack frame", [&](int64_t n) { report.stack_bytes += n; });
  report.serialized = image.log.find("serialized") != std::string::npos;
  if (const auto header = read_cubin_header(image.code)) {
    report.sm = header->sm;
    report.abi_version = header->abi_version;
  }
  report.ptx_version = read_ptx_version(image.ptx);
  return report;
}

bool applies(const Module& module, const std::string& arch) {
  const std::vector<std::string>& limits = module.archs();
  return limits.empty() || std::find(limits.begin(), limits.end(), arch) != limits.end();
}

KernelReport check_module(const Module& module, const std::string& arch) {
  CompileRequest request = module.request("sm_" + arch);
  request.options.push_back("--ptxas-options=-v");
  request.keep_ptx = true;
  const Key key = key_of(request, compiler_version());
  if (const auto known = cache_read(key)) {
    KernelReport report = report_of(*known);
    report.cached = true;
    return report;
  }
  Image image = compile(request);
  // The headers and the log are all a report needs.
  image.code.resize(std::min(image.code.size(), kElfHeaderBytes));
  image.ptx.resize(std::min(image.ptx.size(), kPtxHeaderBytes));
  cache_write(key, image);
  return report_of(image);
}

BundleReport build_bundle(const std::string& path, const std::vector<std::string>& archs, int num_threads,
                          const std::string& only, const std::function<void(int64_t, int64_t)>& progress) {
  if (archs.empty()) throw ArgumentError("build_bundle", "archs", "name at least one chip", "none");
  std::string lowest = archs.front();
  for (const std::string& arch : archs)
    if (number_of(arch) < number_of(lowest)) lowest = arch;
  const std::string ptx_target = "compute_" + std::to_string(number_of(lowest));

  std::vector<Job> jobs;
  std::vector<std::string> held;
  auto add = [&](const Module* module, const std::string& target) {
    jobs.push_back({module, target});
    if (std::find(held.begin(), held.end(), target) == held.end()) held.push_back(target);
  };
  for (const Module* module : all_modules()) {
    if (module->source().find(only) == std::string::npos) continue;
    if (module->archs().empty()) {
      for (const std::string& arch : archs) add(module, "sm_" + arch);
      add(module, ptx_target);
    } else {
      for (const std::string& own : module->archs())
        for (const std::string& arch : archs)
          if (number_of(own) == number_of(arch)) add(module, "sm_" + own);
    }
  }

  const CompilerVersion compiler = compiler_version();
  std::vector<BundleEntry> entries(jobs.size());
  std::mutex mutex;
  int64_t done = 0;
  for_each_index(jobs.size(), num_threads, [&](size_t i) {
    Image image = jobs[i].module->build(jobs[i].arch);
    image.log.clear();
    const Key key = key_of(jobs[i].module->request(jobs[i].arch), compiler);
    // A module of one kernel was made so that its first use loads no more than that.
    const bool alone = jobs[i].module->expressions().size() == 1 && jobs[i].arch != ptx_target;
    entries[i] = {key, jobs[i].arch + " " + jobs[i].module->source(), encode(key, image), alone};
    std::lock_guard lock(mutex);
    ++done;
    if (progress) progress(done, static_cast<int64_t>(jobs.size()));
  });
  BundleReport report;
  report.entries = static_cast<int64_t>(entries.size());
  write_bundle(path, compiler, held, std::move(entries));
  report.bytes = static_cast<int64_t>(files::Mapping::open(path).size());
  return report;
}

}  // namespace gpukit::jit
