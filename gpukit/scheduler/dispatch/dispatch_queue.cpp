#include "gpukit/scheduler/dispatch/dispatch_queue.h"

#include <algorithm>
#include <queue>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"

namespace gpukit::scheduler {
namespace {

void check_extent(const char* argument, const Extent3& extent) {
  for (int64_t size : extent)
    if (size < 1) throw ArgumentError("LaunchConfig", argument, "be three numbers of at least 1", std::to_string(size));
}

}  // namespace

double timestamp(const Clock& clock) {
  if (&clock != &real_clock()) return static_cast<double>(clock.now_ns()) * 1e-9;
  static const int64_t offset = files::wall_clock_ns() - files::monotonic_ns();
  return static_cast<double>(clock.now_ns() + offset) * 1e-9;
}

LaunchConfig::LaunchConfig(const Extent3& grid_size, const Extent3& block_size, int64_t shared_bytes, int64_t stream)
    : grid(grid_size), block(block_size), shared_mem(shared_bytes), stream_id(stream) {
  check_extent("grid", grid);
  check_extent("block", block);
  if (shared_mem < 0)
    throw ArgumentError("LaunchConfig", "shared_mem", "be 0 or more bytes", std::to_string(shared_mem));
}

LaunchConfig LaunchConfig::linear(int64_t n_elements, int64_t block_size) {
  if (n_elements < 0)
    throw ArgumentError("LaunchConfig.linear", "n_elements", "be 0 or more", std::to_string(n_elements));
  if (block_size < 1)
    throw ArgumentError("LaunchConfig.linear", "block_size", "be at least 1", std::to_string(block_size));
  const int64_t blocks = n_elements / block_size + (n_elements % block_size != 0 ? 1 : 0);
  return {{std::max<int64_t>(blocks, 1), 1, 1}, {block_size, 1, 1}, 0, 0};
}

LaunchConfig LaunchConfig::grid_2d(int64_t grid_x, int64_t grid_y, int64_t block_x, int64_t block_y) {
  return {{grid_x, grid_y, 1}, {block_x, block_y, 1}, 0, 0};
}

std::optional<double> KernelLaunchRequest::duration() const {
  if (!launched_at || !completed_at) return std::nullopt;
  return *completed_at - *launched_at;
}

KernelDispatcher::KernelDispatcher(int64_t max_in_flight, Clock& clock) : max_in_flight_(max_in_flight), clock_(clock) {
  if (max_in_flight < 1)
    throw ArgumentError("KernelDispatcher", "max_in_flight", "be at least 1", std::to_string(max_in_flight));
}

uint64_t KernelDispatcher::queue(uint64_t kernel_handle, const LaunchConfig& config, std::vector<uint64_t> args,
                                 std::optional<std::string> task_id, int64_t priority) {
  std::lock_guard lock(mutex_);
  const uint64_t id = next_id_++;
  KernelLaunchRequest& request = requests_[id];
  request.id = id;
  request.kernel_handle = kernel_handle;
  request.config = config;
  request.args = std::move(args);
  request.task_id = std::move(task_id);
  request.priority = priority;
  request.queued_at = timestamp(clock_);
  if (request.task_id) tasks_[*request.task_id].insert(id);
  streams_[config.stream_id].pending.emplace(-priority, id);
  ++stats_.total_queued;
  ++stats_.pending_count;
  return id;
}

std::vector<KernelLaunchRequest> KernelDispatcher::get_ready(int64_t max) const {
  using Iterator = std::set<std::pair<int64_t, uint64_t>>::const_iterator;
  struct Head {
    Iterator at, end;
    int64_t left;  // places of the stream
    bool operator<(const Head& other) const { return *at > *other.at; }
  };
  std::lock_guard lock(mutex_);
  std::priority_queue<Head> heads;
  for (const auto& [id, stream] : streams_) {
    const int64_t left = max_in_flight_ - static_cast<int64_t>(stream.in_flight.size());
    if (left > 0 && !stream.pending.empty()) heads.push({stream.pending.begin(), stream.pending.end(), left});
  }
  std::vector<KernelLaunchRequest> ready;
  while (!heads.empty() && static_cast<int64_t>(ready.size()) < max) {
    Head head = heads.top();
    heads.pop();
    ready.push_back(requests_.at(head.at->second));
    if (--head.left > 0 && ++head.at != head.end) heads.push(head);
  }
  return ready;
}

KernelLaunchRequest* KernelDispatcher::find(uint64_t id, KernelState expected) {
  auto found = requests_.find(id);
  return found == requests_.end() || found->second.state != expected ? nullptr : &found->second;
}

bool KernelDispatcher::mark_launched(uint64_t id) {
  std::lock_guard lock(mutex_);
  KernelLaunchRequest* request = find(id, KernelState::queued);
  if (request == nullptr) return false;
  Stream& stream = streams_[request->config.stream_id];
  if (static_cast<int64_t>(stream.in_flight.size()) >= max_in_flight_) return false;
  stream.pending.erase({-request->priority, id});
  stream.in_flight.insert(id);
  request->state = KernelState::launched;
  request->launched_at = timestamp(clock_);
  --stats_.pending_count;
  ++stats_.in_flight_count;
  ++stats_.launches_per_stream[request->config.stream_id];
  return true;
}

/// Takes the request out of its stream.
void KernelDispatcher::end(KernelLaunchRequest& request, KernelState state) {
  auto found = streams_.find(request.config.stream_id);
  Stream& stream = found->second;
  if (stream.in_flight.erase(request.id) != 0) {
    --stats_.in_flight_count;
  } else {
    stream.pending.erase({-request.priority, request.id});
    --stats_.pending_count;
  }
  if (stream.pending.empty() && stream.in_flight.empty()) streams_.erase(found);
  request.state = state;
  request.completed_at = timestamp(clock_);
  over_.push_back(request.id);
}

bool KernelDispatcher::mark_completed(uint64_t id) {
  std::lock_guard lock(mutex_);
  KernelLaunchRequest* request = find(id, KernelState::launched);
  if (request == nullptr) return false;
  end(*request, KernelState::completed);
  ++stats_.completed_count;
  exec_seconds_ += *request->duration();
  return true;
}

bool KernelDispatcher::mark_failed(uint64_t id, std::string error) {
  std::lock_guard lock(mutex_);
  // A launch may fail before it is in flight.
  KernelLaunchRequest* request = find(id, KernelState::launched);
  if (request == nullptr) request = find(id, KernelState::queued);
  if (request == nullptr) return false;
  end(*request, KernelState::failed);
  request->error = std::move(error);
  ++stats_.failed_count;
  return true;
}

bool KernelDispatcher::cancel(uint64_t id) {
  std::lock_guard lock(mutex_);
  KernelLaunchRequest* request = find(id, KernelState::queued);
  if (request == nullptr) return false;
  end(*request, KernelState::cancelled);
  return true;
}

std::optional<KernelLaunchRequest> KernelDispatcher::get_request(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto found = requests_.find(id);
  if (found == requests_.end()) return std::nullopt;
  return found->second;
}

std::vector<KernelLaunchRequest> KernelDispatcher::get_in_flight(int64_t stream_id) const {
  std::lock_guard lock(mutex_);
  std::vector<KernelLaunchRequest> list;
  auto found = streams_.find(stream_id);
  if (found == streams_.end()) return list;
  for (uint64_t id : found->second.in_flight) list.push_back(requests_.at(id));
  return list;
}

std::vector<KernelLaunchRequest> KernelDispatcher::get_requests_for_task(const std::string& task_id) const {
  std::lock_guard lock(mutex_);
  std::vector<KernelLaunchRequest> list;
  auto found = tasks_.find(task_id);
  if (found == tasks_.end()) return list;
  for (uint64_t id : found->second) list.push_back(requests_.at(id));
  return list;
}

bool KernelDispatcher::has_pending_work() const {
  std::lock_guard lock(mutex_);
  return stats_.pending_count + stats_.in_flight_count > 0;
}

DispatchStats KernelDispatcher::stats() const {
  std::lock_guard lock(mutex_);
  DispatchStats stats = stats_;
  if (stats.completed_count > 0) stats.avg_exec_time = exec_seconds_ / static_cast<double>(stats.completed_count);
  return stats;
}

int64_t KernelDispatcher::gc() {
  std::lock_guard lock(mutex_);
  for (uint64_t id : over_) {
    auto found = requests_.find(id);
    if (found->second.task_id) {
      auto task = tasks_.find(*found->second.task_id);
      task->second.erase(id);
      if (task->second.empty()) tasks_.erase(task);
    }
    requests_.erase(found);
  }
  const auto count = static_cast<int64_t>(over_.size());
  over_.clear();
  return count;
}

void KernelDispatcher::clear() {
  std::lock_guard lock(mutex_);
  requests_.clear();
  streams_.clear();
  tasks_.clear();
  over_.clear();
  stats_ = {};
  exec_seconds_ = 0;
}

}  // namespace gpukit::scheduler
