#include <algorithm>
#include <cmath>
#include <vector>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/ordered.cuh"
#include "gpukit/ops/moe/moe_impl.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

/// NaN comes last, among equal ones the lowest index first.
struct Ranked {
  uint32_t key;
  int32_t index;
  bool before(const Ranked& other) const { return key > other.key || (key == other.key && index < other.index); }
};

/// `chosen`: the k largest of `experts` logits.
template <typename Logit>
void pick(std::vector<Ranked>& chosen, int32_t experts, const Logit& logit) {
  int32_t filled = 0;
  const auto k = static_cast<int32_t>(chosen.size());
  for (int32_t e = 0; e < experts; ++e) {
    const float v = logit(e);
    const Ranked one{std::isnan(v) ? 0u : ordered_bits(v), e};
    if (filled == k && !one.before(chosen.back())) continue;
    int32_t at = filled < k ? filled++ : k - 1;
    for (; at > 0 && one.before(chosen[static_cast<size_t>(at - 1)]); --at)
      chosen[static_cast<size_t>(at)] = chosen[static_cast<size_t>(at - 1)];
    chosen[static_cast<size_t>(at)] = one;
  }
}

/// Gates of the chosen experts, in float32.
template <typename Logit>
void fill_gates(float* gates, const std::vector<Ranked>& chosen, const RouteSpace& s, const Logit& logit) {
  const float largest = logit(chosen.front().index);
  float sum = 0.0f;
  for (size_t j = 0; j < chosen.size(); ++j) sum += gates[j] = std::exp(logit(chosen[j].index) - largest);
  if (s.softmax_first != 0 && s.normalize == 0) {
    sum = 0.0f;
    for (int32_t e = 0; e < s.experts; ++e) sum += std::exp(logit(e) - largest);
  }
  for (size_t j = 0; j < chosen.size(); ++j) gates[j] /= sum;
}

struct CombinePointers {
  void* out;
  const void* rows;
  const float* weights;
  const int32_t* reverse;
  const void *shared, *shared_gate;
  const int32_t* ids;
};

template <typename T>
float number(const void* from, int64_t at) {
  return static_cast<float>(load(static_cast<const T*>(from)[at]));
}

/// `sum` has room for one row.
template <typename T>
void combine_token(const CombineSpace& s, const CombinePointers& p, int64_t token, std::vector<float>& sum,
                   runtime::FaultWord* fault) {
  const auto add = [&](float weight, const void* rows, int64_t start, int64_t step) {
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] = std::fma(weight, number<T>(rows, start + static_cast<int64_t>(i) * step), sum[i]);
  };
  std::fill(sum.begin(), sum.end(), 0.0f);
  for (int64_t j = 0; j < s.k; ++j) {
    const float weight = p.weights[token * s.weights_row + j * s.weights_column];
    const int64_t row = p.reverse != nullptr ? p.reverse[(token * s.k + j) * s.reverse_step] : token * s.k + j;
    if (row < 0 || row >= s.rows)
      runtime::note_fault(fault, s.fault_op, row, s.rows);
    else if (weight != 0.0f)
      add(weight, p.rows, row * s.rows_row, s.rows_column);
  }
  if (p.shared != nullptr && (p.ids == nullptr || p.ids[token * s.id_step] >= 0)) {
    const float gate = p.shared_gate == nullptr ? 1.0f : 1.0f / (1.0f + std::exp(-number<T>(p.shared_gate, token)));
    add(gate, p.shared, token * s.shared_row, 1);
  }
  T* out = static_cast<T*>(p.out) + token * s.out_row;
  for (size_t i = 0; i < sum.size(); ++i)
    out[static_cast<int64_t>(i) * s.out_column] = store<T>(static_cast<compute_t<T>>(sum[i]));
}

}  // namespace

void route(const Route& r) {
  visit_floating(r.logits.dtype(), [&]<typename T>() {
    runtime::run_host(r.op, r.logits.device(),
                      {write(r.indices), write_if(r.values), write_if(r.gates), read(r.logits), read_if(r.ids)},
                      [s = r.space](void* const* p) {
                        parallel_for(s.tokens, std::max<int64_t>(1, 8192 / s.experts), [&](int64_t begin, int64_t end) {
                          std::vector<Ranked> chosen(static_cast<size_t>(s.k));
                          for (int64_t token = begin; token < end; ++token) {
                            const T* row = static_cast<const T*>(p[3]) + token * s.row;
                            auto* indices = static_cast<int32_t*>(p[0]) + token * s.k;
                            float* gates = p[2] != nullptr ? static_cast<float*>(p[2]) + token * s.k : nullptr;
                            if (p[4] != nullptr && static_cast<const int32_t*>(p[4])[token * s.id_step] < 0) {
                              std::fill_n(indices, s.k, -1);
                              std::fill_n(gates, s.k, 0.0f);
                              continue;
                            }
                            const auto logit = [&](int32_t e) { return static_cast<float>(load(row[e * s.column])); };
                            pick(chosen, s.experts, logit);
                            for (size_t j = 0; j < chosen.size(); ++j) indices[j] = chosen[j].index;
                            if (p[1] != nullptr)
                              for (int32_t j = 0; j < s.k; ++j)
                                static_cast<T*>(p[1])[token * s.k + j] = row[indices[j] * s.column];
                            if (gates != nullptr) fill_gates(gates, chosen, s, logit);
                          }
                        });
                      });
  });
}

void combine(const Combine& c) {
  runtime::FaultWord* fault = runtime::fault_word(c.out.device());
  visit_floating(c.out.dtype(), [&]<typename T>() {
    runtime::run_host(c.op, c.out.device(),
                      {write(c.out), read(c.rows), read(c.weights), read_if(c.reverse), read_if(c.shared),
                       read_if(c.shared_gate), read_if(c.ids)},
                      [s = c.space, tokens = c.out.shape()[0], fault](void* const* p) {
                        const CombinePointers pointers{
                            p[0], p[1], static_cast<const float*>(p[2]),  static_cast<const int32_t*>(p[3]),
                            p[4], p[5], static_cast<const int32_t*>(p[6])};
                        const int64_t grain = std::max<int64_t>(1, 16384 / (s.width * (s.k + 1)));
                        parallel_for(tokens, grain, [&](int64_t begin, int64_t end) {
                          std::vector<float> sum(static_cast<size_t>(s.width));
                          for (int64_t token = begin; token < end; ++token)
                            combine_token<T>(s, pointers, token, sum, fault);
                        });
                      });
  });
}

void order_by_expert(const Permutation& p) {
  runtime::FaultWord* fault = runtime::fault_word(p.ids.device());
  constexpr const char* kOp = "moe_compute_permutation";
  runtime::run_host(
      kOp, p.ids.device(), {write(p.counts), write(p.offsets), write(p.permute), write(p.reverse), read(p.ids)},
      [fault, op = runtime::fault_code(kOp), experts = p.counts.size(), rows = p.ids.size()](void* const* q) {
        auto* counts = static_cast<int32_t*>(q[0]);
        auto* offsets = static_cast<int32_t*>(q[1]);
        const auto* ids = static_cast<const int32_t*>(q[4]);
        const auto is_expert = [&](int32_t id) { return id >= 0 && id < experts; };
        std::fill_n(counts, experts, 0);
        for (int64_t i = 0; i < rows; ++i) {
          if (is_expert(ids[i]))
            ++counts[ids[i]];
          else if (ids[i] != -1)
            runtime::note_fault(fault, op, ids[i], experts);
        }
        offsets[0] = 0;
        for (int64_t e = 0; e < experts; ++e) offsets[e + 1] = offsets[e] + counts[e];
        std::vector<int32_t> next(offsets, offsets + experts + 1);
        for (int64_t i = 0; i < rows; ++i) {
          const int32_t place = next[static_cast<size_t>(is_expert(ids[i]) ? ids[i] : experts)]++;
          static_cast<int32_t*>(q[2])[place] = static_cast<int32_t>(i);
          static_cast<int32_t*>(q[3])[i] = place;
        }
      });
}

void expand_offsets(const Array& offsets, const Array& ids) {
  runtime::run_host("moe_expand_expert_offsets", ids.device(), {write(ids), read(offsets)},
                    [rows = ids.size(), count = offsets.size()](void* const* p) {
                      const auto* from = static_cast<const int32_t*>(p[1]);
                      for (int64_t row = 0; row < rows; ++row) {
                        const auto past = std::upper_bound(from, from + count, row) - from;
                        static_cast<int32_t*>(p[0])[row] = past == count ? -1 : static_cast<int32_t>(past) - 1;
                      }
                    });
}

}  // namespace gpukit::cpu
