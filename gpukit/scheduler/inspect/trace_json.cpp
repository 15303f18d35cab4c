// The trace as trace-event JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "gpukit/base/json.h"
#include "gpukit/base/version.h"
#include "gpukit/scheduler/inspect/trace.h"

namespace gpukit::scheduler {

namespace {

constexpr int kHostProcess = 1;

const char* category(runtime::SubmitKind kind) {
  switch (kind) {
    case runtime::SubmitKind::kernel: return "kernel";
    case runtime::SubmitKind::host_function: return "host function";
    case runtime::SubmitKind::copy_in: return "copy to device";
    case runtime::SubmitKind::copy_out: return "copy to host";
    case runtime::SubmitKind::copy_device: return "copy on device";
    case runtime::SubmitKind::fill: return "fill";
    case runtime::SubmitKind::graph: return "graph";
  }
  return "";
}

std::string quoted(std::string_view text) { return Json(text).dump(); }

/// Nanoseconds as microseconds with three digits.
std::string us(int64_t ns) {
  std::string text = ns < 0 ? "-" : "";
  const int64_t size = ns < 0 ? -ns : ns;
  const std::string rest = std::to_string(size % 1000);
  return text + std::to_string(size / 1000) + "." + std::string(3 - rest.size(), '0') + rest;
}

struct Span {
  int64_t begin = 0, end = 0;  // nanoseconds since the start
};

class Writer {
 public:
  explicit Writer(std::string* out) : out_(*out) {}

  void process(int pid, const std::string& name) {
    metadata("process_name", pid, 0, "\"name\":" + quoted(name));
    metadata("process_sort_index", pid, 0, "\"sort_index\":" + std::to_string(pid));
  }
  void thread(int pid, uint64_t tid, const std::string& name) {
    metadata("thread_name", pid, tid, "\"name\":" + quoted(name));
  }
  void complete(int pid, uint64_t tid, std::string_view name, const char* kind, Span span, const std::string& args) {
    begin("X", pid, tid, span.begin);
    out_ += ",\"dur\":" + us(span.end - span.begin) + ",\"name\":" + quoted(name) + ",\"cat\":" + quoted(kind) +
            ",\"args\":{" + args + "}}";
  }
  /// One end of an arrow.
  void flow(bool start, int pid, uint64_t tid, int64_t at, uint64_t id) {
    begin(start ? "s" : "f", pid, tid, at);
    out_ += ",\"id\":" + std::to_string(id) + ",\"name\":\"submit\",\"cat\":\"submit\"";
    if (!start) out_ += ",\"bp\":\"e\"";
    out_ += "}";
  }

 private:
  void begin(const char* phase, int pid, uint64_t tid, int64_t at) {
    separate();
    out_ += std::string("{\"ph\":\"") + phase + "\",\"pid\":" + std::to_string(pid) +
            ",\"tid\":" + std::to_string(tid) + ",\"ts\":" + us(at);
  }
  void metadata(const char* what, int pid, uint64_t tid, const std::string& args) {
    separate();
    out_ += std::string("{\"ph\":\"M\",\"pid\":") + std::to_string(pid) + ",\"tid\":" + std::to_string(tid) +
            ",\"name\":\"" + what + "\",\"args\":{" + args + "}}";
  }
  void separate() {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
  }
  std::string& out_;
  bool first_ = true;
};

struct Run {
  const TracedLaunch* launch;
  uint64_t flow;  // number of the arrow
  Span host, device;
  bool ran() const { return launch->launched_ns != 0; }
};

/// Each ends where its end was seen, or where the next one begins: the latest it can have been.
void lay_out(std::vector<Run*>& stream) {
  std::stable_sort(stream.begin(), stream.end(),
                   [](const Run* a, const Run* b) { return a->device.end < b->device.end; });
  int64_t next = INT64_MAX;
  for (auto at = stream.rbegin(); at != stream.rend(); ++at) {
    Span& span = (*at)->device;
    const int64_t length = span.end - span.begin;
    span.end = std::max<int64_t>(std::min(span.end, next), 0);
    span.begin = std::max<int64_t>(span.end - length, 0);
    next = span.begin;
  }
}

std::string arguments(const TraceData& data, const TracedLaunch& launch) {
  std::string args = "\"id\":" + std::to_string(launch.id) + ",\"state\":" + quoted(name(launch.state));
  if (launch.bytes != 0) args += ",\"bytes\":" + std::to_string(launch.bytes);
  if (launch.note != 0) args += ",\"note\":" + quoted(data.texts[launch.note]);
  if (launch.code != 0) args += ",\"code\":" + std::to_string(launch.code);
  if (launch.device_us < 0 && launch.launched_ns != 0) args += ",\"measured\":false";
  return args;
}

void write_tasks(const TraceData& data, Writer& writer, int* next_pid) {
  std::map<uint64_t, std::vector<const TracedTask*>> schedulers;
  for (const TracedTask& task : data.tasks)
    if (task.started_ns >= 0) schedulers[task.scheduler].push_back(&task);
  for (auto& [number, tasks] : schedulers) {
    const int pid = (*next_pid)++;
    writer.process(pid, "scheduler " + std::to_string(number));
    std::stable_sort(tasks.begin(), tasks.end(),
                     [](const TracedTask* a, const TracedTask* b) { return a->started_ns < b->started_ns; });
    std::vector<int64_t> lanes;  // where each ends
    for (const TracedTask* task : tasks) {
      const Span span{std::max<int64_t>(task->started_ns - data.started_ns, 0),
                      std::max<int64_t>(task->finished_ns - data.started_ns, 0)};
      auto lane = std::find_if(lanes.begin(), lanes.end(), [&](int64_t end) { return end <= span.begin; });
      if (lane == lanes.end()) {
        lanes.push_back(0);
        lane = lanes.end() - 1;
        writer.thread(pid, lanes.size(), "tasks " + std::to_string(lanes.size()));
      }
      *lane = span.end;
      std::string args = "\"id\":" + quoted(task->id) + ",\"state\":" + quoted(task->state) +
                         ",\"priority\":" + std::to_string(task->priority) +
                         ",\"memory\":" + std::to_string(task->memory) +
                         ",\"wait_us\":" + us(task->started_ns - task->submitted_ns);
      if (!task->error.empty()) args += ",\"error\":" + quoted(task->error);
      writer.complete(pid, static_cast<uint64_t>(lane - lanes.begin()) + 1, task->name.empty() ? task->id : task->name,
                      "task", span, args);
    }
  }
}

}  // namespace

std::string trace_json(const TraceData& data) {
  std::vector<Run> runs(data.launches.size());
  std::map<uint32_t, std::vector<Run*>> threads;
  std::map<std::pair<std::string, uint64_t>, std::vector<Run*>> streams;  // by session and stream
  for (size_t i = 0; i < runs.size(); ++i) {
    const TracedLaunch& launch = data.launches[i];
    Run& run = runs[i];
    run.launch = &launch;
    run.flow = i + 1;
    run.host = {launch.queued_ns - data.started_ns,
                (run.ran() ? launch.launched_ns : launch.completed_ns) - data.started_ns};
    threads[launch.thread].push_back(&run);
    if (!run.ran()) continue;
    const int64_t seen = launch.completed_ns - data.started_ns;
    const int64_t length =
        launch.device_us >= 0 ? std::llround(launch.device_us * 1e3) : launch.completed_ns - launch.launched_ns;
    run.device = {std::max<int64_t>(seen - length, 0), seen};
    const auto label = data.labels.find(launch.stream);
    const std::string& session = label != data.labels.end() ? label->second : data.texts[launch.context];
    streams[{str(launch.device) + " " + session, launch.stream}].push_back(&run);
  }

  std::string out = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"generator\":\"pygpukit " + std::string(version()) +
                    "\",\"dropped\":" + std::to_string(data.dropped) + "},\"traceEvents\":[";
  Writer writer(&out);
  int next_pid = kHostProcess;
  writer.process(next_pid++, "host threads");
  write_tasks(data, writer, &next_pid);

  std::string session;
  std::vector<bool> arrow(runs.size(), false);
  for (auto& [where, list] : streams) {
    if (where.first != session) {
      session = where.first;
      writer.process(next_pid++, session);
    }
    const int pid = next_pid - 1;
    writer.thread(pid, where.second, "stream " + std::to_string(where.second));
    lay_out(list);
    for (const Run* run : list) {
      const TracedLaunch& launch = *run->launch;
      writer.complete(pid, where.second, data.texts[launch.name], category(launch.kind), run->device,
                      arguments(data, launch));
      if (run->device.begin < run->host.begin) continue;
      arrow[run->flow - 1] = true;
      writer.flow(false, pid, where.second, run->device.begin, run->flow);
    }
  }
  for (auto& [number, list] : threads) {
    writer.thread(kHostProcess, number, "thread " + std::to_string(number));
    std::stable_sort(list.begin(), list.end(),
                     [](const Run* a, const Run* b) { return a->host.begin < b->host.begin; });
    for (const Run* run : list) {
      writer.complete(kHostProcess, number, "submit " + data.texts[run->launch->name], "submit", run->host,
                      arguments(data, *run->launch));
      if (arrow[run->flow - 1]) writer.flow(true, kHostProcess, number, run->host.begin, run->flow);
    }
  }
  out += "\n]}\n";
  return out;
}

}  // namespace gpukit::scheduler
