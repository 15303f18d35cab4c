// Objects and registry behind the host table. Internal to host_*.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpukit/driver/host_table.h"
#include "gpukit/driver/page_file.h"

namespace gpukit::driver::host {

using Nodes = std::vector<HostGraphNode>;
using Frontier = std::vector<int>;  // sorted node numbers that the next node must follow

struct Stream;

struct Capture {
  uint64_t id = 0;
  int mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::vector<Stream*> streams;  // the origin and every stream that joined
  Nodes nodes;
  bool invalidated = false;
  bool ended = false;
};

struct Context {
  int ordinal = 0;
  int retained = 0;
  std::shared_ptr<Stream> legacy;  // stream 0
};

/// Pretend SMs of a device, sorted.
struct SmSet {
  int device = 0;
  std::vector<int> numbers;
};

struct Green {
  std::shared_ptr<const SmSet> sms;
  bool destroyed = false;
};

struct Stream {
  Context* context = nullptr;
  std::shared_ptr<Green> green;  // null: the primary context
  int priority = 0;
  std::mutex run;  // held while work of this stream runs; taken before the registry's mutex, never after
  std::shared_ptr<Capture> capture;
  Frontier frontier;
};

struct Event {
  Context* context = nullptr;
  bool timing = false;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<Capture> capture;  // set when last recorded inside a capture
  Frontier frontier;
};

struct Graph {
  std::shared_ptr<const Nodes> nodes;
};

struct GraphExec {
  std::shared_ptr<const Nodes> nodes;
  std::mutex run;  // launches of one graph never overlap
};

/// A cuMemAlloc.
struct Allocation {
  size_t bytes = 0;
  int device = 0;
};

/// Page-locked memory: ours, or the program's own that was registered.
struct Pinned {
  size_t bytes = 0;
  bool registered = false;
};

/// A cuMemCreate. Gone when released and mapped nowhere.
struct Pages {
  PageBlock block;
  int device = 0;
  int mappings = 0;
  bool released = false;
};

struct Mapping {
  size_t bytes = 0;
  CUmemHandle pages = 0;
  PageAccess access = PageAccess::none;
};

/// Live objects by handle, so that a bad handle is an error code and never a crash.
template <typename Object>
using Registry = std::unordered_map<const void*, std::shared_ptr<Object>>;

struct State {
  std::mutex mutex;  // guards all that follows and every field of the objects above
  bool initialized = false;
  int device_count = 1;
  std::vector<std::unique_ptr<Context>> contexts;
  Registry<Stream> streams;
  Registry<Event> events;
  Registry<Graph> graphs;
  Registry<GraphExec> execs;
  std::unordered_map<CUdeviceptr, Allocation> memory;
  std::map<CUdeviceptr, Pinned> pinned;  // by first byte, as the two below
  std::map<CUdeviceptr, size_t> ranges;
  std::map<CUdeviceptr, Mapping> mappings;
  std::unordered_map<CUmemHandle, Pages> pages;
  CUmemHandle next_pages = 1;
  size_t memory_limit = 0;     // of each device; 0: none
  std::map<int, size_t> used;  // bytes of memory and pages, by device
  int sms = 0;                 // of each device; 0: no green contexts
  uint64_t next_split = 1;
  Registry<Green> greens;
  Registry<const SmSet> descriptions;  // kept for good
  std::vector<std::shared_ptr<Capture>> captures;
  uint64_t next_capture = 1;
};

/// Never destroyed.
State& state();
Context*& current_context();
int& capture_mode();

template <typename Object>
std::shared_ptr<Object> find(const Registry<Object>& registry, const void* handle) {
  auto found = registry.find(handle);
  return found == registry.end() ? nullptr : found->second;
}

// Each of these needs state().mutex.

/// Handles 0, 1 and 2 are the legacy stream of the current context.
CUresult find_stream(CUstream handle, std::shared_ptr<Stream>* stream);
/// The current context when it is alive, else CUDA_ERROR_INVALID_CONTEXT.
CUresult live_context(Context** context);
/// For calls that a capture of this thread forbids: the error, after invalidating that capture.
CUresult refuse_while_capturing();
CUresult invalidate(Capture& capture, CUresult code);
CUresult append(Stream& stream, std::function<void()> work);
/// Takes every stream out of the capture.
void finish(const std::shared_ptr<Capture>& capture);

/// CUDA_ERROR_INVALID_DEVICE for a device that does not exist.
CUresult check_device(CUdevice device);
/// Counts bytes against a device's limit; false when there is no room.
bool charge(int device, size_t bytes);
void uncharge(int device, size_t bytes);
/// Bytes of a device: the limit, or the machine's memory.
size_t total_memory();

/// The stream whose work this thread runs; null outside.
Stream*& running_stream();

/// Runs `work` in the stream's order, or adds it to the stream's capture.
template <typename Work>
CUresult submit(CUstream handle, Work work) {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(state().mutex);
    if (CUresult code = find_stream(handle, &stream)) return code;
    if (stream->capture != nullptr) return append(*stream, std::move(work));
  }
  std::lock_guard order(stream->run);
  Stream* const outer = std::exchange(running_stream(), stream.get());
  work();
  running_stream() = outer;
  return CUDA_SUCCESS;
}

void run_nodes(GraphExec& exec);

/// In a forked child: gives it pages of its own.
void separate_pages();

// Each fills its part of the table.
void fill_device_entries(CudaTable& table);
void fill_memory_entries(CudaTable& table);
void fill_page_entries(CudaTable& table);
void fill_green_entries(CudaTable& table);
void fill_stream_entries(CudaTable& table);
void fill_capture_entries(CudaTable& table);

}  // namespace gpukit::driver::host
