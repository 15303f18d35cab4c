// A module: kernels that are compiled and loaded together. Found in the bundle, the disk cache, or made by NVRTC.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/base/dtype.h"
#include "gpukit/jit/compiler.h"
#include "gpukit/jit/kernel.h"

namespace gpukit::jit {

/// Where the code of a module came from.
enum class Origin : uint8_t { none, bundle, cache, compiled };
const char* name(Origin origin);

/// Thread-safe; one thread compiles while others that need the same module wait. Modules live as long as the process:
/// graphs, in-flight work and the list of recent launches refer to their kernels.
class Module {
 public:
  /// Built-in: every expression of one embedded file for one dtype.
  Module(std::string source, std::optional<DType> dtype, std::vector<std::string> expressions,
         std::vector<std::string> archs);
  /// A user's program. `request.arch` empty: the exact chip. `on_disk` false: it depends on files outside the key.
  Module(CompileRequest request, bool on_disk);
  /// Code that is ready.
  Module(std::string name, Image ready);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  bool builtin() const { return builtin_; }
  const std::string& source() const { return source_; }
  std::optional<DType> dtype() const { return dtype_; }
  const std::vector<std::string>& expressions() const { return request_.expressions; }
  /// Chips the module is limited to, e.g. {"90a"}; empty: all.
  const std::vector<std::string>& archs() const { return archs_; }
  const Kernel* kernels() const { return kernels_.get(); }
  /// Modules of one KernelSet have the same number.
  int set() const { return set_; }
  void set_number(int set) { set_ = set; }

  /// What the compiler is asked for `arch` (`sm_90`).
  CompileRequest request(const std::string& arch) const;
  /// The same for one kernel: without a bundle a user should not wait for the others of its family.
  CompileRequest request(const std::string& arch, int kernel) const;
  /// The code for a request of this module, from the disk cache or the compiler. Throws NvrtcError.
  Image build(const CompileRequest& wanted, Origin* origin = nullptr) const;
  Image build(const std::string& arch) const { return build(request(arch)); }
  /// The target for a chip: `sm_90`, or the module's own `sm_90a`. Throws UnsupportedError for a chip it is not made
  /// for.
  std::string target(int sm_major, int sm_minor) const;

  driver::FunctionHandle load(Device device, int kernel);
  /// Whether what was loaded waits for the kernel before it where it should (pdl.cuh): PTX of chips before 9.0, which
  /// runs on any later one, does not.
  bool may_overlap(Device device) const { return !of_earlier_chip_[device.index].load(std::memory_order_relaxed); }
  /// Of the code last loaded.
  Origin origin(Device device) const;
  /// The image that holds the whole module on a device; null when there is none.
  std::shared_ptr<const Image> image(Device device) const;

 private:
  struct Loaded {
    driver::LibraryHandle library = nullptr;
    std::shared_ptr<const Image> image;
    Origin origin = Origin::none;
    bool whole = false;  // every kernel of the module is in it
  };
  void make_kernels();
  const CompileRequest& base_request() const;
  Loaded load_code(Device device, int kernel) const;
  bool try_load(Device device, Image image, Origin origin, Loaded* loaded, std::string* refusals) const;

  bool builtin_;
  bool on_disk_ = true;
  int set_ = 0;
  std::string source_;  // the embedded file, or the user's kernel
  std::optional<DType> dtype_;
  std::vector<std::string> archs_;
  std::optional<Image> ready_;
  mutable CompileRequest request_;  // without arch; files of a built-in are found at the first use
  mutable std::once_flag files_found_;
  std::unique_ptr<Kernel[]> kernels_;
  mutable std::mutex mutex_;
  std::array<Loaded, kMaxDevices> loaded_;
  std::array<std::atomic<bool>, kMaxDevices> of_earlier_chip_ = {};
};

class Bundle;
/// Targets of the bundle whose code runs on a chip, the best first: the exact one, lower minors of the same major, PTX.
std::vector<std::string> bundled_targets(const Bundle& bundle, const Module& module, int sm_major, int sm_minor);
/// The bundle's image for a chip. nullopt when there is none.
std::optional<Image> find_in_bundle(const Bundle& bundle, const Module& module, int sm_major, int sm_minor);
/// Built-in modules made for a chip that the bundle has no code of.
std::vector<const Module*> not_bundled(const Bundle& bundle, int sm_major, int sm_minor);

}  // namespace gpukit::jit
