#include "gpukit/io/lazy_loader.h"

#include <algorithm>
#include <chrono>

#include "gpukit/base/error.h"
#include "gpukit/base/thread.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::io {

namespace {

constexpr auto kSignalSlice = std::chrono::milliseconds(50);
constexpr int64_t kBatchBytes = int64_t{64} << 20;  // that are read together

bool any(std::string_view) { return true; }

}  // namespace

LazyLoader::LazyLoader(int64_t budget_bytes, bool evict, Device device)
    : budget_(budget_bytes), evict_(evict), device_(device) {
  if (budget_bytes < 1)
    throw ArgumentError("LazyModelLoader", "memory_budget", "be at least 1 byte", std::to_string(budget_bytes));
  stats_.budget_bytes = budget_bytes;
}

LazyLoader::~LazyLoader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LazyLoader::add_file(const std::string& path) {
  const TensorFile file = TensorFile::open(path);
  std::lock_guard lock(mutex_);
  for (const std::string& name : file.names())
    if (const auto found = entries_.find(name); found != entries_.end())
      throw ArgumentError("LazyModelLoader", "path", "not hold a tensor that is there already",
                          "'" + name + "' in " + path + " and " + found->second.file.path());
  for (const std::string& name : file.names()) {
    entries_.emplace(name, Entry{.file = file, .array = {}});
    order_.push_back(name);
  }
  ++num_files_;
}

LazyLoader::Entry& LazyLoader::find(std::string_view name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw NotFoundError("LazyModelLoader: there is no tensor '" + std::string(name) + "'");
  return found->second;
}

const LazyLoader::Entry& LazyLoader::find(std::string_view name) const {
  return const_cast<LazyLoader*>(this)->find(name);
}

std::vector<std::string> LazyLoader::names() const {
  std::lock_guard lock(mutex_);
  return order_;
}

bool LazyLoader::contains(std::string_view name) const {
  std::lock_guard lock(mutex_);
  return entries_.contains(name);
}

int64_t LazyLoader::num_files() const {
  std::lock_guard lock(mutex_);
  return num_files_;
}

int64_t LazyLoader::total_bytes() const { return bytes_of({}); }

void LazyLoader::give_up(Entry& entry, TensorState state) {
  stats_.loaded_bytes -= entry.array.nbytes();
  --stats_.loaded;
  used_.erase(entry.place);
  entry.array = Array();
  entry.state = state;
}

void LazyLoader::make_room(std::string_view name, int64_t bytes) {
  int64_t held = 0;
  for (auto at = used_.begin(); at != used_.end() && stats_.loaded_bytes + bytes > budget_;) {
    Entry& entry = find(*at++);
    if (!evict_ || entry.array.storage().use_count() > 1) {
      held += entry.array.nbytes();
      continue;
    }
    give_up(entry, TensorState::evicted);
    ++stats_.evictions;
  }
  if (stats_.loaded_bytes + bytes <= budget_) return;
  throw OutOfMemoryError("LazyModelLoader: tensor '" + std::string(name) + "' takes " + std::to_string(bytes) +
                             " bytes; of the budget of " + std::to_string(budget_) + " " +
                             std::to_string(stats_.loaded_bytes) + " are in use" +
                             (evict_ ? ", " + std::to_string(held) + " of them held elsewhere" : ""),
                         bytes, stats_.loaded_bytes, budget_);
}

void LazyLoader::load(Entries::iterator at, int64_t bytes) {
  Entry& entry = at->second;
  const TensorState before = entry.state;
  entry.state = TensorState::loading;
  Array array;
  try {
    array = entry.file.load(at->first, device_);
  } catch (...) {
    entry.state = before;
    throw;
  }
  stats_.loaded_bytes += bytes;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.loaded_bytes);
  loaded_now(at, std::move(array));
}

void LazyLoader::loaded_now(Entries::iterator at, Array array) {
  Entry& entry = at->second;
  entry.array = std::move(array);
  entry.state = TensorState::loaded;
  entry.place = used_.insert(used_.end(), at->first);
  ++stats_.loaded;
}

void LazyLoader::read_ahead() {
  Lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !wanted_.empty(); });
    if (stop_) return;
    const TensorFile file = find(wanted_.front().name).file;
    const runtime::Session session = wanted_.front().session;
    std::vector<std::string> names;
    for (int64_t bytes = 0; !wanted_.empty() && bytes < kBatchBytes; wanted_.pop_front()) {
      if (find(wanted_.front().name).file.path() != file.path()) break;
      bytes += wanted_.front().bytes;
      names.push_back(wanted_.front().name);
      in_flight_.push_back(std::move(wanted_.front()));
    }
    lock.unlock();
    std::vector<Array> arrays;
    try {
      const runtime::SessionGuard guard(session);
      arrays = file.load(names, device_);
    } catch (...) {
      // Who gets one of them reads it alone and hears what is wrong with it.
      arrays.clear();
    }
    lock.lock();
    for (size_t i = 0; i < in_flight_.size(); ++i) {
      const auto at = entries_.find(in_flight_[i].name);
      if (!arrays.empty()) {
        loaded_now(at, std::move(arrays[i]));
        continue;
      }
      at->second.state = TensorState::on_disk;
      stats_.loaded_bytes -= in_flight_[i].bytes;
    }
    in_flight_.clear();
    changed_.notify_all();
  }
}

void LazyLoader::wait(Lock& lock, const std::function<bool(std::string_view)>& which) {
  const auto waits = [&](const Asked& asked) { return which(asked.name); };
  while (std::any_of(wanted_.begin(), wanted_.end(), waits) ||
         std::any_of(in_flight_.begin(), in_flight_.end(), waits)) {
    changed_.wait_for(lock, kSignalSlice);
    lock.unlock();
    runtime::check_interrupt();
    lock.lock();
  }
}

void LazyLoader::wait() {
  Lock lock(mutex_);
  wait(lock, &any);
}

Array LazyLoader::get(std::string_view name) {
  Lock lock(mutex_);
  if (find(name).state == TensorState::loading) wait(lock, [&](std::string_view other) { return other == name; });
  Entry& entry = find(name);
  if (entry.array.defined()) {
    ++stats_.hits;
    used_.splice(used_.end(), used_, entry.place);
    return entry.array;
  }
  ++stats_.misses;
  const int64_t bytes = entry.file.info(name).bytes;
  if (stats_.loaded_bytes + bytes > budget_) wait(lock, &any);  // what is being read can be given up once it is there
  const auto at = entries_.find(name);
  if (at == entries_.end()) find(name);  // the files were forgotten meanwhile
  if (!at->second.array.defined()) {
    make_room(name, bytes);
    load(at, bytes);
  }
  return at->second.array;
}

int64_t LazyLoader::prefetch(std::string_view prefix) {
  int64_t count = 0;
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = start_thread([this] { read_ahead(); });
  for (const std::string& name : order_) {
    if (!name.starts_with(prefix)) continue;
    Entry& entry = find(name);
    if (entry.array.defined() || entry.state == TensorState::loading) continue;
    const int64_t bytes = entry.file.info(name).bytes;
    if (stats_.loaded_bytes + bytes > budget_) break;
    wanted_.push_back({name, bytes, runtime::current_session()});
    entry.state = TensorState::loading;
    stats_.loaded_bytes += bytes;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.loaded_bytes);
    ++count;
  }
  changed_.notify_all();
  return count;
}

std::vector<std::string> LazyLoader::loaded() const {
  std::lock_guard lock(mutex_);
  return {used_.begin(), used_.end()};
}

TensorState LazyLoader::state(std::string_view name) const {
  std::lock_guard lock(mutex_);
  return find(name).state;
}

template <typename Wanted>
LazyLoader::Unloaded LazyLoader::unload_if(Wanted&& wanted) {
  Unloaded sum;
  for (auto at = used_.begin(); at != used_.end();) {
    const std::string_view name = *at++;
    if (!wanted(name)) continue;
    Entry& entry = find(name);
    ++sum.tensors;
    sum.bytes += entry.array.nbytes();
    give_up(entry, TensorState::on_disk);
  }
  return sum;
}

LazyLoader::Unloaded LazyLoader::unload(std::string_view prefix) {
  Lock lock(mutex_);
  const auto wanted = [&](std::string_view name) { return name.starts_with(prefix); };
  wait(lock, wanted);
  return unload_if(wanted);
}

LazyLoader::Unloaded LazyLoader::unload(std::span<const std::string> names) {
  Lock lock(mutex_);
  const auto wanted = [&](std::string_view name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  wait(lock, wanted);
  for (const std::string& name : names) find(name);
  return unload_if(wanted);
}

void LazyLoader::clear() {
  Lock lock(mutex_);
  wait(lock, &any);
  unload_if([](std::string_view) { return true; });
  entries_.clear();
  order_.clear();
  num_files_ = 0;
}

std::vector<std::string> LazyLoader::with_prefix(std::string_view prefix) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  for (const std::string& name : order_)
    if (name.starts_with(prefix)) found.push_back(name);
  return found;
}

int64_t LazyLoader::bytes_of(std::string_view prefix) const {
  std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [name, entry] : entries_)
    if (name.starts_with(prefix)) sum += entry.file.info(name).bytes;
  return sum;
}

LazyLoader::Stats LazyLoader::stats() const {
  std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.tensors = static_cast<int64_t>(entries_.size());
  return stats;
}

}  // namespace gpukit::io
