// Pacing of launches.
#include "gpukit/scheduler/dispatch/pacing.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "gpukit/scheduler/dispatch/dispatch_py.h"

namespace gpukit {

using python::text_of;
using scheduler::KernelPacingEngine;
using scheduler::PacingConfig;
using scheduler::PacingDecision;
using scheduler::PacingStats;
using scheduler::StreamPacingStats;

namespace {

void bind_values(nb::module_& m) {
  nb::class_<PacingConfig>(m, "PacingConfig", "Rules of a pacing engine.")
      .def(
          "__init__",
          [](PacingConfig* self, double total, double window, double interval, bool adaptive) {
            new (self) PacingConfig{total, window, interval, adaptive};
          },
          "total_bandwidth"_a = 1.0, "window_ms"_a = 100.0, "min_interval_ms"_a = 0.1, "adaptive"_a = true)
      .def_ro("total_bandwidth", &PacingConfig::total_bandwidth)
      .def_ro("window_ms", &PacingConfig::window_ms)
      .def_ro("min_interval_ms", &PacingConfig::min_interval_ms)
      .def_ro("adaptive", &PacingConfig::adaptive,
              "A stream's window starts with its first launch; else windows follow each other from the start.")
      .def("__repr__", [](const PacingConfig& c) {
        return "PacingConfig(total_bandwidth=" + text_of(c.total_bandwidth) + ", window_ms=" + text_of(c.window_ms) +
               ", min_interval_ms=" + text_of(c.min_interval_ms) + ", adaptive=" + text_of(c.adaptive) + ")";
      });

  nb::class_<PacingDecision>(m, "PacingDecision", "Whether a stream may launch now.")
      .def("can_launch", &PacingDecision::can_launch)
      .def("is_throttled", &PacingDecision::is_throttled)
      .def("wait_ms", &PacingDecision::wait_ms, "0 to launch now; infinite when the window is used up.")
      .def_prop_ro("decision_type", &PacingDecision::decision_type, "'Launch', 'Wait' or 'Throttle'.")
      .def("__repr__", [](const PacingDecision& d) {
        return std::string("PacingDecision(") + d.decision_type() + ", wait_ms=" + text_of(d.wait_ms()) + ")";
      });

  nb::class_<StreamPacingStats>(m, "StreamPacingStats", "Counts of one stream.")
      .def_ro("stream_id", &StreamPacingStats::stream_id)
      .def_ro("bandwidth", &StreamPacingStats::bandwidth)
      .def_ro("launches_in_window", &StreamPacingStats::launches_in_window)
      .def_ro("total_launches", &StreamPacingStats::total_launches)
      .def_ro("throttled_count", &StreamPacingStats::throttled_count)
      .def("__repr__", [](const StreamPacingStats& s) {
        return "StreamPacingStats(stream_id=" + std::to_string(s.stream_id) + ", bandwidth=" + text_of(s.bandwidth) +
               ", launches_in_window=" + std::to_string(s.launches_in_window) +
               ", total_launches=" + std::to_string(s.total_launches) + ")";
      });

  nb::class_<PacingStats>(m, "PacingStats", "Counts of an engine.")
      .def_ro("stream_count", &PacingStats::stream_count)
      .def_ro("used_bandwidth", &PacingStats::used_bandwidth)
      .def_ro("available_bandwidth", &PacingStats::available_bandwidth)
      .def_ro("total_launches", &PacingStats::total_launches)
      .def_ro("total_throttled", &PacingStats::total_throttled)
      .def_ro("total_waited", &PacingStats::total_waited)
      .def("__repr__", [](const PacingStats& s) {
        return "PacingStats(stream_count=" + std::to_string(s.stream_count) +
               ", used_bandwidth=" + text_of(s.used_bandwidth) +
               ", total_launches=" + std::to_string(s.total_launches) +
               ", total_throttled=" + std::to_string(s.total_throttled) + ")";
      });
}

}  // namespace

void bind_pacing(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "dispatch");
  bind_values(m);
  nb::class_<KernelPacingEngine>(m, "KernelPacingEngine",
                                 "A stream with bandwidth b launches at intervals of window_ms * (1 - b), and at most "
                                 "ceil(100 b) times in a window.")
      .def(
          "__init__",
          [](KernelPacingEngine* self, const std::optional<PacingConfig>& config) {
            new (self) KernelPacingEngine(config.value_or(PacingConfig()));
          },
          "config"_a = nb::none())
      .def_prop_ro("config", &KernelPacingEngine::config)
      .def("allocate_stream", &KernelPacingEngine::allocate_stream, "stream_id"_a, "bandwidth"_a,
           "False when the total would be exceeded.")
      .def("release_stream", &KernelPacingEngine::release_stream, "stream_id"_a, "False when it had none.")
      .def("should_launch", &KernelPacingEngine::should_launch, "stream_id"_a)
      .def("record_launch", &KernelPacingEngine::record_launch, "stream_id"_a)
      .def("record_throttle", &KernelPacingEngine::record_throttle, "stream_id"_a)
      .def("record_wait", &KernelPacingEngine::record_wait, "stream_id"_a)
      .def("stream_stats", &KernelPacingEngine::stream_stats, "stream_id"_a, "None for a stream without bandwidth.")
      .def("stats", &KernelPacingEngine::stats)
      .def("reset", &KernelPacingEngine::reset, "Forgets launches and counts; the bandwidths stay.")
      .def("__repr__", [](const KernelPacingEngine& e) {
        const PacingStats s = e.stats();
        return "KernelPacingEngine(streams=" + std::to_string(s.stream_count) +
               ", used_bandwidth=" + text_of(s.used_bandwidth) + ")";
      });
  python::lift(core, "dispatch", {"PacingConfig", "PacingDecision", "PacingStats", "KernelPacingEngine"});
}

}  // namespace gpukit
