#include "gpukit/jit/module.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/jit/bundle.h"
#include "gpukit/jit/cache.h"
#include "gpukit/jit/source.h"
#include "gpukit/memory/fence.h"
#include "gpukit/runtime/device.h"

namespace gpukit::jit {
namespace {

std::string digits_of(int sm_major, int sm_minor) { return std::to_string(sm_major * 10 + sm_minor); }

/// `90a` runs on 9.0 alone, `100f` on its family (10.0 and up), a plain number on its major from that minor.
bool runs_on(const std::string& arch, int sm_major, int sm_minor) {
  const size_t length = arch.find_first_not_of("0123456789");
  const int number = std::stoi(arch.substr(0, length));
  const char kind = length == std::string::npos ? '\0' : arch[length];
  if (kind == 'a') return number == sm_major * 10 + sm_minor;
  return number / 10 == sm_major && number % 10 <= sm_minor;
}

}  // namespace

const char* name(Origin origin) {
  switch (origin) {
    case Origin::none: return "none";
    case Origin::bundle: return "bundle";
    case Origin::cache: return "cache";
    case Origin::compiled: return "compiled";
  }
  return "none";
}

Module::Module(std::string source, std::optional<DType> dtype, std::vector<std::string> expressions,
               std::vector<std::string> archs)
    : builtin_(true), source_(std::move(source)), dtype_(dtype), archs_(std::move(archs)) {
  request_.name = source_;
  if (dtype_) request_.name += std::string(" (") + gpukit::name(*dtype_) + ")";
  request_.source = "#include \"" + source_ + "\"\n";
  request_.options = builtin_options();
  request_.expressions = std::move(expressions);
  make_kernels();
}

Module::Module(CompileRequest request, bool on_disk)
    : builtin_(false), on_disk_(on_disk), request_(std::move(request)) {
  source_ = request_.name;
  make_kernels();
}

Module::Module(std::string name, Image ready) : builtin_(false), on_disk_(false), ready_(std::move(ready)) {
  source_ = request_.name = std::move(name);
  for (const auto& [expression, lowered] : ready_->names) request_.expressions.push_back(expression);
  make_kernels();
}

void Module::make_kernels() {
  kernels_ = std::make_unique<Kernel[]>(request_.expressions.size());
  for (size_t i = 0; i < request_.expressions.size(); ++i) {
    kernels_[i].name_ = request_.expressions[i];
    kernels_[i].module_ = this;
    kernels_[i].index_ = static_cast<int>(i);
  }
}

const CompileRequest& Module::base_request() const {
  // Static sets are declared before the table of embedded files may be ready, so it is read at the first use.
  if (builtin_) {
    std::call_once(files_found_, [this] { request_.files = embedded_closure(source_); });
  }
  return request_;
}

CompileRequest Module::request(const std::string& arch) const {
  CompileRequest request = base_request();
  if (request.arch.empty()) request.arch = arch;
  return request;
}

CompileRequest Module::request(const std::string& arch, int kernel) const {
  CompileRequest one = request(arch);
  // Types of a user's kernel come from its second expression, so that module stays whole.
  if (builtin_) {
    one.expressions = {request_.expressions[kernel]};
    one.name = one.expressions[0] + " of " + source_;
  }
  return one;
}

Image Module::build(const CompileRequest& wanted, Origin* origin) const {
  const Key key = key_of(wanted, compiler_version());
  if (on_disk_) {
    if (auto image = cache_read(key)) {
      if (origin != nullptr) *origin = Origin::cache;
      return *std::move(image);
    }
  }
  Image image = compile(wanted);
  if (on_disk_) cache_write(key, image);
  if (origin != nullptr) *origin = Origin::compiled;
  return image;
}

std::string Module::target(int sm_major, int sm_minor) const {
  if (!request_.arch.empty()) return request_.arch;
  if (archs_.empty()) return "sm_" + digits_of(sm_major, sm_minor);
  for (const std::string& arch : archs_)
    if (runs_on(arch, sm_major, sm_minor)) return "sm_" + arch;
  std::string wanted;
  for (const std::string& arch : archs_) wanted += (wanted.empty() ? "sm_" : ", sm_") + arch;
  throw UnsupportedError(source_ + ": made for " + wanted + ", not for sm_" + digits_of(sm_major, sm_minor));
}

driver::FunctionHandle Module::load(Device device, int kernel) {
  driver::Context& context = runtime::open_device(device).context;
  const driver::Api& api = context.api();
  std::lock_guard lock(mutex_);
  std::atomic<driver::FunctionHandle>& slot = kernels_[kernel].functions_[device.index];
  if (driver::FunctionHandle ready = slot.load(std::memory_order_acquire)) return ready;
  const memory::RelaxedCapture relaxed(context);
  Loaded loaded = loaded_[device.index];
  if (loaded.library == nullptr) {
    loaded = load_code(device, kernel);
    if (loaded.whole) loaded_[device.index] = loaded;
    loaded_[device.index].origin = loaded.origin;
    constexpr int kFirstToOverlap = 90;
    const int target = read_target(loaded.image->code);
    if (target != 0 && target < kFirstToOverlap) of_earlier_chip_[device.index].store(true, std::memory_order_relaxed);
  }
  const std::string lowered = loaded.image->lowered(request_.expressions[kernel]);
  const driver::FunctionHandle function = api.get_function(loaded.library, lowered.c_str());
  slot.store(function, std::memory_order_release);
  return function;
}

bool Module::try_load(Device device, Image image, Origin origin, Loaded* loaded, std::string* refusals) const {
  const driver::Api& api = runtime::open_device(device).context.api();
  try {
    loaded->library = api.load_library(image.code.data());
  } catch (const CudaError& e) {
    if (driver::is_sticky(e.code)) throw;
    *refusals += std::string(refusals->empty() ? "" : "; ") + "the driver refused the code from " + name(origin) +
                 ": " + e.what();
    return false;
  }
  loaded->image = std::make_shared<const Image>(std::move(image));
  loaded->origin = origin;
  return true;
}

Module::Loaded Module::load_code(Device device, int kernel) const {
  const driver::DeviceProperties& properties = runtime::properties(device);
  std::string refusals;
  Loaded loaded;
  if (ready_) {
    loaded.whole = true;
    if (try_load(device, *ready_, Origin::compiled, &loaded, &refusals)) return loaded;
    throw NvrtcError(kNvrtcPtxLoadFailed, source_ + ": " + refusals);
  }
  const std::string arch = target(properties.sm_major, properties.sm_minor);
  if (builtin_ && bundle() != nullptr) {
    auto found = find_in_bundle(*bundle(), *this, properties.sm_major, properties.sm_minor);
    loaded.whole = true;
    if (found && try_load(device, *std::move(found), Origin::bundle, &loaded, &refusals)) return loaded;
  }
  std::string reason;
  if (!compiler_available(&reason)) {
    if (!builtin_) throw NvrtcError(kNvrtcNotLoaded, reason);
    const std::string why = bundle() == nullptr ? bundle_reason() : "the kernel bundle has no code for " + arch;
    throw NvrtcError(kNvrtcNotLoaded, request_.name + ": " + (refusals.empty() ? why : refusals) + "; " + reason);
  }
  loaded.whole = !builtin_;
  const CompileRequest wanted = request(arch, kernel);
  Origin origin = Origin::none;
  if (try_load(device, build(wanted, &origin), origin, &loaded, &refusals)) return loaded;
  // A cached image that the driver refuses is made again.
  if (origin == Origin::cache) {
    Image fresh = compile(wanted);
    cache_write(key_of(wanted, compiler_version()), fresh);
    if (try_load(device, std::move(fresh), Origin::compiled, &loaded, &refusals)) return loaded;
  }
  throw NvrtcError(kNvrtcPtxLoadFailed, wanted.name + " for " + arch + ": " + refusals);
}

Origin Module::origin(Device device) const {
  std::lock_guard lock(mutex_);
  return loaded_[device.index].origin;
}

std::shared_ptr<const Image> Module::image(Device device) const {
  std::lock_guard lock(mutex_);
  return loaded_[device.index].image;
}

std::vector<std::string> bundled_targets(const Bundle& bundle, const Module& module, int sm_major, int sm_minor) {
  if (!module.archs().empty()) return {module.target(sm_major, sm_minor)};
  std::vector<std::string> targets;
  const std::vector<std::string>& held = bundle.archs();
  for (int minor = sm_minor; minor >= 0; --minor) {
    const std::string arch = "sm_" + digits_of(sm_major, minor);
    if (std::find(held.begin(), held.end(), arch) != held.end()) targets.push_back(arch);
  }
  // PTX runs on any later chip, at the price of the driver's own compilation.
  for (const std::string& arch : held)
    if (arch.rfind("compute_", 0) == 0 && std::stoi(arch.substr(8)) <= sm_major * 10 + sm_minor)
      targets.push_back(arch);
  return targets;
}

std::optional<Image> find_in_bundle(const Bundle& bundle, const Module& module, int sm_major, int sm_minor) {
  for (const std::string& target : bundled_targets(bundle, module, sm_major, sm_minor))
    if (auto image = bundle.find(module.request(target))) return image;
  return {};
}

std::vector<const Module*> not_bundled(const Bundle& bundle, int sm_major, int sm_minor) {
  std::vector<const Module*> missing;
  for (const Module* module : all_modules()) {
    const std::vector<std::string>& only = module->archs();
    if (!only.empty() && std::none_of(only.begin(), only.end(),
                                      [&](const std::string& arch) { return runs_on(arch, sm_major, sm_minor); }))
      continue;
    const std::vector<std::string> targets = bundled_targets(bundle, *module, sm_major, sm_minor);
    if (std::none_of(targets.begin(), targets.end(), [&](const std::string& target) {
          return bundle.has(key_of(module->request(target), bundle.compiler()));
        }))
      missing.push_back(module);
  }
  return missing;
}

}  // namespace gpukit::jit
