#include "gpukit/jit/user_kernel.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/base/log.h"
#include "gpukit/jit/options.h"
#include "gpukit/jit/program.h"
#include "gpukit/jit/slices.h"
#include "gpukit/jit/source.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/session.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"

namespace gpukit::jit {
namespace {

constexpr int64_t kMaxBlockThreads = 1024;

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace

std::string kernels_unavailable_reason() {
  if (!runtime::cuda_available()) {
    const std::string reason = runtime::cuda_unavailable_reason();
    const bool no_driver = reason.rfind("CUDA driver", 0) == 0;
    return reason + (no_driver ? "; install the NVIDIA driver, then look with: python -m pygpukit doctor"
                               : "; see what the driver finds with: nvidia-smi");
  }
  std::string reason;
  if (!compiler_available(&reason)) return reason;
  return {};
}

UserKernel::UserKernel(std::string source, std::string function, std::vector<std::string> options, int64_t block_size)
    : source_(std::move(source)),
      function_(std::move(function)),
      options_(std::move(options)),
      block_size_(block_size) {
  if (block_size < 1 || block_size > kMaxBlockThreads) {
    throw ArgumentError("jit", "block_size", "be 1 to " + std::to_string(kMaxBlockThreads), std::to_string(block_size));
  }
  if (base_name(function_).empty()) throw ArgumentError("jit", "func", "name a kernel", "'" + function_ + "'");
  signature_ = read_signature(source_, function_);
  if (signature_.status == Signature::Status::missing) {
    throw ArgumentError(
        "Function '" + function_ +
        "' not found in source: no __global__ function of that name; kernels there: " + list_of(kernel_names(source_)));
  }
  if (signature_.is_template && function_.find('<') == std::string::npos) {
    throw ArgumentError("jit", "func", "name an instance of the template, e.g. '" + function_ + "<float>'",
                        "'" + function_ + "'");
  }
  CompileRequest request;
  request.name = function_;
  request.file = base_name(function_) + ".cu";
  std::vector<std::string> passed_over;
  request.options = nvrtc_options(options_, &passed_over);
  for (const std::string& option : passed_over)
    gpukit::log(LogLevel::info, "jit: " + function_ + ": passes the option " + option +
                                    " over, which is one of nvcc and does not concern the kernel");
  request.arch = take_arch(&request.options);
  // After this line the compiler counts lines as the user does.
  request.source = std::string(kProbeSource) + "#line 1 \"" + request.file + "\"\n" + source_;
  Closure closure = include_closure(source_);
  request.files = std::move(closure.files);
  request.expressions = {function_, probe_name(function_)};
  request.keep_ptx = true;
  const bool on_disk = closure.complete && !reads_other_files(request.options);
  module_ = shared_module(std::move(request), on_disk);
}

void UserKernel::adopt(const Image& image) {
  if (compiled_.load(std::memory_order_relaxed)) return;
  const std::vector<ParameterType> types = parse_probe(image.lowered(module_->expressions()[1]));
  if (types.size() > PackedCall::kMaxParameters) {
    throw UnsupportedError(function_ + ": has " + std::to_string(types.size()) + " parameters; at most " +
                           std::to_string(PackedCall::kMaxParameters) + " are supported");
  }
  const std::vector<std::string> names = signature_.names(types.size());
  parameters_.clear();
  for (size_t i = 0; i < types.size(); ++i) parameters_.push_back({names[i], types[i]});
  ptx_ = image.ptx.substr(0, image.ptx.find('\0'));
  log_ = image.log;
  compiled_.store(true, std::memory_order_release);
}

Image UserKernel::compile(const std::string& arch) {
  Image image = module_->build(arch);
  std::lock_guard lock(mutex_);
  adopt(image);
  return image;
}

void UserKernel::prepare_slow(Device device) {
  require_kernels(function_, device);
  module_->load(device, 0);
  std::lock_guard lock(mutex_);
  adopt(*module_->image(device));
  ready_[device.index].store(true, std::memory_order_release);
}

std::string UserKernel::ptx() const {
  std::lock_guard lock(mutex_);
  return ptx_;
}

std::string UserKernel::log() const {
  std::lock_guard lock(mutex_);
  return log_;
}

void UserKernel::pack(Device device, std::span<const Argument> arguments, const LaunchOptions& options,
                      PackedCall* call) const {
  pack_call(function_, parameters_, arguments, device, options, block_size_, call);
  if (options.slice_ms) item_range(function_, parameters_, arguments, options);
}

void UserKernel::launch(Device device, std::span<const Argument> arguments, const LaunchOptions& options) const {
  if (!options.slice_ms) [[likely]]
    return launch_whole(device, arguments, options);
  const std::optional<ItemRange> items = item_range(function_, parameters_, arguments, options);
  if (!items) {
    const scheduler::LaunchNote note("unsliced");
    return launch_whole(device, arguments, options);
  }
  const Extent block = options.block.value_or(Extent{block_size_, 1, 1});
  const int64_t threads = std::max<int64_t>(block.x * block.y * block.z, 1);
  const std::shared_ptr<driver::Stream> stream =
      options.stream != nullptr ? *options.stream : runtime::borrow_stream(device);
  std::vector<Argument> slice(arguments.begin(), arguments.end());
  LaunchOptions each = options;
  each.slice_ms.reset();
  each.stream = &stream;
  // Only the time counts: one slice may hold everything.
  scheduler::SliceConfig config;
  config.max_items_per_slice = std::max<int64_t>(items->count, 1);
  config.max_duration_ms = *options.slice_ms;
  scheduler::run_sliced(
      stream, items->count, config,
      [&](int64_t offset, int64_t count) {
        slice[items->offset_parameter].number = Scalar(items->first + offset);
        slice[items->count_parameter].number = Scalar(count);
        each.grid = Extent{(count + threads - 1) / threads, 1, 1};
        launch_whole(device, slice, each);
      },
      &slice_rates_[device.index]);
}

void UserKernel::launch_whole(Device device, std::span<const Argument> arguments, const LaunchOptions& options) const {
  PackedCall call;
  pack(device, arguments, options, &call);
  const std::shared_ptr<driver::Stream>& stream =
      options.stream != nullptr ? *options.stream : runtime::borrow_stream(device);
  if (!(stream->device() == device)) {
    throw DeviceError(function_ + ": stream is of " + str(stream->device()) + ", the kernel runs on " + str(device));
  }
  const std::span<const memory::Use> uses(call.uses, call.num_uses);
  runtime::settle(uses, *stream);
  const memory::Hold hold(uses);
  call.place();
  detail::launch_on(stream, kernel(), call.config, call.pointers, {call.sizes, call.num_values}, uses);
}

int UserKernel::suggested_block_size(Device device, size_t shared_bytes) {
  prepare(device);
  const driver::Context& context = runtime::open_device(device).context;
  context.make_current();
  return context.api().suggested_block_size(kernel().function(device), shared_bytes);
}

}  // namespace gpukit::jit
