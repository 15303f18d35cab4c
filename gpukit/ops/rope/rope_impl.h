// Between rope.cpp and its backends: arguments are checked.
#pragma once

#include "gpukit/ops/rope/qkv_params.cuh"
#include "gpukit/ops/rope/rope.h"

namespace gpukit {

/// x turned in place; `columns` pairs of each head. `a` and `b` share tables and positions; b may be undefined.
struct RopeCall {
  const char* op;
  Array a, b;
  Array cos, sin, positions;
  int64_t pairs;
  bool interleaved;
};

struct QkvCall {
  Array qkv, q_out;
  KvCache cache;
  Array sequence_ids, positions;
  Array bias, q_norm, k_norm, cos, sin;
  QkvParams params;  // but for what the launch decides
};

namespace cpu {
void rope(const RopeCall& call);
void qkv_rope_append(const QkvCall& call);
}  // namespace cpu
namespace cuda {
void rope(const RopeCall& call);
void qkv_rope_append(const QkvCall& call);
}  // namespace cuda

/// rope of two arrays in one launch, for the names of 0.2; `op` stands in messages.
void rope_pair(const char* op, const Array& q, const Array& k, const Array& cos, const Array& sin,
               const Array& positions, const RopeOptions& options);
/// rope_tables under another name, likewise.
std::pair<Array, Array> rope_tables(const char* op, int64_t positions, int64_t rotary_dim, double base,
                                    const RopeScaling& scaling, Device device);

}  // namespace gpukit
