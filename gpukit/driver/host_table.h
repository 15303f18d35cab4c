// The CPU's driver: the same entry points over plain memory. Submitted work runs at once on the calling thread;
// streams, events, capture and graphs follow the CUDA driver's rules and give its error codes. Kernels are not
// supported.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gpukit/driver/table.h"

namespace gpukit::driver {

const CudaTable& host_table();

/// How many devices the table shows from now on; 1 unless a test says otherwise. Contexts that exist stay valid.
void set_host_device_count(int count);

/// The most bytes of each device: allocations beyond give CUDA_ERROR_OUT_OF_MEMORY. 0: the machine's memory.
void set_host_memory_limit(size_t bytes);
/// Gives the memory behind an allocation back to the system where that can be done; its bytes are anything then.
void discard_host_memory(CUdeviceptr address, size_t bytes) noexcept;
/// Pretend SMs of each device, in groups of 8, so that it has green contexts; 0: none, as at the start.
void set_host_sms(int count);
/// The green context a stream was made in; null for a plain stream.
CUgreenCtx host_stream_green(CUstream stream);
/// The numbers of a green context's pretend SMs; empty for a bad handle.
std::vector<int> host_green_sms(CUgreenCtx green);

/// Calls `f`, which may take locks and run any code, in the middle of work that this thread runs on a stream: until it
/// returns, other threads may use the stream.
void step_aside(void (*f)());

/// One recorded operation of a graph and the earlier ones it must follow.
struct HostGraphNode {
  std::function<void()> run;
  std::vector<int> after;
};

/// The nodes of an instantiated graph, for a driver that runs them in another valid order. Null for a bad handle.
std::shared_ptr<const std::vector<HostGraphNode>> host_graph_nodes(CUgraphExec exec);

}  // namespace gpukit::driver
