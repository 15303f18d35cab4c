#include "gpukit/scheduler/inspect/nvtx.h"

#include "gpukit/driver/nvtx.h"

namespace gpukit::scheduler {

namespace {

/// The submission whose range this thread has open; a thread makes one at a time.
thread_local uint64_t t_open = 0;

void close_range(uint64_t id) noexcept {
  if (t_open != id || id == 0) return;
  t_open = 0;
  driver::nvtx().table->pop();
}

}  // namespace

NvtxRanges& NvtxRanges::instance() {
  static auto* ranges = new NvtxRanges;
  return *ranges;
}

bool NvtxRanges::start() {
  if (driver::nvtx().table == nullptr) return false;
  add_process_observer(*this);
  running_.store(true, std::memory_order_relaxed);
  return true;
}

void NvtxRanges::stop() {
  running_.store(false, std::memory_order_relaxed);
  remove_process_observer(*this);
}

void NvtxRanges::on_queued(Device, const LaunchRecord& record) noexcept {
  if (!running()) return;
  close_range(t_open);  // of a submission that nobody was told the end of
  driver::nvtx().table->push(record.name.c_str());
  t_open = record.id;
}

void NvtxRanges::on_launched(Device, const LaunchRecord& record) noexcept { close_range(record.id); }

void NvtxRanges::on_completed(Device, const LaunchRecord& record) noexcept {
  // What was refused at the gate or by the driver was never launched.
  if (record.launched_ns == 0) close_range(record.id);
}

}  // namespace gpukit::scheduler
