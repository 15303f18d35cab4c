// Sampling: counts of the tokens of a history, and the choice of a row's token by one block.
//
// Every decision rests on integers (sampling_step.cuh), so no order of threads or atomics changes a token.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/sampling/sampling_step.cuh"

namespace gpukit {

// sampling_count: one block per row. counts [rows, vocab] of the tokens of the history, see kInPrompt.
__global__ void __launch_bounds__(256)
    sampling_count(uint32_t* counts, const int32_t* history, const int32_t* history_lengths,
                   const int32_t* prompt_lengths, Fault* fault, const __grid_constant__ SamplingSpace s) {
  const int64_t row = blockIdx.x;
  counts += row * s.vocab;
  history += row * s.history_row;
  for (int64_t i = threadIdx.x; i < s.vocab; i += 256) counts[i] = 0;
  __syncthreads();
  int64_t length = s.history_count;
  if (history_lengths != nullptr && history_lengths[row] < length) length = history_lengths[row];
  const int64_t prompt = prompt_lengths != nullptr ? prompt_lengths[row] : 0;
  for (int64_t i = threadIdx.x; i < length; i += 256) {
    const int32_t id = history[i];
    if (id >= s.vocab) note_fault(fault, s.fault_op, id, s.vocab);
    if (id < 0 || id >= s.vocab) continue;
    if (i < prompt)
      atomicOr(counts + id, sampling::kInPrompt);
    else
      atomicAdd(counts + id, 1u);
  }
}

namespace sampling {

inline constexpr int kWarps = kChooseThreads / 32;

struct Largest {
  using Acc = uint64_t;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE uint64_t identity() { return 0; }
  static GPUKIT_DEVICE uint64_t merge(uint64_t a, uint64_t b) { return a > b ? a : b; }
};
struct Sum {
  using Acc = uint64_t;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE uint64_t identity() { return 0; }
  static GPUKIT_DEVICE uint64_t merge(uint64_t a, uint64_t b) { return a + b; }
};

/// The sum over this lane and those before it.
GPUKIT_DEVICE uint64_t sum_up_to(uint64_t v) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const uint64_t before = __shfl_up_sync(kAllLanes, v, step);
    if (lane >= step) v += before;
  }
  return v;
}

struct Room {
  uint32_t low[kBins], high[kBins];  // of the amounts of digits
  uint64_t warps[kWarps];
  uint64_t listed[kMaxTop];
  uint64_t above;
  uint32_t digit;
  int32_t token, count;
};

/// The keys of one row, and the block that works on them. Functions are called by the whole block unless they say
/// otherwise.
struct Row {
  uint32_t* keys;
  int vocab;
  Room& room;

  template <typename Op, typename F>
  GPUKIT_DEVICE uint64_t reduce(F f) const {
    uint64_t v = Op::identity();
    for (int i = threadIdx.x; i < vocab; i += kChooseThreads) v = Op::merge(v, f(i, keys[i]));
    return warps_tree<Op>(lanes_tree<Op>(v, 32), kWarps, room.warps);
  }

  /// The first of equal ids has the values of all, in their order.
  GPUKIT_DEVICE void add_bias(const int32_t* ids, const float* values, int count, Fault* fault,
                              int32_t fault_op) const {
    for (int i = threadIdx.x; i < count; i += kChooseThreads) {
      const int32_t id = ids[i];
      if (id >= vocab) note_fault(fault, fault_op, id, vocab);
      bool first = id >= 0 && id < vocab;
      for (int j = 0; first && j < i; ++j) first = ids[j] != id;
      if (!first) continue;
      uint32_t key = keys[id];
      for (int j = i; j < count; ++j)
        if (ids[j] == id && key != kMinusInfinity && key != kNotANumber)
          key = key_of(rounded::add(logit_of(key), values[j]));
      keys[id] = key;
    }
    __syncthreads();
  }

  /// By one warp: the digit in which the amounts, from the highest one down, reach what is needed beyond `above`.
  GPUKIT_DEVICE void find_digit(uint64_t above, uint64_t need) const {
    constexpr int kEach = kBins / 32;
    const int top = kBins - 1 - (threadIdx.x & 31) * kEach;
    const auto amount = [&](int bin) { return static_cast<uint64_t>(room.high[bin]) << 32 | room.low[bin]; };
    uint64_t sum = 0;
    for (int i = 0; i < kEach; ++i) sum += amount(top - i);
    const uint64_t reached = above + sum_up_to(sum);
    if (reached < need || reached - sum >= need) return;
    uint64_t passed = reached - sum;
    int bin = top;
    for (; passed + amount(bin) < need; --bin) passed += amount(bin);
    room.digit = static_cast<uint32_t>(bin);
    room.above = passed;
  }

  /// Where the largest keys reach `need` of the sum of `measure`, which is not less.
  template <typename Measure>
  GPUKIT_DEVICE Cut cut_at(uint64_t need, Measure measure) const {
    uint32_t prefix = 0;
    uint64_t above = 0;
#pragma unroll 1
    for (int d = 0; d < kDigits; ++d) {
      const uint32_t prefix_mask = d == 0 ? kPrefixMask[0] : d == 1 ? kPrefixMask[1] : kPrefixMask[2];
      const uint32_t digit_mask = d < 2 ? kDigitMask[0] : kDigitMask[2];
      const int shift = d == 0 ? kDigitShift[0] : d == 1 ? kDigitShift[1] : kDigitShift[2];
      for (int i = threadIdx.x; i < kBins; i += kChooseThreads) room.low[i] = room.high[i] = 0;
      __syncthreads();
      for (int i = threadIdx.x; i < vocab; i += kChooseThreads) {
        const uint32_t key = keys[i];
        if ((key & prefix_mask) != prefix) continue;
        const uint64_t amount = measure(key);
        const uint32_t bin = key >> shift & digit_mask, low = static_cast<uint32_t>(amount);
        // 64 bits as two words: what wraps around in the lower one is carried.
        uint32_t high = static_cast<uint32_t>(amount >> 32);
        if (low != 0 && atomicAdd(room.low + bin, low) + low < low) ++high;
        if (high != 0) atomicAdd(room.high + bin, high);
      }
      __syncthreads();
      if (threadIdx.x < 32) find_digit(above, need);
      __syncthreads();
      prefix |= room.digit << shift;
      above = room.above;
      __syncthreads();
    }
    const uint64_t each = measure(prefix);
    return {prefix, (need - above + each - 1) / each};
  }

  GPUKIT_DEVICE int range() const { return (vocab + kChooseThreads - 1) / kChooseThreads * 32; }

  /// How many keys equal to the cut's stand before this warp's range.
  GPUKIT_DEVICE uint64_t ties_before(const Cut& cut) const {
    if (cut.ties == 0) return 0;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, first = warp * range();
    const int end = first + range() < vocab ? first + range() : vocab;
    uint64_t ties = 0;
    for (int i = first + lane; i < end; i += 32) ties += keys[i] == cut.key ? 1 : 0;
    ties = lanes_tree<Sum>(ties, 32);
    if (lane == 0) room.warps[warp] = ties;
    __syncthreads();
    uint64_t before = 0;
    for (int w = 0; w < warp; ++w) before += room.warps[w];
    __syncthreads();
    return before;
  }

  /// By a warp: see(i, key, kept) over its range, 32 at a time, until it gives true; `before` is ties_before.
  template <typename See>
  GPUKIT_DEVICE void walk(const Cut& cut, uint64_t before, See see) const {
    const int lane = threadIdx.x & 31, first = static_cast<int>(threadIdx.x >> 5) * range();
    const int end = first + range() < vocab ? first + range() : vocab;
    for (int i = first + lane; i - lane < end; i += 32) {
      const uint32_t key = i < end ? keys[i] : 0;
      const bool tie = i < end && key == cut.key;
      const unsigned ties = __ballot_sync(kAllLanes, tie);
      const uint64_t rank = before + __popc(ties & ((1u << lane) - 1));
      if (see(i, key, i < end && (key > cut.key || (tie && rank < cut.ties)))) return;
      before += __popc(ties);
    }
  }

  /// A token in proportion to the weights of what is kept.
  template <typename Weight>
  GPUKIT_DEVICE int32_t pick(const Cut& cut, uint64_t word, Weight weight) const {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const uint64_t before = ties_before(cut);
    uint64_t sum = 0;
    walk(cut, before, [&](int, uint32_t key, bool kept) {
      if (kept) sum += weight(key);
      return false;
    });
    sum = lanes_tree<Sum>(sum, 32);
    if (lane == 0) room.warps[warp] = sum;
    __syncthreads();
    uint64_t total = 0, passed = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) passed += room.warps[w];
      total += room.warps[w];
    }
    const uint64_t target = random::multiply_high(word, total);
    if (passed <= target && target < passed + sum)
      walk(cut, before, [&](int i, uint32_t key, bool kept) {
        const uint64_t reached = passed + sum_up_to(kept ? weight(key) : 0);
        const unsigned beyond = __ballot_sync(kAllLanes, reached > target);
        if (beyond != 0 && lane == __ffs(static_cast<int>(beyond)) - 1) room.token = i;
        passed = __shfl_sync(kAllLanes, reached, 31);
        return beyond != 0;
      });
    __syncthreads();
    return room.token;
  }

  /// room.listed becomes the ranks of the n largest keys, largest first: key, then the complement of the index.
  GPUKIT_DEVICE void list_top(int n) const {
    const Cut cut = cut_at(static_cast<uint64_t>(n), [](uint32_t) { return uint64_t{1}; });
    if (threadIdx.x == 0) room.count = 0;
    const uint64_t before = ties_before(cut);
    __syncthreads();
    walk(cut, before, [&](int i, uint32_t key, bool kept) {
      if (kept) room.listed[atomicAdd(&room.count, 1)] = rank_of(key, i);
      return false;
    });
    __syncthreads();
    uint64_t mine = 0;
    int place = 0;
    if (threadIdx.x < n) {
      mine = room.listed[threadIdx.x];
      for (int i = 0; i < n; ++i) place += room.listed[i] > mine ? 1 : 0;
    }
    __syncthreads();
    if (threadIdx.x < n) room.listed[place] = mine;
    __syncthreads();
  }

  static GPUKIT_DEVICE uint64_t rank_of(uint32_t key, int i) {
    return static_cast<uint64_t>(key) << 32 | (0xffffffffu - static_cast<uint32_t>(i));
  }
  static GPUKIT_DEVICE uint32_t key_in(uint64_t rank) { return static_cast<uint32_t>(rank >> 32); }
  static GPUKIT_DEVICE int32_t index_in(uint64_t rank) {
    return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(rank));
  }
};

}  // namespace sampling

// sampling_choose: one block per row. `keys` [rows, vocab] takes the bias.
__global__ void __launch_bounds__(kChooseThreads)
    sampling_choose(int32_t* out, float* logprobs, int32_t* top_ids, float* top_logprobs, uint32_t* keys,
                    const int32_t* bias_ids, const float* bias_values, const float* temperatures, const int32_t* top_ks,
                    const float* top_ps, const float* min_ps, const uint64_t* seeds, const int32_t* positions,
                    const float* uniforms, Fault* fault, const __grid_constant__ SamplingSpace s) {
  using namespace sampling;
  __shared__ Room room;
  const int64_t index = blockIdx.x;
  const Row row{keys + index * s.vocab, static_cast<int>(s.vocab), room};
  if (bias_ids != nullptr)
    row.add_bias(bias_ids + index * s.bias_row, bias_values + index * s.bias_row, static_cast<int>(s.bias_count), fault,
                 s.fault_op);
  const uint64_t best = row.reduce<Largest>([](int i, uint32_t key) { return Row::rank_of(key, i); });
  const uint32_t largest = Row::key_in(best);
  const bool valid = largest != kNotANumber && largest > kMinusInfinity;
  const float temperature = temperatures != nullptr ? temperatures[index] : s.temperature;

  int32_t token = valid ? Row::index_in(best) : -1;
  if (valid && temperature >= kGreedyBelow) {
    const int32_t top_k = top_ks != nullptr ? top_ks[index] : s.top_k;
    const float top_p = top_ps != nullptr ? top_ps[index] : s.top_p;
    const uint64_t least = least_weight(min_ps != nullptr ? min_ps[index] : s.min_p);
    Cut cut;
    if (top_k > 0 && top_k < s.vocab)
      cut = row.cut_at(static_cast<uint64_t>(top_k), [](uint32_t) { return uint64_t{1}; });
    if (top_p < 1.0f) {
      const auto weight = [=](uint32_t key) {
        return key < cut.key ? uint64_t{0} : weight_of(key, largest, temperature);
      };
      const uint64_t total = row.reduce<Sum>([=](int, uint32_t key) { return key > cut.key ? weight(key) : 0; });
      cut = row.cut_at(nucleus(total + cut.ties * weight(cut.key), top_p), weight);
    }
    const uint64_t position =
        positions != nullptr ? static_cast<uint64_t>(static_cast<int64_t>(positions[index])) : s.position;
    const uint64_t word = uniforms != nullptr ? word_of(uniforms[index])
                                              : draw(seeds != nullptr ? seeds[index] : s.seed, position,
                                                     s.one_seed != 0 ? static_cast<uint64_t>(index) : 0);
    token = row.pick(cut, word, [=](uint32_t key) {
      const uint64_t w = weight_of(key, largest, temperature);
      return w >= least ? w : 0;
    });
  }
  if (threadIdx.x == 0) out[index] = token;
  if (logprobs == nullptr && top_ids == nullptr) return;

  double log_sum = 0.0;
  if (valid) {
    const uint64_t sum = row.reduce<Sum>([=](int, uint32_t key) { return weight_of(key, largest, 1.0f); });
    log_sum = log(static_cast<double>(sum) / static_cast<double>(kOne));
  }
  const auto logprob = [=](uint32_t key) {
    if (!valid) return __int_as_float(0x7fffffff);
    const double beside =
        key == largest ? 0.0 : static_cast<double>(logit_of(key)) - static_cast<double>(logit_of(largest));
    return static_cast<float>(beside - log_sum);
  };
  if (logprobs != nullptr && threadIdx.x == 0) logprobs[index] = logprob(valid ? row.keys[token] : 0);
  if (top_ids == nullptr) return;
  if (valid) row.list_top(s.top_n);
  if (threadIdx.x < s.top_n) {
    const int64_t at = index * s.top_n + threadIdx.x;
    const uint64_t rank = valid ? room.listed[threadIdx.x] : 0;
    top_ids[at] = valid ? Row::index_in(rank) : -1;
    top_logprobs[at] = logprob(Row::key_in(rank));
  }
}

}  // namespace gpukit
