#include "tests/support/deferred_work.h"

#include "gpukit/driver/host_table.h"

namespace gpukit::testing {

using driver::CUstream;

Marker::~Marker() {
  if (destroyed) driver::host_table().cuEventDestroy(handle);
}

void DeferredWork::push(CUstream stream, std::function<void()> work) {
  queues_[stream].push_back({std::move(work), nullptr, 0});
}

void DeferredWork::push_record(CUstream stream, std::shared_ptr<Marker> marker) {
  uint64_t ticket = ++marker->latest;
  marker->open.insert(ticket);
  marker->captured = false;
  records_[{marker.get(), ticket}] = stream;
  push(stream, [this, stream, marker, ticket] {
    if (marker->handle != nullptr) driver::host_table().cuEventRecord(marker->handle, stream);
    marker->open.erase(ticket);
    records_.erase({marker.get(), ticket});
  });
}

void DeferredWork::push_wait(CUstream stream, std::shared_ptr<Marker> marker) {
  if (reached(*marker)) return;
  uint64_t ticket = marker->latest;
  queues_[stream].push_back({nullptr, std::move(marker), ticket});
}

void DeferredWork::push_graph(CUstream stream, driver::CUgraphExec exec) {
  auto nodes = driver::host_graph_nodes(exec);
  std::shared_ptr<Marker>& last = launches_[exec];
  if (last == nullptr) last = std::make_shared<Marker>();
  push_wait(stream, last);
  push(stream, [this, nodes] {
    std::vector<bool> done(nodes->size(), false);
    for (size_t left = nodes->size(); left > 0; --left) {
      std::vector<size_t> ready;
      for (size_t i = 0; i < nodes->size(); ++i) {
        bool free = !done[i];
        for (int before : (*nodes)[i].after) free = free && done[before];
        if (free) ready.push_back(i);
      }
      size_t chosen = ready[random_() % ready.size()];
      (*nodes)[chosen].run();
      done[chosen] = true;
    }
  });
  push_record(stream, last);
}

size_t DeferredWork::pending() const {
  size_t count = 0;
  for (const auto& [stream, queue] : queues_) count += queue.size();
  return count;
}

std::vector<CUstream> DeferredWork::streams() const {
  std::vector<CUstream> list;
  for (const auto& [stream, queue] : queues_) list.push_back(stream);
  return list;
}

void DeferredWork::pop_and_run(CUstream stream) {
  auto& queue = queues_[stream];
  Operation operation = std::move(queue.front());
  queue.pop_front();
  bool last = queue.empty();
  if (last) queues_.erase(stream);
  if (operation.work) operation.work();
  if (last && on_idle) on_idle(stream);
}

void DeferredWork::step(CUstream stream) {
  if (idle(stream)) return;
  const Operation& front = queues_[stream].front();
  if (front.waits_for != nullptr) finish_ticket(*front.waits_for, front.ticket);
  pop_and_run(stream);
}

void DeferredWork::finish_ticket(const Marker& marker, uint64_t ticket) {
  while (marker.open.contains(ticket)) step(records_.at({&marker, ticket}));
}

void DeferredWork::finish(CUstream stream) {
  while (!idle(stream)) step(stream);
}

void DeferredWork::finish(const std::shared_ptr<Marker>& marker) { finish_ticket(*marker, marker->latest); }

bool DeferredWork::run_one() {
  std::vector<CUstream> ready;
  for (const auto& [stream, queue] : queues_) {
    const Operation& front = queue.front();
    if (front.waits_for == nullptr || !front.waits_for->open.contains(front.ticket)) ready.push_back(stream);
  }
  if (ready.empty()) return false;
  pop_and_run(ready[random_() % ready.size()]);
  return true;
}

}  // namespace gpukit::testing
