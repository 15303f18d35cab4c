// The description of a workload.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "gpukit/base/byte_size.h"
#include "gpukit/base/error.h"
#include "gpukit/scheduler/tasks/simulate.h"

namespace gpukit::scheduler {

namespace {

constexpr size_t kMaxTasks = 10'000;
constexpr int kMaxStreams = 64;
constexpr double kMaxMs = 1e9;  // eleven days

/// A value of the file and where it stands.
class Field {
 public:
  Field(const Json& value, std::string path) : value_(value), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& needed) const {
    std::string given = value_.dump();
    if (given.size() > 60) given = given.substr(0, 57) + "...";
    throw ArgumentError("simulate", path_.empty() ? "the file" : path_, needed, given);
  }

  /// Its members must be among `known`.
  void check_names(std::initializer_list<const char*> known) const {
    if (!value_.is_object()) fail("be an object");
    for (const auto& [name, value] : value_.members()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      std::string list;
      for (const char* other : known) list += (list.empty() ? "" : ", ") + std::string(other);
      throw ArgumentError("simulate", path_.empty() ? "the file" : path_, "have only the members " + list,
                          "'" + name + "'");
    }
  }
  std::optional<Field> find(const char* name) const {
    const Json* value = value_.find(name);
    if (value == nullptr) return std::nullopt;
    return Field(*value, path_.empty() ? name : path_ + "." + name);
  }
  Field at(const char* name) const {
    if (auto found = find(name)) return *found;
    throw ArgumentError("simulate", path_.empty() ? name : path_ + "." + name, "be given", "nothing");
  }
  std::vector<Field> items(bool empty_allowed) const {
    if (!value_.is_list() || (value_.items().empty() && !empty_allowed))
      fail(empty_allowed ? "be a list" : "be a list that is not empty");
    std::vector<Field> list;
    for (size_t i = 0; i < value_.items().size(); ++i)
      list.emplace_back(value_.items()[i], path_ + "[" + std::to_string(i) + "]");
    return list;
  }
  std::string text() const {
    if (!value_.is_string() || value_.as_string().empty()) fail("be a text that is not empty");
    for (const char c : value_.as_string())
      if (static_cast<unsigned char>(c) < ' ') fail("be a text without control characters");
    return value_.as_string();
  }
  int64_t integer(int64_t low, int64_t high) const {
    if (!value_.is_integer() || value_.as_integer() < low || value_.as_integer() > high)
      fail("be an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return value_.as_integer();
  }
  bool boolean() const {
    if (!value_.is_bool()) fail("be true or false");
    return value_.as_bool();
  }
  int64_t nanoseconds() const {
    if (!value_.is_number() || !(value_.as_number() >= 0) || value_.as_number() > kMaxMs)
      fail("be a number of milliseconds from 0 to 1e9");
    return std::llround(value_.as_number() * 1e6);
  }
  int64_t bytes() const {
    constexpr const char* needed = "be a number of bytes, 0 or more, or a text such as '512 MiB'";
    if (value_.is_integer() && value_.as_integer() >= 0) return value_.as_integer();
    if (!value_.is_string()) fail(needed);
    const std::optional<int64_t> size = read_byte_size(value_.as_string());
    if (!size) fail(needed);
    return *size;
  }

 private:
  const Json& value_;
  std::string path_;
};

/// The index of the entry with this name.
template <typename T>
size_t index_of(const Field& field, const std::vector<T>& entries, const char* what) {
  const std::string name = field.text();
  for (size_t i = 0; i < entries.size(); ++i)
    if (entries[i].name == name) return i;
  field.fail(std::string("be the name of ") + what);
}

template <typename T>
void add_named(const Field& field, std::vector<T>* entries, T entry) {
  for (const T& other : *entries)
    if (other.name == entry.name) field.at("name").fail("be new");
  entries->push_back(std::move(entry));
}

WorkloadContext read_context(const Field& field, const Workload& workload) {
  field.check_names({"name", "device", "memory_request", "memory_limit", "priority"});
  WorkloadContext context;
  context.name = field.at("name").text();
  if (auto device = field.find("device")) context.device = index_of(*device, workload.devices, "a device");
  const auto request = field.find("memory_request"), limit = field.find("memory_limit");
  const int64_t requested = request ? request->bytes() : 0;
  const std::optional<int64_t> limited = limit ? std::optional(limit->bytes()) : std::nullopt;
  if (limited && *limited < requested) limit->fail("not be below memory_request");
  context.memory = ResourceRequirements(requested, limited);
  if (auto priority = field.find("priority")) context.priority = priority->integer(-1000, 1000);
  return context;
}

TaskPolicy read_policy(const Field& field) {
  const std::string text = field.text();
  if (text == "priority") return TaskPolicy::priority;
  if (text == "fifo") return TaskPolicy::fifo;
  if (text == "sjf") return TaskPolicy::sjf;
  field.fail("be 'priority', 'fifo' or 'sjf'");
}

/// Adds the task, or `count` of them.
void read_task(const Field& field, Workload* workload, std::vector<std::optional<Field>>* after) {
  field.check_names({"id", "context", "arrival_ms", "duration_ms", "memory", "priority", "policy", "after",
                     "deadline_ms", "fails", "count", "every_ms"});
  WorkloadTask task;
  const std::string id = field.at("id").text();
  if (auto context = field.find("context")) task.context = index_of(*context, workload->contexts, "a context");
  if (auto arrival = field.find("arrival_ms")) task.arrival_ns = arrival->nanoseconds();
  task.duration_ns = field.at("duration_ms").nanoseconds();
  if (auto memory = field.find("memory")) task.memory = memory->bytes();
  task.priority = workload->contexts[task.context].priority;
  if (auto priority = field.find("priority")) task.priority = priority->integer(-1000, 1000);
  if (auto policy = field.find("policy")) task.policy = read_policy(*policy);
  if (auto deadline = field.find("deadline_ms")) {
    task.deadline_ns = deadline->nanoseconds();
    if (task.deadline_ns == 0) deadline->fail("be above 0");
  }
  if (auto fails = field.find("fails")) task.fails = fails->boolean();
  const auto count = field.find("count"), every = field.find("every_ms");
  const int64_t copies = count ? count->integer(1, kMaxTasks) : 1;
  const int64_t step = every ? every->nanoseconds() : 0;
  for (int64_t i = 0; i < copies; ++i) {
    task.id = count ? id + "-" + std::to_string(i) : id;
    if (workload->tasks.size() == kMaxTasks) field.fail("leave it at " + std::to_string(kMaxTasks) + " tasks");
    workload->tasks.push_back(task);
    after->push_back(field.find("after"));
    task.arrival_ns += step;
  }
}

void link_tasks(Workload* workload, const std::vector<std::optional<Field>>& after) {
  std::map<std::string, size_t, std::less<>> ids;
  for (size_t i = 0; i < workload->tasks.size(); ++i)
    if (!ids.emplace(workload->tasks[i].id, i).second)
      throw ArgumentError("simulate", "tasks", "have ids that are all different",
                          "'" + workload->tasks[i].id + "' twice");
  for (size_t i = 0; i < workload->tasks.size(); ++i) {
    if (!after[i]) continue;
    for (const Field& entry : after[i]->items(true)) {
      const auto found = ids.find(entry.text());
      if (found == ids.end()) entry.fail("be the id of a task");
      workload->tasks[i].after.push_back(found->second);
    }
  }
  // Tasks that nothing holds back go first; what is left over waits in a circle.
  std::vector<size_t> open(workload->tasks.size()), free;
  std::vector<std::vector<size_t>> dependants(workload->tasks.size());
  for (size_t i = 0; i < open.size(); ++i) {
    open[i] = workload->tasks[i].after.size();
    for (size_t other : workload->tasks[i].after) dependants[other].push_back(i);
    if (open[i] == 0) free.push_back(i);
  }
  for (size_t done = 0; done < free.size(); ++done)
    for (size_t other : dependants[free[done]])
      if (--open[other] == 0) free.push_back(other);
  for (size_t i = 0; i < open.size(); ++i)
    if (open[i] != 0) after[i]->fail("not lead in a circle");
}

}  // namespace

Workload read_workload(const Json& file) {
  const Field root(file, "");
  root.check_names({"name", "scheduler", "devices", "contexts", "tasks"});
  Workload workload;
  workload.name = "workload";
  if (auto name = root.find("name")) workload.name = name->text();
  if (auto settings = root.find("scheduler")) {
    settings->check_names({"aging", "max_overtakes"});
    if (auto aging = settings->find("aging")) workload.config.aging = aging->integer(1, 1'000'000);
    if (auto overtakes = settings->find("max_overtakes"))
      workload.config.max_overtakes = static_cast<int>(overtakes->integer(0, 1'000'000));
  }
  for (const Field& field : root.at("devices").items(false)) {
    field.check_names({"name", "memory", "streams"});
    WorkloadDevice device{field.at("name").text(), field.at("memory").bytes(), 1};
    if (auto streams = field.find("streams")) device.streams = static_cast<int>(streams->integer(1, kMaxStreams));
    add_named(field, &workload.devices, std::move(device));
  }
  for (const Field& field : root.at("contexts").items(false))
    add_named(field, &workload.contexts, read_context(field, workload));
  std::vector<std::optional<Field>> after;
  for (const Field& field : root.at("tasks").items(false)) read_task(field, &workload, &after);
  link_tasks(&workload, after);
  return workload;
}

}  // namespace gpukit::scheduler
