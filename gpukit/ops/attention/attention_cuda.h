// What the ways of attention on a GPU share; attention_cuda.cpp chooses among them.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "gpukit/jit/kernel.h"
#include "gpukit/ops/attention/attention_impl.h"
#include "gpukit/ops/attention/attention_sm90_shape.cuh"
#include "gpukit/ops/common/workspace.h"

namespace gpukit::cuda {

/// Every row of the last axis, from the start of `a` on, starts at a multiple of `bytes` and lies side by side.
bool is_packed(const Array& a, int64_t bytes, std::initializer_list<int64_t> strides);

/// Scores are products times a scale that keeps finite ones finite, nothing else.
bool has_plain_scores(const AttentionCall& call);

/// Whether the sums of so many pieces are few enough to be kept in memory.
bool pieces_fit(const AttentionParams& p, int64_t pieces);

/// attention_sm80_merge: the second kernel where units took one piece each.
void merge_pieces(const AttentionCall& call, const Array& pieces, int32_t num_pieces, float power);

struct Sm90Plan {
  Sm90Grid grid;
  const jit::KernelSet* kernels;
  int dim;  // the padded head dim
  int blocks;
};

/// nullopt: not Hopper, too few rows, or arrays that the copy engine cannot move.
std::optional<Sm90Plan> plan_sm90(const AttentionCall& call);
void attention_sm90(const AttentionCall& call, const Sm90Plan& plan);
/// The call over keys and values of q's dtype, for float8 ones of whole arrays: room for them, and what fills it. Keys
/// are exact, values are multiplied by their scale and rounded, as attention_sm80 does.
AttentionCall with_wide_room(const AttentionCall& call, Temporaries& temporaries);
void widen(const AttentionCall& call, const AttentionCall& wide);
std::string explain_sm90(const Sm90Plan& plan);

}  // namespace gpukit::cuda
