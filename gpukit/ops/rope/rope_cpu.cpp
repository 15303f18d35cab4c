#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/quant.cuh"
#include "gpukit/ops/reduce/row_sum.h"
#include "gpukit/ops/rope/rope_impl.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

template <typename F>
void visit_activation(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16: f.template operator()<half>(); break;
    case DType::bfloat16: f.template operator()<bfloat16>(); break;
    default: f.template operator()<float>(); break;
  }
}

template <typename T, typename Table>
void turn_head(T* x, int64_t step, int64_t pairs, bool interleaved, const Table* cos, int64_t cos_step,
               const Table* sin, int64_t sin_step) {
  for (int64_t i = 0; i < pairs; ++i) {
    T& first = x[(interleaved ? 2 * i : i) * step];
    T& second = x[(interleaved ? 2 * i + 1 : i + pairs) * step];
    const float a = load(first), b = load(second), c = load(cos[i * cos_step]), s = load(sin[i * sin_step]);
    first = store<T>(std::fma(a, c, -(b * s)));
    second = store<T>(std::fma(b, c, a * s));
  }
}

struct Rotation {
  int64_t tokens, num_positions, pairs, position_step, cos_row, cos_step, sin_row, sin_step;
  int64_t heads[2], token[2], head[2], step[2];
  bool interleaved, has_positions;
  int32_t fault_op;
  runtime::FaultWord* fault;
};

template <typename T, typename Table>
void turn(const Rotation& r, void* const* p) {
  int64_t per_token = 0;
  for (int64_t heads : r.heads) per_token += heads * r.pairs;
  parallel_for(r.tokens, std::max<int64_t>(1, 8192 / std::max<int64_t>(per_token, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t position = r.has_positions ? static_cast<const int32_t*>(p[4])[token * r.position_step] : token;
      if (position < 0 || position >= r.num_positions) {
        runtime::note_fault(r.fault, r.fault_op, position, r.num_positions);
        continue;
      }
      for (int which = 0; which < 2; ++which)
        for (int64_t h = 0; h < r.heads[which]; ++h)
          turn_head(static_cast<T*>(p[which]) + token * r.token[which] + h * r.head[which], r.step[which], r.pairs,
                    r.interleaved, static_cast<const Table*>(p[2]) + position * r.cos_row, r.cos_step,
                    static_cast<const Table*>(p[3]) + position * r.sin_row, r.sin_step);
    }
  });
}

/// False: the token's keys go nowhere.
bool find_place(const QkvParams& p, const int32_t* tables, int64_t sequence, int64_t position,
                runtime::FaultWord* fault, CacheSlot* at) {
  if (sequence == -1) return false;
  *at = in_range(sequence, p.cache.sequences) ? find_slot(p.cache, tables, sequence, position)
                                              : bad_slot(sequence, p.cache.sequences);
  if (at->limit != 0) runtime::note_fault(fault, p.fault_op, at->bad, at->limit);
  return at->limit == 0;
}

void store_head(const QkvParams& p, const CacheStrides& s, const CacheSlot& at, int64_t head, const float* x,
                void* cache, float* scales) {
  const int64_t base = at.page * s.page + at.slot * s.slot + head * s.head;
  const int64_t dim = p.dim;
  switch (p.cache.kind) {
    case CacheKind::float16:
      for (int64_t i = 0; i < dim; ++i) static_cast<half*>(cache)[base + i * s.step] = to_half(x[i]);
      break;
    case CacheKind::bfloat16:
      for (int64_t i = 0; i < dim; ++i) static_cast<bfloat16*>(cache)[base + i * s.step] = to_bfloat16(x[i]);
      break;
    case CacheKind::float32:
      for (int64_t i = 0; i < dim; ++i) static_cast<float*>(cache)[base + i * s.step] = x[i];
      break;
    case CacheKind::float8_e4m3: {
      const float scale = scales[head * s.scale_head];
      for (int64_t i = 0; i < dim; ++i)
        static_cast<float8_e4m3*>(cache)[base + i * s.step] = to_float8_e4m3(x[i] / scale);
      break;
    }
    case CacheKind::int8: {
      float most = 0;
      for (int64_t i = 0; i < dim; ++i) most = std::max(most, finite_magnitude(x[i]));
      const float scale = symmetric_scale(most, Code::int8);
      scales[at.page * s.scale_page + at.slot * s.scale_slot + head * s.scale_head] = scale;
      for (int64_t i = 0; i < dim; ++i)
        static_cast<int8_t*>(cache)[base + i * s.step] = static_cast<int8_t>(integer_code(x[i] / scale, -127, 127));
      break;
    }
  }
}

// The order of the uses in run_host.
enum Argument {
  q_out,
  qkv,
  cache_k,
  cache_v,
  k_scale,
  v_scale,
  tables,
  ids,
  positions,
  bias,
  q_norm,
  k_norm,
  cos,
  sin
};

template <typename T>
void append_token(const QkvParams& p, void* const* a, int64_t token, bool overtaken, runtime::FaultWord* fault,
                  float* x) {
  const int64_t sequence = static_cast<const int32_t*>(a[ids])[token * p.id_step];
  int64_t position = static_cast<const int32_t*>(a[positions])[token * p.position_step];
  CacheSlot at{};
  bool kept = find_place(p, static_cast<const int32_t*>(a[tables]), sequence, position, fault, &at);
  bool turned = p.pairs > 0;
  if (turned && (position < 0 || position >= p.num_positions)) {
    if (sequence >= 0) runtime::note_fault(fault, p.fault_op, position, p.num_positions);
    kept = turned = false;
    position = 0;
  }
  kept = kept && !overtaken;
  const int64_t total = int64_t{p.heads} + 2 * int64_t{p.kv_heads};
  for (int64_t head = 0; head < total; ++head) {
    const bool is_q = head < p.heads, is_v = head >= p.heads + p.kv_heads;
    if (!is_q && !kept) break;
    const T* from = static_cast<const T*>(a[qkv]) + token * p.qkv_row + head * p.dim * p.qkv_step;
    for (int64_t i = 0; i < p.dim; ++i) x[i] = load(from[i * p.qkv_step]);
    if (a[bias] != nullptr)
      for (int64_t i = 0; i < p.dim; ++i)
        x[i] += load(static_cast<const T*>(a[bias])[(head * p.dim + i) * p.bias_step]);
    const auto* gamma = static_cast<const T*>(is_q ? a[q_norm] : is_v ? nullptr : a[k_norm]);
    if (gamma != nullptr) {
      const int64_t step = is_q ? p.q_norm_step : p.k_norm_step;
      const float squares = row_sum<float>(p.dim, [&](int64_t i) { return x[i] * x[i]; });
      const float scale = 1.0f / std::sqrt(squares / static_cast<float>(p.dim) + p.eps);
      for (int64_t i = 0; i < p.dim; ++i) x[i] = x[i] * scale * load(gamma[i * step]);
    }
    if (turned && !is_v)
      turn_head(x, 1, p.pairs, p.interleaved != 0, static_cast<const float*>(a[cos]) + position * p.cos_row, p.cos_step,
                static_cast<const float*>(a[sin]) + position * p.sin_row, p.sin_step);
    if (is_q) {
      T* to = static_cast<T*>(a[q_out]) + token * p.q_row + head * p.q_head;
      for (int64_t i = 0; i < p.dim; ++i) to[i * p.q_step] = store<T>(x[i]);
    } else if (is_v) {
      store_head(p, p.cache.v, at, head - p.heads - p.kv_heads, x, a[cache_v], static_cast<float*>(a[v_scale]));
    } else {
      store_head(p, p.cache.k, at, head - p.heads, x, a[cache_k], static_cast<float*>(a[k_scale]));
    }
  }
}

/// For each token whether a later one goes to the same place of the cache.
std::vector<char> overtaken_tokens(const QkvParams& p, void* const* a) {
  std::vector<char> overtaken(static_cast<size_t>(p.tokens), 0);
  std::vector<std::pair<int64_t, int64_t>> places;
  for (int64_t token = 0; p.tokens > 1 && token < p.tokens; ++token) {
    const int64_t place =
        cache_place(p, static_cast<const int32_t*>(a[tables]), static_cast<const int32_t*>(a[ids])[token * p.id_step],
                    static_cast<const int32_t*>(a[positions])[token * p.position_step]);
    if (place >= 0) places.emplace_back(place, token);
  }
  std::sort(places.begin(), places.end());
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i - 1].first == places[i].first) overtaken[static_cast<size_t>(places[i - 1].second)] = 1;
  return overtaken;
}

memory::Use use_if(const Array& a, bool written) { return written ? write_if(a) : read_if(a); }

}  // namespace

void rope(const RopeCall& call) {
  const bool both = call.b.defined();
  Rotation r{};
  r.tokens = call.a.shape()[0];
  r.num_positions = call.cos.shape()[0];
  r.pairs = call.pairs;
  r.interleaved = call.interleaved;
  r.has_positions = call.positions.defined();
  r.position_step = r.has_positions ? call.positions.strides()[0] : 0;
  r.cos_row = call.cos.strides()[0];
  r.cos_step = call.cos.strides()[1];
  r.sin_row = call.sin.strides()[0];
  r.sin_step = call.sin.strides()[1];
  for (int i = 0; i < (both ? 2 : 1); ++i) {
    const Array& x = i == 0 ? call.a : call.b;
    r.heads[i] = x.shape()[1];
    r.token[i] = x.strides()[0];
    r.head[i] = x.strides()[1];
    r.step[i] = x.strides()[2];
  }
  r.fault_op = runtime::fault_code(call.op);
  r.fault = runtime::fault_word(call.a.device());
  const bool short_table = call.cos.dtype() != DType::float32;
  visit_activation(call.a.dtype(), [&]<typename T>() {
    runtime::run_host(
        call.op, call.a.device(),
        {write(call.a), use_if(call.b, true), read(call.cos), read(call.sin), use_if(call.positions, false)},
        [r, short_table](void* const* p) {
          if (short_table)
            turn<T, T>(r, p);
          else
            turn<T, float>(r, p);
        });
  });
}

void qkv_rope_append(const QkvCall& c) {
  const QkvParams p = c.params;
  runtime::FaultWord* const fault = runtime::fault_word(c.qkv.device());
  const bool scales_written = p.cache.kind == CacheKind::int8;
  visit_activation(c.qkv.dtype(), [&]<typename T>() {
    runtime::run_host(
        "qkv_rope_append", c.qkv.device(),
        {write(c.q_out), read(c.qkv), write(c.cache.k), write(c.cache.v), use_if(c.cache.k_scale, scales_written),
         use_if(c.cache.v_scale, scales_written), use_if(c.cache.block_tables, false), read(c.sequence_ids),
         read(c.positions), use_if(c.bias, false), use_if(c.q_norm, false), use_if(c.k_norm, false),
         use_if(c.cos, false), use_if(c.sin, false)},
        [p, fault](void* const* a) {
          const int64_t width = (int64_t{p.heads} + 2 * int64_t{p.kv_heads}) * p.dim;
          const std::vector<char> overtaken = overtaken_tokens(p, a);
          parallel_for(p.tokens, std::max<int64_t>(1, 8192 / std::max<int64_t>(width, 1)),
                       [&](int64_t begin, int64_t end) {
                         std::vector<float> x(static_cast<size_t>(p.dim));
                         for (int64_t token = begin; token < end; ++token)
                           append_token<T>(p, a, token, overtaken[static_cast<size_t>(token)] != 0, fault, x.data());
                       });
        });
  });
}

}  // namespace gpukit::cpu
