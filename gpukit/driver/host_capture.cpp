// Stream capture and graphs of the host table.
#include <algorithm>

#include "gpukit/driver/host_state.h"

namespace gpukit::driver::host {

int& capture_mode() {
  static thread_local int mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

CUresult invalidate(Capture& capture, CUresult code) {
  capture.invalidated = true;
  return code;
}

CUresult refuse_while_capturing() {
  if (capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  for (auto& capture : state().captures) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    bool ours = capture->thread == std::this_thread::get_id();
    bool everyones = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (ours || everyones) return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  return CUDA_SUCCESS;
}

CUresult append(Stream& stream, std::function<void()> work) {
  Capture& capture = *stream.capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  int number = static_cast<int>(capture.nodes.size());
  capture.nodes.push_back({std::move(work), stream.frontier});
  stream.frontier = {number};
  return CUDA_SUCCESS;
}

void finish(const std::shared_ptr<Capture>& capture) {
  for (Stream* stream : capture->streams) {
    stream->capture = nullptr;
    stream->frontier.clear();
  }
  capture->streams.clear();
  capture->ended = true;
  std::erase(state().captures, capture);
}

void run_nodes(GraphExec& exec) {
  std::lock_guard order(exec.run);
  for (const HostGraphNode& node : *exec.nodes) node.run();
}

namespace {

CUresult begin(CUstream handle, int mode) {
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard lock(state().mutex);
    if (CUresult code = find_stream(handle, &stream)) return code;
  }
  std::lock_guard order(stream->run);
  std::lock_guard lock(state().mutex);
  if (stream == stream->context->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = state().next_capture++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream.get();
  capture->streams = {stream.get()};
  state().captures.push_back(capture);
  stream->capture = std::move(capture);
  stream->frontier.clear();
  return CUDA_SUCCESS;
}

// Whether every node comes before the end of the origin stream.
bool joined(const Nodes& nodes, const Frontier& end) {
  std::vector<bool> reached(nodes.size(), false);
  for (int node : end) reached[node] = true;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) return false;
    for (int before : nodes[i].after) reached[before] = true;
  }
  return true;
}

CUresult end(CUstream handle, CUgraph* graph) {
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Stream> stream;
  if (CUresult code = find_stream(handle, &stream)) return code;
  std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.get()) return invalidate(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  bool complete = joined(capture->nodes, stream->frontier);
  finish(capture);
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!complete) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  auto made = std::make_shared<Graph>();
  made->nodes = std::make_shared<const Nodes>(std::move(capture->nodes));
  *graph = reinterpret_cast<CUgraph>(made.get());
  state().graphs.emplace(made.get(), made);
  return CUDA_SUCCESS;
}

CUresult info(CUstream handle, int* status, uint64_t* id, CUgraph* graph, const CUgraphNode** dependencies,
              size_t* count) {
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Stream> stream;
  if (CUresult code = find_stream(handle, &stream)) return code;
  if (graph != nullptr) *graph = nullptr;
  if (dependencies != nullptr) *dependencies = nullptr;
  if (count != nullptr) *count = 0;
  const Capture* capture = stream->capture.get();
  if (capture == nullptr) {
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
  }
  *status = capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (id != nullptr) *id = capture->id;
  return CUDA_SUCCESS;
}

CUresult exchange_mode(int* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, capture_mode());
  return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* handle, CUgraph graph_handle, unsigned long long) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Graph> graph = find(state().graphs, graph_handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>();
  exec->nodes = graph->nodes;
  *handle = reinterpret_cast<CUgraphExec>(exec.get());
  state().execs.emplace(exec.get(), exec);
  return CUDA_SUCCESS;
}

CUresult launch(CUgraphExec handle, CUstream stream) {
  std::shared_ptr<GraphExec> exec;
  {
    std::lock_guard lock(state().mutex);
    exec = find(state().execs, handle);
  }
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return submit(stream, [exec] { run_nodes(*exec); });
}

CUresult get_nodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state().mutex);
  std::shared_ptr<Graph> graph = find(state().graphs, handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // there are no node handles, only their number
  *count = graph->nodes->size();
  return CUDA_SUCCESS;
}

CUresult destroy(CUgraph handle) {
  std::lock_guard lock(state().mutex);
  return state().graphs.erase(handle) == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult destroy_exec(CUgraphExec handle) {
  std::lock_guard lock(state().mutex);
  return state().execs.erase(handle) == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

void fill_capture_entries(CudaTable& table) {
  table.cuStreamBeginCapture = begin;
  table.cuStreamEndCapture = end;
  table.cuStreamGetCaptureInfo = info;
  table.cuThreadExchangeStreamCaptureMode = exchange_mode;
  table.cuGraphInstantiateWithFlags = instantiate;
  table.cuGraphLaunch = launch;
  table.cuGraphGetNodes = get_nodes;
  table.cuGraphDestroy = destroy;
  table.cuGraphExecDestroy = destroy_exec;
}

}  // namespace gpukit::driver::host

namespace gpukit::driver {

std::shared_ptr<const std::vector<HostGraphNode>> host_graph_nodes(CUgraphExec exec) {
  std::lock_guard lock(host::state().mutex);
  std::shared_ptr<host::GraphExec> found = host::find(host::state().execs, exec);
  return found == nullptr ? nullptr : found->nodes;
}

}  // namespace gpukit::driver
