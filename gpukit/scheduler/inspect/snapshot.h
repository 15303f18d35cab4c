// What the process has and does now, as one JSON value: devices, memory, partitions, contexts, streams, transfers,
// schedulers, counters.
#pragma once

#include <string>

#include "gpukit/base/json.h"

namespace gpukit::scheduler {

/// Opens no device and waits for none. Members, each a list unless said otherwise:
///   version, process_id, time_s (since 1970)                        texts and numbers
///   devices, pools, accounts, streams, transfers, dispatch          of opened devices
///   partitions, controllers, contexts, schedulers, admission, qos   of living objects
///   counters      object: name to number
///   events        object: count, capacity, recent
///   environment   object: variables, devices, nvtx, trace, threads
/// Bytes without a limit and times that are not known are null.
Json snapshot();

/// What every living scheduler, admission controller and QoS evaluator has decided, as lines of JSON: `log` names the
/// owner (`scheduler 2`), numbers count within a log.
std::string decisions_json();

/// The snapshot in Prometheus' text format, version 0.0.4. Names start with pygpukit_.
std::string prometheus_text(const Json& snapshot);

/// One screen of text for `pygpukit top`. `previous` (null: none) gives the rates. With `colour`, ANSI codes.
std::string top_text(const Json& snapshot, const Json* previous, int width, bool colour);

namespace detail {

/// The members that living objects of the scheduler layer fill; each list is added to `snapshot`.
void add_scheduling(Json& snapshot);
/// The value, or null.
Json known(bool is_known, Json value);
/// Null when not finite.
Json number(double value);
/// Null for 0: no limit.
Json limit(int64_t bytes);
Json size(size_t bytes);

}  // namespace detail

}  // namespace gpukit::scheduler
