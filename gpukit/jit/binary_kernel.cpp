#include "gpukit/jit/binary_kernel.h"

#include <map>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/sha256.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/session.h"

namespace gpukit::jit {
namespace {

constexpr uint64_t kBlockAlignment = 256;

constexpr uint32_t bit(DType dtype) { return 1u << static_cast<int>(dtype); }
constexpr uint32_t kEveryDType = (1u << kNumDTypes) - 1;

struct Word {
  const char* word;
  DType dtype;
  uint32_t accepts;
};

constexpr Word kWords[] = {
    {"i1", DType::boolean, bit(DType::boolean)},
    {"u1", DType::boolean, bit(DType::boolean)},
    {"i8", DType::int8, bit(DType::int8)},
    {"i16", DType::int16, bit(DType::int16)},
    {"i32", DType::int32, bit(DType::int32)},
    {"i64", DType::int64, bit(DType::int64)},
    {"u8", DType::uint8, bit(DType::uint8) | bit(DType::int4) | bit(DType::float4_e2m1)},
    {"u16", DType::uint16, bit(DType::uint16)},
    {"u32", DType::uint32, bit(DType::uint32)},
    {"u64", DType::uint64, bit(DType::uint64)},
    {"fp8e4nv", DType::float8_e4m3, bit(DType::float8_e4m3)},
    {"fp8e5", DType::float8_e5m2, bit(DType::float8_e5m2)},
    {"fp16", DType::float16, bit(DType::float16)},
    {"bf16", DType::bfloat16, bit(DType::bfloat16)},
    {"fp32", DType::float32, bit(DType::float32)},
    {"fp64", DType::float64, bit(DType::float64)},
    {"void", DType::uint8, kEveryDType},
};

const Word* find_word(const std::string& text) {
  for (const Word& word : kWords)
    if (text == word.word) return &word;
  return nullptr;
}

/// Equal code is loaded once; see Module for why none is ever unloaded.
Module* shared_module(const std::string& name, std::string code) {
  struct Modules {
    std::mutex mutex;
    std::map<std::pair<std::string, Sha256Digest>, Module*> shared;
  };
  static auto* modules = new Modules;
  const Sha256Digest digest = sha256(code);
  std::lock_guard lock(modules->mutex);
  Module*& slot = modules->shared[{name, digest}];
  if (slot == nullptr) slot = new Module(name, Image{{{name, name}}, std::move(code), {}, {}});
  return slot;
}

void check_device(const std::string& name, Device device) {
  if (device.kind != DeviceKind::cuda && runtime::open_device(device).context.properties().sm_major == 0)
    throw DeviceError(name + ": machine code of a GPU runs on a GPU, not on " + str(device));
}

}  // namespace

ParameterType type_of_word(const std::string& kernel, const std::string& word) {
  ParameterType type;
  type.text = word;
  size_t at = 0;
  if (word.rfind('*', 0) == 0) {
    type.kind = ParameterType::Kind::pointer;
    type.constant = word.rfind("*k", 0) == 0;
    at = type.constant ? 2 : 1;
  } else {
    type.kind = ParameterType::Kind::scalar;
  }
  const Word* found = find_word(word.substr(at));
  const bool scalar = type.kind == ParameterType::Kind::scalar;
  if (found == nullptr || (scalar && (found->accepts == kEveryDType || is_storage_only(found->dtype))))
    throw UnsupportedError(kernel + ": a parameter of the type " + word + " cannot be passed from here");
  type.dtype = found->dtype;
  type.accepts = found->accepts;
  return type;
}

int64_t address_alignment(const memory::Use& use) {
  const memory::Storage& storage = **use.storage;
  // Blocks of ours start at multiples of 256 wherever they move.
  const uint64_t start = storage.foreign() ? storage.address() : 0;
  const uint64_t address = start + static_cast<uint64_t>(use.offset_bytes);
  const uint64_t low = address & (~address + 1);
  return static_cast<int64_t>(low == 0 || low > kBlockAlignment ? kBlockAlignment : low);
}

BinaryKernel::BinaryKernel(std::string name, std::string code, const std::vector<std::string>& types)
    : name_(std::move(name)) {
  if (code.empty()) throw ArgumentError(name_, "code", "be a cubin or PTX", "no bytes");
  if (types.size() > static_cast<size_t>(PackedCall::kMaxParameters)) {
    throw UnsupportedError(name_ + ": has " + std::to_string(types.size()) + " parameters; at most " +
                           std::to_string(PackedCall::kMaxParameters) + " are supported");
  }
  for (const std::string& word : types) parameters_.push_back({"", type_of_word(name_, word)});
  module_ = shared_module(name_, std::move(code));
}

driver::FunctionAttributes BinaryKernel::attributes(Device device) const {
  check_device(name_, device);
  const driver::FunctionHandle function = module_->kernels()[0].function(device);
  const driver::Context& context = runtime::open_device(device).context;
  context.make_current();
  return context.api().attributes(function);
}

void BinaryKernel::pack(Device device, std::span<const Argument> arguments, const LaunchOptions& options,
                        PackedCall* call) const {
  pack_call(name_, parameters_, arguments, device, options, 1, call);
}

void BinaryKernel::launch(Device device, std::span<const Argument> arguments, const LaunchOptions& options) const {
  check_device(name_, device);
  PackedCall call;
  pack(device, arguments, options, &call);
  const std::shared_ptr<driver::Stream>& stream = runtime::borrow_stream(device);
  const std::span<const memory::Use> uses(call.uses, call.num_uses);
  runtime::settle(uses, *stream);
  const memory::Hold hold(uses);
  call.place();
  detail::launch_on(stream, module_->kernels()[0], call.config, call.pointers, {call.sizes, call.num_values}, uses);
}

}  // namespace gpukit::jit
