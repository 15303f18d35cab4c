// A simulation as text and as JSON.
#include <algorithm>
#include <cstdio>

#include "gpukit/scheduler/tasks/simulate.h"

namespace gpukit::scheduler {

namespace detail {

std::string milliseconds(int64_t ns) {
  char text[48];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1'000'000),
                static_cast<long long>(ns / 1000 % 1000));
  return text;
}

std::string bytes_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  int unit = 0;
  int64_t scale = 1024;
  for (; unit < 3 && bytes / scale >= 1024; ++unit) scale *= 1024;
  // Tenths without floating point: the same text on every machine.
  const int64_t whole = bytes / scale, tenth = bytes % scale / (scale / 1024) * 10 / 1024;
  return std::to_string(whole) + "." + std::to_string(tenth) + " " + kUnits[unit];
}

}  // namespace detail

using detail::bytes_text;
using detail::milliseconds;

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string table(const Rows& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line += (i == 0 ? "  " : "  ") + row[i] + std::string(widths[i] - row[i].size(), ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

/// Columns of the time axis.
class Axis {
 public:
  Axis(int64_t end_ns, int width) : end_(std::max<int64_t>(end_ns, 1)), width_(static_cast<size_t>(width)) {}
  size_t width() const { return width_; }
  size_t column(int64_t ns) const {
    const auto at =
        static_cast<size_t>(static_cast<double>(ns) / static_cast<double>(end_) * static_cast<double>(width_));
    return std::min(at, width_ - 1);
  }
  /// `cell` in the columns from `from` up to `to`, one at least.
  void fill(std::string& line, int64_t from, int64_t to, char cell) const {
    const size_t first = column(from);
    const size_t last = std::max(to >= end_ ? width_ : column(to), first + 1);
    for (size_t i = first; i < last; ++i) line[i] = cell;
  }

 private:
  const int64_t end_;
  const size_t width_;
};

std::string task_line(const Simulation& s, size_t i, const Axis& axis) {
  const WorkloadTask& task = s.workload.tasks[i];
  const SimulatedTask& done = s.tasks[i];
  std::string line(axis.width(), ' ');
  if (done.outcome == TaskOutcome::rejected) {
    line[axis.column(task.arrival_ns)] = 'x';
    return line;
  }
  const int64_t begin = done.started_ns >= 0 ? done.started_ns : done.finished_ns;
  if (begin > task.arrival_ns) axis.fill(line, task.arrival_ns, begin, '.');
  if (done.started_ns >= 0) axis.fill(line, done.started_ns, done.finished_ns, '#');
  if (done.outcome == TaskOutcome::failed) {
    const size_t last = line.find_last_not_of(' ');
    line[last == std::string::npos ? axis.column(done.finished_ns) : last] = '!';
  }
  return line;
}

std::string memory_line(const Simulation& s, size_t d, const Axis& axis) {
  std::string line(axis.width(), '0');
  const int64_t whole = std::max<int64_t>(s.workload.devices[d].memory, 1);
  const auto& steps = s.devices[d].memory;
  for (size_t i = 0; i < steps.size(); ++i) {
    const int64_t until = i + 1 < steps.size() ? steps[i + 1].first : s.end_ns;
    if (until <= steps[i].first) continue;
    // Ninths of the memory, rounded up, so that 0 is nothing and 9 is all of it.
    const auto level =
        static_cast<char>('0' + std::min<int64_t>(9, static_cast<int64_t>((9.0 * static_cast<double>(steps[i].second) +
                                                                           static_cast<double>(whole) - 1) /
                                                                          static_cast<double>(whole))));
    std::string own(axis.width(), '0');
    axis.fill(own, steps[i].first, until, level);
    for (size_t c = 0; c < line.size(); ++c) line[c] = std::max(line[c], own[c]);
  }
  return line;
}

struct Summary {
  int tasks = 0, completed = 0, failed = 0, rejected = 0, started = 0;
  int64_t wait_ns = 0, longest_wait_ns = 0, run_ns = 0;
};

Summary summarise(const Simulation& s, size_t context) {
  Summary sum;
  for (size_t i = 0; i < s.tasks.size(); ++i) {
    if (s.workload.tasks[i].context != context) continue;
    const SimulatedTask& task = s.tasks[i];
    ++sum.tasks;
    switch (task.outcome) {
      case TaskOutcome::completed: ++sum.completed; break;
      case TaskOutcome::failed: ++sum.failed; break;
      case TaskOutcome::rejected: ++sum.rejected; break;
    }
    if (task.started_ns < 0) continue;
    const int64_t wait = task.started_ns - s.workload.tasks[i].arrival_ns;
    ++sum.started;
    sum.wait_ns += wait;
    sum.longest_wait_ns = std::max(sum.longest_wait_ns, wait);
    sum.run_ns += task.finished_ns - task.started_ns;
  }
  return sum;
}

int64_t percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<int64_t>(100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

Json time_or_null(int64_t ns) {
  Json value = static_cast<double>(ns) / 1e6;
  if (ns < 0) value = Json();
  return value;
}

}  // namespace

std::string timeline_text(const Simulation& s, int width) {
  const Workload& workload = s.workload;
  const Axis axis(s.end_ns, std::clamp(width, 10, 1000));
  std::string out =
      workload.name + ": " + std::to_string(workload.tasks.size()) + " tasks in " + milliseconds(s.end_ns) + " ms\n\n";
  Rows contexts{{"context", "device", "class", "request", "limit", "decision"}};
  for (size_t c = 0; c < workload.contexts.size(); ++c) {
    const WorkloadContext& context = workload.contexts[c];
    const QosEvaluation& decision = s.contexts[c].decision;
    contexts.push_back(
        {context.name, workload.devices[context.device].name, name(decision.qos_class),
         bytes_text(context.memory.memory_request),
         context.memory.memory_limit ? bytes_text(*context.memory.memory_limit) : "-",
         std::string(name(decision.decision)) + (decision.reject_reason.empty() ? "" : ": " + decision.reject_reason)});
  }
  out += table(contexts) + "\n";

  const std::string end = milliseconds(s.end_ns);
  const size_t room = axis.width() + 2;
  const std::string scale = "0" + std::string(room - std::min(room - 1, end.size() + 1), ' ') + end + " ms";
  Rows rows{{"task", scale, "wait ms", "run ms", "result"}};
  for (size_t i = 0; i < s.tasks.size(); ++i) {
    const SimulatedTask& task = s.tasks[i];
    const int64_t arrival = workload.tasks[i].arrival_ns;
    const int64_t begin = task.started_ns >= 0 ? task.started_ns : task.finished_ns;
    rows.push_back({workload.tasks[i].id, "|" + task_line(s, i, axis) + "|", milliseconds(begin - arrival),
                    task.started_ns >= 0 ? milliseconds(task.finished_ns - task.started_ns) : "-",
                    std::string(name(task.outcome)) + (task.reason.empty() ? "" : ": " + task.reason)});
  }
  for (size_t d = 0; d < s.devices.size(); ++d) {
    rows.push_back({"memory " + workload.devices[d].name, "|" + memory_line(s, d, axis) + "|", "", "", ""});
  }
  out += table(rows);
  out += "  . waits  # runs  ! fails  x is rejected; memory in ninths of the device's\n\n";

  Rows sums{{"context", "tasks", "completed", "failed", "rejected", "mean wait ms", "longest", "run ms"}};
  for (size_t c = 0; c < workload.contexts.size(); ++c) {
    const Summary sum = summarise(s, c);
    sums.push_back({workload.contexts[c].name, std::to_string(sum.tasks), std::to_string(sum.completed),
                    std::to_string(sum.failed), std::to_string(sum.rejected),
                    milliseconds(sum.started == 0 ? 0 : sum.wait_ns / sum.started), milliseconds(sum.longest_wait_ns),
                    milliseconds(sum.run_ns)});
  }
  out += table(sums) + "\n";
  for (size_t d = 0; d < s.devices.size(); ++d) {
    const WorkloadDevice& device = workload.devices[d];
    out += "  " + device.name + ": busy " + std::to_string(percent(s.devices[d].busy_ns, s.end_ns * device.streams)) +
           " % of " + std::to_string(device.streams) + (device.streams == 1 ? " stream, " : " streams, ") +
           "memory up to " + bytes_text(s.devices[d].peak_memory) + " of " + bytes_text(device.memory) + ", " +
           std::to_string(s.devices[d].decisions.size()) + " decisions\n";
  }
  return out;
}

Json timeline_json(const Simulation& s) {
  const Workload& workload = s.workload;
  Json out = Json::object(), devices = Json::list(), contexts = Json::list(), tasks = Json::list();
  for (size_t d = 0; d < s.devices.size(); ++d) {
    const WorkloadDevice& device = workload.devices[d];
    Json entry = Json::object(), memory = Json::list(), decisions = Json::list();
    for (const auto& [at, bytes] : s.devices[d].memory) {
      Json step = Json::object();
      step.set("at_ms", time_or_null(at));
      step.set("bytes", bytes);
      memory.push_back(std::move(step));
    }
    for (const Decision& decision : s.devices[d].decisions) decisions.push_back(Json::parse(decision.json()));
    entry.set("name", device.name);
    entry.set("memory_bytes", device.memory);
    entry.set("peak_memory_bytes", s.devices[d].peak_memory);
    entry.set("streams", device.streams);
    entry.set("busy_ms", time_or_null(s.devices[d].busy_ns));
    entry.set("memory", std::move(memory));
    entry.set("decisions", std::move(decisions));
    devices.push_back(std::move(entry));
  }
  for (size_t c = 0; c < workload.contexts.size(); ++c) {
    const QosEvaluation& decision = s.contexts[c].decision;
    Json entry = Json::object();
    entry.set("name", workload.contexts[c].name);
    entry.set("device", workload.devices[workload.contexts[c].device].name);
    entry.set("class", name(decision.qos_class));
    entry.set("decision", name(decision.decision));
    entry.set("reason", decision.reject_reason);
    entry.set("reserved_bytes", decision.reserved_memory);
    contexts.push_back(std::move(entry));
  }
  for (size_t i = 0; i < s.tasks.size(); ++i) {
    const SimulatedTask& task = s.tasks[i];
    Json entry = Json::object();
    entry.set("id", workload.tasks[i].id);
    entry.set("context", workload.contexts[workload.tasks[i].context].name);
    entry.set("outcome", name(task.outcome));
    entry.set("reason", task.reason);
    entry.set("arrival_ms", time_or_null(workload.tasks[i].arrival_ns));
    entry.set("admitted_ms", time_or_null(task.admitted_ns));
    entry.set("started_ms", time_or_null(task.started_ns));
    entry.set("finished_ms", time_or_null(task.finished_ns));
    entry.set("stream", task.lane);
    tasks.push_back(std::move(entry));
  }
  out.set("name", workload.name);
  out.set("end_ms", time_or_null(s.end_ns));
  out.set("devices", std::move(devices));
  out.set("contexts", std::move(contexts));
  out.set("tasks", std::move(tasks));
  return out;
}

}  // namespace gpukit::scheduler
