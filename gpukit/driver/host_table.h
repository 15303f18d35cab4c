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

/// One recorded operation of a graph and the earlier ones it must follow.
struct HostGraphNode {
  std::function<void()> run;
  std::vector<int> after;
};

/// The nodes of an instantiated graph, for a driver that runs them in another valid order. Null for a bad handle.
std::shared_ptr<const std::vector<HostGraphNode>> host_graph_nodes(CUgraphExec exec);

}  // namespace gpukit::driver
