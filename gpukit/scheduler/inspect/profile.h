// Timed sections and memory figures as tables, text and trace-event JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpukit/base/device.h"
#include "gpukit/scheduler/inspect/trace.h"

namespace gpukit::scheduler {

/// What ran between two events.
struct KernelRecord {
  std::string name;
  double elapsed_ms = 0, elapsed_us = 0;
  std::optional<double> flops, bytes_transferred;
  double timestamp = 0;  // of its start, seconds since 1970

  /// None where the work is not known or took no time.
  std::optional<double> tflops() const;
  std::optional<double> bandwidth_gb_s() const;
};

/// The records of one name.
struct RecordSummary {
  std::string name;
  int64_t count = 0;
  double total_ms = 0, avg_ms = 0, min_ms = 0, max_ms = 0;
};

/// In the order of first appearance.
std::vector<RecordSummary> summarize(std::span<const KernelRecord> records);
/// Lines of at most 80 columns, longest total first.
std::string summary_text(std::span<const KernelRecord> records);

/// What an account, or a device's pool, has at one moment. Bytes.
struct MemorySnapshot {
  std::string name;
  double timestamp = 0;  // seconds since 1970
  int64_t quota = 0, used = 0, cached = 0, available = 0;
  int64_t active_blocks = 0, free_blocks = 0;
  int64_t allocation_count = 0, reuse_count = 0, cudamalloc_count = 0;  // the last: blocks that were not reused

  double used_mb() const { return static_cast<double>(used) / (1 << 20); }
  double cached_mb() const { return static_cast<double>(cached) / (1 << 20); }
  double available_mb() const { return static_cast<double>(available) / (1 << 20); }
  double utilization() const;  // used / quota
  double reuse_rate() const;   // reuses / (reuses + new blocks)
};

/// Of what new memory on `device` is charged to here: the session's account, the default pool's, else the pool of the
/// whole device with the device's memory as its quota.
MemorySnapshot memory_snapshot(Device device, std::string name);
std::string memory_text(std::span<const MemorySnapshot> snapshots);
std::string memory_difference_text(const MemorySnapshot& before, const MemorySnapshot& after);

/// {"traceEvents": [...]} in process 0: the records one after another on thread 1, where each began or the one before
/// ended; the snapshots as instants on thread 2. `trace`, if any: what really ran, its processes beside.
std::string profile_json(std::span<const KernelRecord> records, std::span<const MemorySnapshot> snapshots,
                         const std::string& process_name, const std::string& thread_name,
                         const TraceData* trace = nullptr);

}  // namespace gpukit::scheduler
