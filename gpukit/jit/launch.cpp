#include "gpukit/jit/launch.h"

#include <cstring>
#include <vector>

#include "gpukit/base/direct_cache.h"
#include "gpukit/base/error.h"
#include "gpukit/jit/module.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/tracing.h"

namespace gpukit::jit::detail {
namespace {

driver::LaunchShape shape_of(const LaunchConfig& config) {
  return {{config.grid_x, config.grid_y, config.grid_z},
          {config.block_x, config.block_y, config.block_z},
          config.shared_bytes};
}

std::string triple(const unsigned (&v)[3]) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + ")";
}

/// What this thread launched last, and where. A kernel starts early only behind one that takes nearly all
/// multiprocessors as it does: behind a smaller one its blocks would wait where kernels of other streams could run.
thread_local struct {
  const driver::Stream* stream = nullptr;
  bool overlaps = false;
} last_launch;

/// A launch with its own copy of the parameters, to be issued again, by itself.
class KeptLaunch {
 public:
  KeptLaunch(driver::FunctionHandle function, const driver::LaunchShape& shape, void** values,
             std::span<const uint32_t> sizes)
      : function_(function), shape_(shape) {
    shape_.overlaps = false;
    size_t total = 0;
    for (uint32_t size : sizes) {
      offsets_.push_back(total);
      total += (size + 15) / 16 * 16;
    }
    bytes_.resize(total / 16 + 1);
    for (size_t i = 0; i < sizes.size(); ++i) std::memcpy(at(i), values[i], sizes[i]);
  }
  int operator()(const driver::Stream& stream) {
    std::vector<void*> values(offsets_.size() + 1);
    for (size_t i = 0; i < offsets_.size(); ++i) values[i] = at(i);
    return stream.api().launch(function_, shape_, stream.handle(), values.data());
  }

 private:
  struct alignas(16) Slot {
    unsigned char bytes[16];
  };
  void* at(size_t i) { return reinterpret_cast<unsigned char*>(bytes_.data()) + offsets_[i]; }
  driver::FunctionHandle function_;
  driver::LaunchShape shape_;
  std::vector<size_t> offsets_;
  std::vector<Slot> bytes_;
};

/// Says which launch it was, beside what the gate says.
[[noreturn]] void fail(runtime::Submission& submission, int code, const Kernel& kernel,
                       const driver::LaunchShape& shape) {
  try {
    submission.done(code, {});
  } catch (const CudaError& e) {
    std::string detail = "grid " + triple(shape.grid) + ", block " + triple(shape.block) + ", " +
                         std::to_string(shape.shared_bytes) + " bytes of shared memory; " + e.what();
    throw CudaError(std::string("launch of ") + kernel.name(), code, e.name, detail);
  }
  throw CudaError(std::string("launch of ") + kernel.name(), code, submission.api().error_name(code));
}

struct MapKey {
  driver::Address address;
  driver::BoxLayout layout;
  bool operator==(const MapKey&) const = default;
};

}  // namespace

driver::BoxMap tensor_map(const driver::Api& api, const driver::BoxLayout& layout, driver::Address address) {
  thread_local DirectCache<MapKey, driver::BoxMap, 128> cache;
  uint64_t hash = mix_hash(static_cast<uint64_t>(layout.dtype), address);
  for (const int64_t size : layout.shape) hash = mix_hash(hash, static_cast<uint64_t>(size));
  for (const int64_t stride : layout.strides) hash = mix_hash(hash, static_cast<uint64_t>(stride));
  for (const int side : layout.box) hash = mix_hash(hash, static_cast<uint64_t>(side));
  return cache.get({address, layout}, hash, [&] { return api.make_box_map(layout, address); });
}

void launch_on(const std::shared_ptr<driver::Stream>& stream, const Kernel& kernel, const LaunchConfig& config,
               void** values, std::span<const uint32_t> sizes, std::span<const memory::Use> uses) {
  runtime::check_work(kernel.name(), uses);
  const Device device = stream->device();
  // Loading may take long: not while a control has given this launch its turn.
  if (stream->control.load(std::memory_order_relaxed) != nullptr) kernel.function(device);
  runtime::Submission submission(stream, kernel.name());
  const driver::FunctionHandle function = kernel.function(device);
  driver::LaunchShape shape = shape_of(config);
  const bool overlaps = config.overlaps && kernel.module()->may_overlap(device);
  shape.overlaps = overlaps && last_launch.stream == stream.get() && last_launch.overlaps;
  int code = runtime::code_of([&] { kernel.allow_shared(device, config.shared_bytes); });
  if (code == 0) code = submission.api().launch(function, shape, stream->handle(), values);
  if (code != 0) [[unlikely]]
    fail(submission, code, kernel, shape);
  last_launch = {stream.get(), overlaps};
  if (submission.capturing()) [[unlikely]]
    submission.keep(KeptLaunch(function, shape, values, sizes));
  submission.done(code, uses);
}

void launch_packed(const Kernel& kernel, Device device, const LaunchConfig& config, void** values,
                   std::span<const uint32_t> sizes, std::span<const memory::Use> uses) {
  launch_on(runtime::borrow_stream(device), kernel, config, values, sizes, uses);
}

}  // namespace gpukit::jit::detail
