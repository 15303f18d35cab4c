// What the launch gate costs a submission.
#pragma once

namespace gpukit::runtime {

/// Nanoseconds of one empty host function submitted to a stream of the CPU, the best of several rounds.
struct GateCost {
  double gated_ns = 0;    // through a Submission with nothing attached
  double without_ns = 0;  // the same driver call with the gate compiled out
};

/// `count` submissions a round.
GateCost measure_gate(int count);

}  // namespace gpukit::runtime
