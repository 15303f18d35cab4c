// Checked calls of one driver: the CUDA driver, or the host table that stands in for it on the CPU.
// Every method throws CudaError unless it is noexcept. The thread's current context must be set (make_current) first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpukit/base/device.h"
#include "gpukit/base/dtype.h"

namespace gpukit::driver {

struct CudaTable;  // table.h: the C entry points

using Address = uint64_t;  // device memory; on the host table a plain pointer
using ContextHandle = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using LibraryHandle = struct LibraryTag*;
using FunctionHandle = struct FunctionTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;
using GreenHandle = struct GreenTag*;
using PageHandle = uint64_t;  // physical memory without an address; never 0

enum class CopyKind : uint8_t { host_to_device, device_to_host, device_to_device };
enum class CaptureStatus : uint8_t { none, active, invalidated };

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::none;
  uint64_t id = 0;  // the same for every stream of one capture
};

struct DeviceProperties {
  std::string name;
  std::string uuid;     // "GPU-...", "MIG-..." or empty
  std::string pci_bus;  // "0000:01:00.0" or empty
  int64_t total_memory = 0;
  int sm_major = 0, sm_minor = 0;  // 0, 0 on the host table
  int sm_count = 0;
  int max_threads_per_block = 1024;
  int max_threads_per_sm = 0;
  int warp_size = 32;
  int shared_per_block = 0, shared_per_block_optin = 0, shared_per_sm = 0;
  int registers_per_block = 0;
  int l2_bytes = 0;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  int copy_engines = 0;
  int max_grid[3] = {0, 0, 0};
  bool vmm = false, cooperative = false;
};

/// A set of SMs in the driver's own words. Sets of one split may be put together; sets of two splits may not.
struct SmGroup {
  alignas(8) unsigned char resource[144] = {};
  int sm_count = 0;
};

/// A device's SMs in groups of equal size, and those left over.
struct SmGroups {
  std::vector<SmGroup> groups;
  SmGroup remainder;  // sm_count 0: nothing is left over
};

struct LaunchShape {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  bool overlaps = false;  // may start while the kernel before it on the stream still runs, where the driver can do that
};

/// A tensor of `rank` axes, innermost first, as the copy engine of sm_90 and later moves it: in boxes.
struct BoxLayout {
  enum class Swizzle : uint8_t { none, bytes32, bytes64, bytes128 };  // the width of a box's rows, permuted in banks
  DType dtype = DType::float32;
  static constexpr int kMaxRank = 4;
  int rank = 3;
  int64_t shape[kMaxRank] = {1, 1, 1, 1};
  int64_t strides[kMaxRank - 1] = {};  // bytes between elements of the second axis and so on, multiples of 16
  int box[kMaxRank] = {1, 1, 1, 1};
  Swizzle swizzle = Swizzle::none;
  bool to_tf32 = false;  // float32 is rounded to TF32 on its way
  bool operator==(const BoxLayout&) const = default;
};

/// Such a layout at an address, in the driver's own words: a kernel parameter.
struct alignas(64) BoxMap {
  unsigned char bytes[128];
};

struct FunctionAttributes {
  int max_threads = 0, registers = 0, shared_bytes = 0, local_bytes = 0, constant_bytes = 0;
};

class Api {
 public:
  Api(const CudaTable& table, DeviceKind kind) : table_(&table), kind_(kind) {}
  DeviceKind kind() const { return kind_; }
  const CudaTable& table() const { return *table_; }
  /// The driver's name for a result code, e.g. CUDA_ERROR_INVALID_VALUE.
  std::string error_name(int code) const;
  /// Throws CudaError when `code` is not 0.
  void check(int code, const char* call) const {
    if (code != 0) fail(code, call);
  }

  void init() const;
  int driver_version() const;  // 12040 for 12.4
  int device_count() const;
  DeviceProperties properties(int ordinal) const;
  ContextHandle retain_primary(int ordinal) const;
  void release_primary(int ordinal) const noexcept;
  /// Sets the thread's current context unless it already is.
  void make_current(ContextHandle context) const;
  void synchronize_context() const;

  Address allocate(size_t bytes) const;
  int release(Address address) const noexcept;  // the result code
  void memory_info(size_t* free_bytes, size_t* total_bytes) const;
  void* allocate_pinned(size_t bytes) const;
  void release_pinned(void* memory) const noexcept;
  /// Host memory the device reads directly, after an asynchronous copy has returned.
  bool is_page_locked(const void* memory) const noexcept;
  /// Page-locks memory of the program until unregister_host. Throws when a part of it already is.
  void register_host(void* memory, size_t bytes) const;
  int unregister_host(void* memory) const noexcept;  // the result code
  void copy_async(void* dst_host, Address dst, const void* src_host, Address src, size_t bytes, CopyKind kind,
                  StreamHandle stream) const;
  void fill_async(Address dst, int value_bytes, uint32_t value, size_t count, StreamHandle stream) const;

  // Pages and addresses apart (where properties().vmm). All sizes and addresses are multiples of page_granularity();
  // the device is the one whose context is current. None of these waits: work that still touches what is unmapped
  // faults.

  size_t page_granularity() const;
  PageHandle create_pages(size_t bytes) const;
  /// The result code. The memory goes when it is mapped nowhere any more.
  int release_pages(PageHandle pages) const noexcept;
  Address reserve_range(size_t bytes) const;
  /// The result code. The very range of a reserve_range, nothing mapped in it.
  int free_range(Address address, size_t bytes) const noexcept;
  /// The first `bytes` of the pages at `address`, unreadable until allow_access. They may be mapped at several
  /// addresses.
  void map_pages(Address address, size_t bytes, PageHandle pages) const;
  /// The result code. Whole mappings only; the pages keep their bytes.
  int unmap_pages(Address address, size_t bytes) const noexcept;
  /// Lets the device read and write whole mappings.
  void allow_access(Address address, size_t bytes) const;

  // Green contexts: streams that run on some SMs only.

  /// The driver has every call for them and the device names its SMs.
  bool has_green_contexts(int ordinal = 0) const noexcept;
  /// The device's SMs in groups of at least `min_count`, rounded up to the hardware's grain.
  SmGroups split_sms(int ordinal, int min_count = 1) const;
  /// On the device whose context is current. All groups must come from one split_sms.
  GreenHandle create_green_context(std::span<const SmGroup> groups) const;
  /// Destroy its streams first: they are of no use afterwards.
  void destroy_green_context(GreenHandle green) const noexcept;
  StreamHandle create_green_stream(GreenHandle green, int priority) const;

  /// priority: 0 is the default, negative is more urgent; clamped to what the device has.
  StreamHandle create_stream(int priority) const;
  void destroy_stream(StreamHandle stream) const noexcept;
  void synchronize_stream(StreamHandle stream) const;
  bool query_stream(StreamHandle stream) const;
  void wait_event(StreamHandle stream, EventHandle event) const;
  /// Runs `function(argument)` in stream order. It must not call the driver.
  void launch_host(StreamHandle stream, void (*function)(void*), void* argument) const;

  EventHandle create_event(bool timing, bool blocking) const;
  void destroy_event(EventHandle event) const noexcept;
  void record_event(EventHandle event, StreamHandle stream) const;
  void synchronize_event(EventHandle event) const;
  bool query_event(EventHandle event) const;
  float elapsed_ms(EventHandle start, EventHandle stop) const;

  void begin_capture(StreamHandle stream) const;  // thread-local mode
  GraphHandle end_capture(StreamHandle stream) const;
  CaptureInfo capture_info(StreamHandle stream) const;
  /// Lets this thread make calls a capture forbids (loading a kernel). Returns the mode to put back.
  int relax_capture() const;
  void restore_capture(int mode) const noexcept;
  GraphExecHandle instantiate(GraphHandle graph) const;
  void launch_graph(GraphExecHandle graph, StreamHandle stream) const;
  size_t graph_nodes(GraphHandle graph) const;
  void destroy_graph(GraphHandle graph) const noexcept;
  void destroy_graph_exec(GraphExecHandle graph) const noexcept;

  LibraryHandle load_library(const void* image) const;
  void unload_library(LibraryHandle library) const noexcept;
  /// The function for the current context.
  FunctionHandle get_function(LibraryHandle library, const char* lowered_name) const;
  FunctionAttributes attributes(FunctionHandle function) const;
  void set_max_dynamic_shared(FunctionHandle function, int bytes) const;
  int suggested_block_size(FunctionHandle function, size_t dynamic_shared) const;
  /// `address` must be a multiple of 16.
  BoxMap make_box_map(const BoxLayout& layout, Address address) const;
  /// Raw result code: the launch path adds its own context to a failure.
  int launch(FunctionHandle function, const LaunchShape& shape, StreamHandle stream, void** arguments) const noexcept;

 private:
  [[noreturn]] void fail(int code, const char* call) const;
  const CudaTable* table_;
  DeviceKind kind_;
};

/// Result codes the layers above decide by.
inline constexpr int kErrorOutOfMemory = 2;
inline constexpr int kErrorNoDevice = 100;
inline constexpr int kErrorNotReady = 600;
inline constexpr int kErrorCaptureUnjoined = 904;
/// Codes after which the context cannot be used any more.
bool is_sticky(int code);

}  // namespace gpukit::driver
