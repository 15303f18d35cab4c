// Between attention.cpp and its backends: arguments are checked.
#pragma once

#include "gpukit/ops/attention/attention.h"
#include "gpukit/ops/attention/attention_params.cuh"

namespace gpukit {

/// No array shares memory with out. `out` has elements.
struct AttentionCall {
  const char* op;
  Array out, lse, q;
  KvCache cache;
  Array first, second;  // sequence ids and positions, or lengths of queries and keys
  Array mask, slopes;
  AttentionParams params;
};

namespace cpu {
void attention(const AttentionCall& call);
}  // namespace cpu
namespace cuda {
void attention(const AttentionCall& call);
/// The kernel that would be launched, in words.
std::string explain_attention(const AttentionCall& call);
}  // namespace cuda

/// The same under another name, for those of 0.2.
Array attention(const char* op, const Array& q, const Array& k, const Array& v, const AttentionOptions& options,
                const Array* out, const Array* lse);
/// attention() whose keys and values lie in a cache; sequence b is batch b.
Array attention_of_cache(const char* op, const Array& q, const KvCache& cache, const AttentionOptions& options,
                         const Array* out, const Array* lse);
Array attention_over_cache(const char* op, const Array& q, const KvCache& cache, const Array& sequence_ids,
                           const Array& positions, const ScoreOptions& options, const Array* out);

}  // namespace gpukit
