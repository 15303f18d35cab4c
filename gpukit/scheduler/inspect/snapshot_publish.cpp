#include "gpukit/scheduler/inspect/snapshot_publish.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/log.h"
#include "gpukit/base/thread.h"
#include "gpukit/scheduler/inspect/snapshot.h"

namespace gpukit::scheduler {

namespace {

constexpr double kMinInterval = 0.01, kMaxInterval = 86400;
constexpr size_t kMaxBytes = size_t{64} << 20;

/// What one publishing thread works on. Outlives the thread's owner.
struct Publisher {
  std::string path;
  std::optional<files::PrivateFolder> folder;  // for paths of our own
  std::string name;
  double interval_s = 1;
  uint64_t generation = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool stop = false;
  std::thread thread;

  void write() {
    Json s = snapshot();
    s.set("interval_s", interval_s);
    const std::string text = s.dump(1) + "\n";
    if (folder)
      folder->write(name, text);
    else
      files::write_file(path, text);
  }

  void serve() {
    Clock& clock = real_clock();
    const auto step = static_cast<int64_t>(interval_s * 1e9);
    int64_t next = clock.now_ns() + step;
    std::unique_lock lock(mutex);
    while (!stop) {
      if (clock.now_ns() < next) {
        clock.wait(changed, lock, next);
        continue;
      }
      lock.unlock();
      try {
        write();
      } catch (const std::exception& error) {
        log_once(LogLevel::warning, "publish " + path, "publish_snapshot: " + std::string(error.what()));
      }
      lock.lock();
      next = clock.now_ns() + step;
    }
  }
};

struct Current {
  std::mutex mutex;
  std::shared_ptr<Publisher> publisher;
};

Current& current() {
  static auto* value = new Current;
  return *value;
}

void end(const std::shared_ptr<Publisher>& publisher) noexcept {
  if (publisher == nullptr) return;
  // A forked child has neither the thread nor the right to its file.
  if (publisher->generation != files::fork_generation()) {
    new std::shared_ptr<Publisher>(publisher);  // a thread object that cannot be joined is left alone
    return;
  }
  {
    std::lock_guard lock(publisher->mutex);
    publisher->stop = true;
  }
  publisher->changed.notify_all();
  publisher->thread.join();
  if (publisher->folder) publisher->folder->remove(publisher->name);
}

double interval_of(const Json& snapshot) {
  const Json* interval = snapshot.find("interval_s");
  return interval != nullptr && interval->is_number() ? interval->as_number() : 1.0;
}

}  // namespace

bool PublishedFile::stale() const { return age_s > std::max(3 * interval_s, 3.0); }

std::string publish_folder() {
  auto cache = files::user_cache_folder();
  if (!cache) throw Error("publish_snapshot: there is no cache folder of the user (HOME is not set); give a path");
  return files::join(files::join(*cache, "pygpukit"), "run");
}

std::string publish_snapshot(const std::string& path, double interval_s) {
  if (!(interval_s >= kMinInterval && interval_s <= kMaxInterval))
    throw ArgumentError("publish_snapshot", "interval_s", "be from 0.01 to 86400", std::to_string(interval_s));
  auto publisher = std::make_shared<Publisher>();
  publisher->interval_s = interval_s;
  publisher->generation = files::fork_generation();
  if (path.empty()) {
    publisher->folder = files::PrivateFolder::open(publish_folder());
    publisher->name = std::to_string(files::process_id()) + ".json";
    publisher->path = files::join(publisher->folder->path(), publisher->name);
  } else {
    publisher->path = path;
  }
  stop_publishing();
  publisher->write();
  static const int hook = std::atexit([] { stop_publishing(); });
  static_cast<void>(hook);
  Current& now = current();
  std::shared_ptr<Publisher> other;
  {
    std::lock_guard lock(now.mutex);
    publisher->thread = start_thread([publisher] { publisher->serve(); });
    other = std::exchange(now.publisher, publisher);
  }
  end(other);
  return publisher->path;
}

void stop_publishing() noexcept {
  std::shared_ptr<Publisher> publisher;
  {
    std::lock_guard lock(current().mutex);
    publisher = std::exchange(current().publisher, nullptr);
  }
  end(publisher);
}

std::optional<std::string> published_path() {
  std::lock_guard lock(current().mutex);
  if (current().publisher == nullptr || current().publisher->generation != files::fork_generation())
    return std::nullopt;
  return current().publisher->path;
}

std::vector<PublishedFile> published_files() {
  std::vector<PublishedFile> found;
  const std::string folder = publish_folder();
  if (!files::is_folder(folder)) return found;
  const files::PrivateFolder own = files::PrivateFolder::open(folder);
  const int64_t now = files::wall_clock_ns();
  for (const files::Entry& entry : own.list()) {
    if (!entry.regular || !entry.owned || !entry.name.ends_with(".json")) continue;
    const auto text = own.read(entry.name, kMaxBytes);
    if (!text) continue;
    try {
      const Json s = Json::parse(*text);
      found.push_back({files::join(own.path(), entry.name), s.at("process_id").as_integer(),
                       static_cast<double>(now - entry.modified_ns) * 1e-9, interval_of(s)});
    } catch (const FormatError&) {
      // Something else's file.
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.age_s < b.age_s; });
  return found;
}

Json read_published(const std::string& path) {
  const std::string text = files::read_file(path);
  try {
    Json s = Json::parse(text);
    for (const char* name : {"version", "process_id", "time_s", "devices", "pools", "accounts", "streams", "transfers",
                             "dispatch", "partitions", "contexts", "schedulers"})
      s.at(name);
    return s;
  } catch (const FormatError& error) {
    throw FormatError(path + " is no snapshot: " + error.what());
  }
}

}  // namespace gpukit::scheduler
