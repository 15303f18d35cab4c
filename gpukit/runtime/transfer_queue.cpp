#include "gpukit/runtime/transfer_queue.h"

#include <algorithm>
#include <cctype>

#include "gpukit/base/error.h"

namespace gpukit::runtime {

namespace {

// Bytes per nanosecond are gigabytes per second.
double rate(int64_t bytes, int64_t ns) { return ns > 0 ? static_cast<double>(bytes) / static_cast<double>(ns) : 0; }

int64_t& count_of(TransferStats& stats, TransferState state) {
  switch (state) {
    case TransferState::queued: return stats.pending_count;
    case TransferState::in_progress: return stats.in_progress_count;
    case TransferState::completed: return stats.completed_count;
    case TransferState::failed: return stats.failed_count;
    case TransferState::cancelled: break;
  }
  return stats.cancelled_count;
}

}  // namespace

const char* str(TransferType type) {
  constexpr const char* names[] = {"H2D", "D2H", "D2D"};
  return names[static_cast<int>(type)];
}

const char* str(TransferState state) {
  constexpr const char* names[] = {"Queued", "InProgress", "Completed", "Failed", "Cancelled"};
  return names[static_cast<int>(state)];
}

TransferType to_transfer_type(const char* op, std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (TransferType type : {TransferType::h2d, TransferType::d2h, TransferType::d2d})
    if (upper == str(type)) return type;
  throw ArgumentError(op, "transfer_type", "be 'h2d', 'd2h' or 'd2d'", "'" + std::string(text) + "'");
}

bool TransferRecord::start(int64_t now) {
  if (state != TransferState::queued) return false;
  state = TransferState::in_progress;
  started_ns = now;
  return true;
}

bool TransferRecord::complete(int64_t now) {
  if (state != TransferState::in_progress) return false;
  state = TransferState::completed;
  finished_ns = now;
  bytes_done = bytes;
  return true;
}

bool TransferRecord::fail(int64_t now, std::string why) {
  if (is_terminal(state)) return false;
  state = TransferState::failed;
  finished_ns = now;
  error = std::move(why);
  return true;
}

bool TransferRecord::cancel(int64_t now) {
  if (is_terminal(state)) return false;
  state = TransferState::cancelled;
  finished_ns = now;
  return true;
}

int TransferRecord::stream_id() const {
  switch (type) {
    case TransferType::h2d: return 1;
    case TransferType::d2h: return 2;
    case TransferType::d2d: break;
  }
  return 0;
}

std::optional<int64_t> TransferRecord::wait_ns() const {
  if (started_ns < 0) return std::nullopt;
  return started_ns - queued_ns;
}

std::optional<int64_t> TransferRecord::duration_ns() const {
  if (started_ns < 0 || finished_ns < 0) return std::nullopt;
  return finished_ns - started_ns;
}

std::optional<double> TransferRecord::gigabytes_per_second() const {
  auto duration = duration_ns();
  if (state != TransferState::completed || !duration || *duration <= 0) return std::nullopt;
  return rate(static_cast<int64_t>(bytes), *duration);
}

void TransferStats::moved(TransferState before, const TransferRecord& record) {
  --count_of(*this, before);
  ++count_of(*this, record.state);
  if (record.state != TransferState::completed) return;
  const auto bytes = static_cast<int64_t>(record.bytes);
  total_bytes += bytes;
  if (record.type == TransferType::h2d) {
    h2d_bytes += bytes;
    h2d_ns += record.duration_ns().value_or(0);
  } else if (record.type == TransferType::d2h) {
    d2h_bytes += bytes;
    d2h_ns += record.duration_ns().value_or(0);
  }
}

double TransferStats::h2d_gigabytes_per_second() const { return rate(h2d_bytes, h2d_ns); }
double TransferStats::d2h_gigabytes_per_second() const { return rate(d2h_bytes, d2h_ns); }

TransferQueue::TransferQueue(int64_t max_concurrent, Clock& clock) : max_concurrent_(max_concurrent), clock_(clock) {
  if (max_concurrent < 1)
    throw ArgumentError("AsyncTransferEngine", "max_concurrent", "be at least 1", std::to_string(max_concurrent));
}

uint64_t TransferQueue::enqueue(TransferType type, uint64_t source, uint64_t destination, size_t bytes, int priority,
                                std::optional<std::string> task_id) {
  TransferRecord record;
  record.type = type;
  record.source = source;
  record.destination = destination;
  record.bytes = bytes;
  record.priority = priority;
  record.task_id.swap(task_id);
  std::lock_guard lock(mutex_);
  record.id = next_id_++;
  record.queued_ns = clock_.now_ns();
  waiting_[static_cast<int>(type)].insert({-static_cast<int64_t>(priority), record.id});
  ++stats_.total_queued;
  ++stats_.pending_count;
  return records_.emplace(record.id, std::move(record)).first->first;
}

// Keeps the index sets in step with the record's state.
template <typename Change>
bool TransferQueue::change(uint64_t id, Change&& apply) {
  std::lock_guard lock(mutex_);
  auto found = records_.find(id);
  if (found == records_.end()) return false;
  TransferRecord& record = found->second;
  const TransferState before = record.state;
  if (!apply(record, clock_.now_ns())) return false;
  stats_.moved(before, record);
  if (before == TransferState::queued)
    waiting_[static_cast<int>(record.type)].erase({-static_cast<int64_t>(record.priority), id});
  else
    in_progress_.erase(id);
  if (record.state == TransferState::in_progress) in_progress_.insert(id);
  return true;
}

std::vector<TransferRecord> TransferQueue::take_ready(int64_t max) {
  std::vector<TransferRecord> taken;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  int64_t room = std::min(max, max_concurrent_ - static_cast<int64_t>(in_progress_.size()));
  for (auto& waiting : waiting_) {
    for (; room > 0 && !waiting.empty(); --room) {
      TransferRecord& record = records_.at(waiting.begin()->second);
      waiting.erase(waiting.begin());
      record.start(now);
      stats_.moved(TransferState::queued, record);
      in_progress_.insert(record.id);
      taken.push_back(record);
    }
  }
  return taken;
}

bool TransferQueue::start(uint64_t id) {
  return change(id, [this](TransferRecord& record, int64_t now) {
    return static_cast<int64_t>(in_progress_.size()) < max_concurrent_ && record.start(now);
  });
}

bool TransferQueue::complete(uint64_t id) {
  return change(id, [](TransferRecord& record, int64_t now) { return record.complete(now); });
}

bool TransferQueue::fail(uint64_t id, std::string error) {
  return change(id, [&](TransferRecord& record, int64_t now) { return record.fail(now, std::move(error)); });
}

bool TransferQueue::cancel(uint64_t id) {
  return change(id, [](TransferRecord& record, int64_t now) { return record.cancel(now); });
}

std::optional<TransferRecord> TransferQueue::find(uint64_t id) const {
  std::lock_guard lock(mutex_);
  auto found = records_.find(id);
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

std::vector<TransferRecord> TransferQueue::in_progress_of(int stream_id) const {
  std::vector<TransferRecord> list;
  std::lock_guard lock(mutex_);
  for (uint64_t id : in_progress_) {
    const TransferRecord& record = records_.at(id);
    if (record.stream_id() == stream_id) list.push_back(record);
  }
  return list;
}

bool TransferQueue::has_pending_work() const {
  std::lock_guard lock(mutex_);
  return stats_.pending_count + stats_.in_progress_count > 0;
}

TransferStats TransferQueue::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

int64_t TransferQueue::collect() {
  std::lock_guard lock(mutex_);
  return static_cast<int64_t>(
      std::erase_if(records_, [](const auto& entry) { return is_terminal(entry.second.state); }));
}

void TransferQueue::clear() {
  std::lock_guard lock(mutex_);
  records_.clear();
  for (auto& waiting : waiting_) waiting.clear();
  in_progress_.clear();
  stats_.pending_count = stats_.in_progress_count = 0;
}

}  // namespace gpukit::runtime
