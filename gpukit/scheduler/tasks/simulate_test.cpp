#include "gpukit/scheduler/tasks/simulate.h"

#include <gtest/gtest.h>

#include <random>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {
namespace {

constexpr int64_t kMs = 1'000'000, kGiB = int64_t{1} << 30;

/// Quotes may be single ones.
Workload read(std::string text) {
  for (char& c : text)
    if (c == '\'') c = '"';
  return read_workload(Json::parse(text));
}

std::string with_tasks(const std::string& tasks, const std::string& contexts = "[{'name': 'c'}]",
                       const std::string& device = "{'name': 'gpu', 'memory': '8 GiB'}") {
  return "{'devices': [" + device + "], 'contexts': " + contexts + ", 'tasks': [" + tasks + "]}";
}

std::string complaint(const std::string& text) {
  try {
    read(text);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(Simulate, ErrorsNameTheField) {
  const std::string one = "{'id': 't', 'duration_ms': 1}";
  EXPECT_EQ(complaint(with_tasks(one)), "");
  EXPECT_EQ(complaint("{}"), "simulate: devices must be given, got nothing");
  EXPECT_EQ(complaint("[]"), "simulate: the file must be an object, got []");
  EXPECT_NE(complaint("{'device': []}").find("the file must have only the members name, scheduler"), std::string::npos);
  const std::pair<const char*, const char*> cases[] = {
      {"{'duration_ms': 1}", "tasks[0].id must be given"},
      {"{'id': 't'}", "tasks[0].duration_ms must be given"},
      {"{'id': 't', 'duration_ms': -1}", "tasks[0].duration_ms must be a number of milliseconds"},
      {"{'id': 't', 'duration_ms': '1'}", "tasks[0].duration_ms"},
      {"{'id': '', 'duration_ms': 1}", "tasks[0].id must be a text"},
      {"{'id': 't', 'duration_ms': 1, 'memory': '5 parsecs'}", "tasks[0].memory must be a number of bytes"},
      {"{'id': 't', 'duration_ms': 1, 'memory': -5}", "tasks[0].memory"},
      {"{'id': 't', 'duration_ms': 1, 'memory': '99999999999 TiB'}", "tasks[0].memory"},
      {"{'id': 't', 'duration_ms': 1, 'context': 'd'}", "tasks[0].context must be the name of a context, got \"d\""},
      {"{'id': 't', 'duration_ms': 1, 'policy': 'lifo'}", "tasks[0].policy must be 'priority', 'fifo' or 'sjf'"},
      {"{'id': 't', 'duration_ms': 1, 'after': ['u']}", "tasks[0].after[0] must be the id of a task"},
      {"{'id': 't', 'duration_ms': 1, 'after': ['t']}", "tasks[0].after must not lead in a circle"},
      {"{'id': 't', 'duration_ms': 1, 'deadline_ms': 0}", "tasks[0].deadline_ms must be above 0"},
      {"{'id': 't', 'duration_ms': 1, 'priority': 2.5}", "tasks[0].priority must be an integer"},
      {"{'id': 't', 'duration_ms': 1, 'count': 0}", "tasks[0].count must be an integer from 1"},
      {"{'id': 't', 'duration_ms': 1, 'count': 6000}, {'id': 'u', 'duration_ms': 1, 'count': 6000}", "10000 tasks"},
      {"{'id': 't', 'duration_ms': 1, 'fails': 1}", "tasks[0].fails must be true or false"},
      {"{'id': 't', 'duration_ms': 1}, {'id': 't', 'duration_ms': 1}", "tasks must have ids that are all different"},
      {"{'id': 't', 'duration_ms': 1}, {'id': 'u', 'lasts': 1}", "tasks[1] must have only the members"},
  };
  for (const auto& [tasks, expected] : cases)
    EXPECT_NE(complaint(with_tasks(tasks)).find(expected), std::string::npos)
        << tasks << ": " << complaint(with_tasks(tasks));
  EXPECT_NE(complaint(with_tasks(one, "[{'name': 'c', 'memory_request': 5, 'memory_limit': 4}]"))
                .find("contexts[0].memory_limit must not be below memory_request"),
            std::string::npos);
  EXPECT_NE(complaint(with_tasks(one, "[{'name': 'c'}, {'name': 'c'}]")).find("contexts[1].name must be new"),
            std::string::npos);
  EXPECT_NE(complaint(with_tasks(one, "[]")).find("contexts must be a list that is not empty"), std::string::npos);
  EXPECT_NE(complaint(with_tasks(one, "[{'name': 'c'}]", "{'name': 'g', 'memory': 1, 'streams': 0}"))
                .find("devices[0].streams"),
            std::string::npos);
}

TEST(Simulate, SizesAndCopies) {
  const Workload w =
      read(with_tasks("{'id': 't', 'duration_ms': 0.5, 'memory': '1.5 GiB', 'count': 3, 'every_ms': 2}"));
  ASSERT_EQ(w.tasks.size(), 3u);
  EXPECT_EQ(w.tasks[2].id, "t-2");
  EXPECT_EQ(w.tasks[2].arrival_ns, 4 * kMs);
  EXPECT_EQ(w.tasks[0].memory, kGiB * 3 / 2);
  EXPECT_EQ(w.tasks[0].duration_ns, kMs / 2);
}

TEST(Simulate, OneStreamRunsByPriorityThenArrival) {
  const Simulation s =
      simulate(read(with_tasks("{'id': 'a', 'duration_ms': 4}, {'id': 'b', 'arrival_ms': 1, 'duration_ms': 1},"
                               "{'id': 'c', 'arrival_ms': 2, 'duration_ms': 1, 'priority': 3}")));
  EXPECT_EQ(s.tasks[0].started_ns, 0);
  EXPECT_EQ(s.tasks[2].started_ns, 4 * kMs);
  EXPECT_EQ(s.tasks[1].started_ns, 5 * kMs);
  EXPECT_EQ(s.end_ns, 6 * kMs);
  EXPECT_EQ(s.devices[0].busy_ns, 6 * kMs);
}

TEST(Simulate, MemoryGatesAndIsGivenBack) {
  const Simulation s = simulate(read(
      with_tasks("{'id': 'a', 'duration_ms': 4, 'memory': '6 GiB'}, {'id': 'b', 'duration_ms': 2, 'memory': '6 GiB'},"
                 "{'id': 'c', 'duration_ms': 1, 'memory': '2 GiB'}, {'id': 'd', 'duration_ms': 1, 'memory': '9 GiB'}",
                 "[{'name': 'c'}]", "{'name': 'gpu', 'memory': '8 GiB', 'streams': 4}")));
  EXPECT_EQ(s.tasks[0].started_ns, 0);
  EXPECT_EQ(s.tasks[2].started_ns, 0);
  EXPECT_EQ(s.tasks[1].started_ns, 4 * kMs);
  EXPECT_EQ(s.tasks[3].outcome, TaskOutcome::rejected);
  EXPECT_EQ(s.devices[0].peak_memory, 8 * kGiB);
  EXPECT_EQ(s.devices[0].memory.back().second, 0);
}

TEST(Simulate, ClassesKeepWhatTheyAskedFor) {
  const Simulation s = simulate(read(
      with_tasks("{'id': 'hog', 'context': 'batch', 'duration_ms': 10, 'memory': '5 GiB', 'count': 2},"
                 "{'id': 'chat', 'context': 'chat', 'arrival_ms': 1, 'duration_ms': 1, 'memory': '3 GiB', 'count': 2}",
                 "[{'name': 'batch'}, {'name': 'chat', 'memory_request': '3 GiB', 'memory_limit': '3 GiB'}]",
                 "{'name': 'gpu', 'memory': '8 GiB', 'streams': 4}")));
  EXPECT_EQ(s.contexts[0].decision.qos_class, QosClass::best_effort);
  EXPECT_EQ(s.contexts[1].decision.qos_class, QosClass::guaranteed);
  EXPECT_EQ(s.tasks[0].started_ns, 0);
  EXPECT_EQ(s.tasks[1].started_ns, 10 * kMs) << "5 of 8 GiB are all that best effort may have";
  EXPECT_EQ(s.tasks[2].started_ns, 1 * kMs) << "guaranteed memory is there at once";
  EXPECT_EQ(s.tasks[3].started_ns, 2 * kMs) << "its own limit holds the second one back";
}

TEST(Simulate, DeadlinesFailuresAndDependants) {
  const Simulation s = simulate(read(with_tasks(
      "{'id': 'long', 'duration_ms': 10, 'deadline_ms': 4}, {'id': 'late', 'duration_ms': 1, 'deadline_ms': 2},"
      "{'id': 'child', 'duration_ms': 1, 'after': ['long']}, {'id': 'bad', 'duration_ms': 1, 'fails': true},"
      "{'id': 'orphan', 'arrival_ms': 50, 'duration_ms': 1, 'after': ['bad']}")));
  EXPECT_EQ(s.tasks[0].finished_ns, 4 * kMs);
  EXPECT_EQ(s.tasks[0].reason, "ran past its deadline");
  EXPECT_EQ(s.tasks[1].finished_ns, 2 * kMs);
  EXPECT_EQ(s.tasks[1].started_ns, -1);
  EXPECT_EQ(s.tasks[2].finished_ns, 4 * kMs);
  EXPECT_NE(s.tasks[2].reason.find("'long'"), std::string::npos);
  EXPECT_EQ(s.tasks[3].finished_ns, 5 * kMs);
  EXPECT_EQ(s.tasks[4].reason, "its dependency 'bad' failed");
  for (const SimulatedTask& task : s.tasks) EXPECT_EQ(task.outcome, TaskOutcome::failed);
}

TEST(Simulate, DependenciesHoldAcrossDevices) {
  Json file = Json::parse(
      R"({"devices": [{"name": "a", "memory": 10}, {"name": "b", "memory": 10}],
          "contexts": [{"name": "on a", "device": "a"}, {"name": "on b", "device": "b"}],
          "tasks": [{"id": "2", "context": "on b", "duration_ms": 1, "after": ["1"], "memory": 10},
                    {"id": "1", "context": "on a", "duration_ms": 3, "arrival_ms": 1, "memory": 10},
                    {"id": "3", "context": "on a", "duration_ms": 1, "after": ["2", "1"]}]})");
  const Simulation s = simulate(read_workload(file));
  EXPECT_EQ(s.tasks[1].started_ns, 1 * kMs);
  EXPECT_EQ(s.tasks[0].started_ns, 4 * kMs);
  EXPECT_EQ(s.tasks[2].started_ns, 5 * kMs);
}

/// What holds for every simulation, on workloads made at random.
TEST(Simulate, InvariantsOfRandomWorkloads) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](int low, int high) {
      return low + static_cast<int>(random() % static_cast<uint32_t>(high - low + 1));
    };
    Workload w;
    w.name = "random";
    w.config.aging = pick(1, 10);
    w.config.max_overtakes = pick(0, 3);
    for (int d = 0; d < pick(1, 2); ++d) w.devices.push_back({"d" + std::to_string(d), 100, pick(1, 3)});
    for (int c = 0; c < 3; ++c) {
      const int request = pick(0, 30);
      const std::optional<int64_t> limit =
          pick(0, 1) ? std::optional<int64_t>(request + 20 * pick(0, 2)) : std::nullopt;
      w.contexts.push_back(
          {"c" + std::to_string(c), random() % w.devices.size(), ResourceRequirements(request, limit), 0});
    }
    for (int t = 0; t < 60; ++t) {
      WorkloadTask task;
      task.id = "t" + std::to_string(t);
      task.context = random() % w.contexts.size();
      task.arrival_ns = pick(0, 50) * kMs;
      task.duration_ns = pick(0, 9) * kMs;
      task.memory = pick(0, 40);
      task.priority = pick(-2, 2);
      task.deadline_ns = pick(0, 3) == 0 ? pick(1, 30) * kMs : 0;
      task.fails = pick(0, 9) == 0;
      for (int k = 0; k < pick(0, 2) && t > 0; ++k) {
        const size_t other = random() % static_cast<size_t>(t);
        if (std::find(task.after.begin(), task.after.end(), other) == task.after.end()) task.after.push_back(other);
      }
      w.tasks.push_back(task);
    }
    const Simulation s = simulate(w);
    EXPECT_EQ(timeline_json(s).dump(), timeline_json(simulate(w)).dump()) << "seed " << seed;
    for (size_t d = 0; d < w.devices.size(); ++d) {
      EXPECT_LE(s.devices[d].peak_memory, w.devices[d].memory);
      EXPECT_EQ(s.devices[d].memory.back().second, 0) << "seed " << seed;
    }
    for (size_t i = 0; i < w.tasks.size(); ++i) {
      const SimulatedTask& task = s.tasks[i];
      ASSERT_GE(task.finished_ns, w.tasks[i].arrival_ns) << "seed " << seed << " " << w.tasks[i].id;
      if (task.started_ns < 0) continue;
      const int64_t ran = task.finished_ns - task.started_ns;
      EXPECT_GE(task.started_ns, w.tasks[i].arrival_ns);
      if (task.outcome == TaskOutcome::completed) {
        EXPECT_EQ(ran, w.tasks[i].duration_ns);
      }
      for (size_t other : w.tasks[i].after) {
        EXPECT_EQ(s.tasks[other].outcome, TaskOutcome::completed);
        EXPECT_LE(s.tasks[other].finished_ns, task.started_ns) << "seed " << seed;
      }
      for (size_t j = 0; j < i; ++j) {
        const bool same = w.contexts[w.tasks[i].context].device == w.contexts[w.tasks[j].context].device;
        if (!same || s.tasks[j].lane != task.lane || s.tasks[j].started_ns < 0) continue;
        EXPECT_TRUE(s.tasks[j].finished_ns <= task.started_ns || task.finished_ns <= s.tasks[j].started_ns);
      }
    }
    EXPECT_FALSE(timeline_text(s).empty());
    EXPECT_NE(timeline_svg(s).find("</svg>"), std::string::npos);
  }
}

TEST(Simulate, TextOfSizesAndTimes) {
  EXPECT_EQ(detail::bytes_text(0), "0 B");
  EXPECT_EQ(detail::bytes_text(1023), "1023 B");
  EXPECT_EQ(detail::bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(detail::bytes_text(kGiB - 1), "1023.9 MiB");
  EXPECT_EQ(detail::bytes_text(int64_t{5} << 50), "5120.0 TiB");
  EXPECT_EQ(detail::milliseconds(1'234'567), "1.234");
}

TEST(Simulate, PicturesEscapeNames) {
  const std::string svg = timeline_svg(simulate(read(with_tasks("{'id': 'a<b>&c', 'duration_ms': 1}"))));
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;c"), std::string::npos);
  EXPECT_EQ(svg.find("a<b"), std::string::npos);
}

}  // namespace
}  // namespace gpukit::scheduler
