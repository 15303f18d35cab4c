#include "gpukit/memory/guarded.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/base/log.h"

namespace gpukit::memory {

bool GuardedBlocks::allocate(size_t bytes, const driver::Stream* stream, const std::shared_ptr<Account>& account,
                             Block* block, Account** wall) {
  collect();
  *wall = account->try_charge(bytes);
  if (*wall != nullptr) return false;
  const driver::Api& api = context_.api();
  auto record = std::make_unique<Record>();
  record->account = account;
  record->bytes = bytes;
  try {
    context_.make_current();
    record->base = api.allocate(bytes + 2 * kGuardBytes);
  } catch (const CudaError& error) {
    account->uncharge(bytes);
    if (error.code != driver::kErrorOutOfMemory) throw;
    return false;
  }
  try {
    std::unique_ptr<driver::Stream> own;
    if (stream == nullptr) own = std::make_unique<driver::Stream>(context_, 0);
    const driver::Stream& on = own != nullptr ? *own : *stream;
    api.fill_async(record->base, 1, kGuard, kGuardBytes, on.handle());
    api.fill_async(record->base + kGuardBytes, 1, kPoison, bytes, on.handle());
    api.fill_async(record->base + kGuardBytes + bytes, 1, kGuard, kGuardBytes, on.handle());
    if (own != nullptr) own->synchronize();
  } catch (...) {
    api.release(record->base);
    account->uncharge(bytes);
    throw;
  }
  std::lock_guard lock(mutex_);
  account->note_live(bytes);
  Account::bump(account->allocations_, 1);
  live_bytes_ += static_cast<int64_t>(bytes);
  peak_ = std::max(peak_, live_bytes_);
  ++live_blocks_;
  ++allocations_;
  *block = {record->base + kGuardBytes, bytes, record.get()};
  record.release();
  return true;
}

void GuardedBlocks::release(Block block, const std::shared_ptr<driver::Stream>& home,
                            std::span<const std::shared_ptr<driver::Stream>> others) noexcept {
  std::unique_ptr<Record> record(static_cast<Record*>(block.owner_data));
  record->streams.assign(others.begin(), others.end());
  if (home != nullptr) record->streams.push_back(home);
  {
    std::lock_guard lock(mutex_);
    record->account->note_dead(record->bytes);
    live_bytes_ -= static_cast<int64_t>(record->bytes);
    --live_blocks_;
  }
  record->account->uncharge(record->bytes);
  if (finish(*record)) return;
  std::lock_guard lock(mutex_);
  later_.push_back(std::move(record));
}

void GuardedBlocks::collect() noexcept {
  std::vector<std::unique_ptr<Record>> list;
  {
    std::lock_guard lock(mutex_);
    list.swap(later_);
  }
  for (auto& record : list) {
    if (finish(*record)) continue;
    std::lock_guard lock(mutex_);
    later_.push_back(std::move(record));
  }
}

bool GuardedBlocks::finish(Record& record) noexcept {
  std::string found;
  try {
    RelaxedCapture relaxed(context_);
    for (const auto& stream : record.streams)
      if (is_capturing(*stream)) return false;
    for (const auto& stream : record.streams) stream->synchronize();
    found = damage(record);
    context_.api().check(context_.api().release(record.base), "free");
  } catch (const std::exception& error) {
    // A dead context: its memory is gone with it.
    log(LogLevel::warning, std::string("memory debug: a block could not be checked or freed: ") + error.what());
  }
  {
    std::lock_guard lock(mutex_);
    ++frees_;
    if (!found.empty()) faults_.push_back(found);
  }
  if (!found.empty()) log(LogLevel::error, found);
  return true;
}

std::string GuardedBlocks::damage(const Record& record) {
  driver::Stream stream(context_, 0);
  std::vector<uint8_t> guards(2 * kGuardBytes);
  const driver::Api& api = context_.api();
  const driver::Address after = record.base + kGuardBytes + record.bytes;
  api.copy_async(guards.data(), 0, nullptr, record.base, kGuardBytes, driver::CopyKind::device_to_host,
                 stream.handle());
  api.copy_async(guards.data() + kGuardBytes, 0, nullptr, after, kGuardBytes, driver::CopyKind::device_to_host,
                 stream.handle());
  stream.synchronize();
  for (size_t i = 0; i < guards.size(); ++i) {
    // The nearest damaged byte before the block, else the first one after it.
    const size_t at = i < kGuardBytes ? kGuardBytes - 1 - i : i;
    if (guards[at] == kGuard) continue;
    const size_t distance = at < kGuardBytes ? kGuardBytes - at : at - kGuardBytes;
    return "memory debug: a block of " + std::to_string(record.bytes) + " bytes of account '" + record.account->name() +
           "' on " + str(context_.device()) + " was overrun: a byte " +
           (at < kGuardBytes ? std::to_string(distance) + " before its start"
                             : std::to_string(distance) + " past its end") +
           " was overwritten";
  }
  return {};
}

void GuardedBlocks::add_to(ResourceStats* stats) const {
  std::lock_guard lock(mutex_);
  stats->live_bytes = live_bytes_;
  stats->peak_live_bytes = peak_;
  stats->live_blocks = live_blocks_;
  stats->allocations = stats->driver_allocations = allocations_;
  stats->driver_frees = frees_;
  stats->reserved_bytes = live_bytes_ + live_blocks_ * static_cast<int64_t>(2 * kGuardBytes);
  stats->peak_reserved_bytes = std::max(stats->peak_reserved_bytes, stats->reserved_bytes);
}

void GuardedBlocks::raise_faults() {
  std::vector<std::string> found;
  {
    std::lock_guard lock(mutex_);
    found.swap(faults_);
  }
  if (found.empty()) return;
  std::string text = found.front();
  if (found.size() > 1) text += "; and " + std::to_string(found.size() - 1) + " more blocks";
  throw Error(text);
}

}  // namespace gpukit::memory
