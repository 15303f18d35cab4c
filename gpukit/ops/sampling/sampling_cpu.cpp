#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/sampling/sampling_impl.h"
#include "gpukit/ops/sampling/sampling_step.cuh"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

using namespace sampling;

/// The addresses in the order of the uses.
struct Pointers {
  int32_t* out;
  float* logprobs;
  int32_t* top_ids;
  float* top_logprobs;
  const void* logits;
  const float* temperature;
  const int32_t* top_k;
  const float *top_p, *min_p, *repetition, *frequency, *presence;
  const int32_t *history, *history_lengths, *prompt_lengths, *bias_ids;
  const float* bias_values;
  const void* allowed;
  const uint64_t* seed;
  const int32_t* position;
  const float* uniform;
};

template <typename T, typename Value>
T number(const T* rows, int64_t row, Value value) {
  return rows != nullptr ? rows[row] : static_cast<T>(value);
}

/// One row after another, in room that is kept between them.
class Sampler {
 public:
  Sampler(const SamplingSpace& space, const Pointers& pointers, runtime::FaultWord* fault)
      : s_(space), p_(pointers), fault_(fault), keys_(static_cast<size_t>(space.vocab)) {}

  template <typename T>
  void run(int64_t row) {
    count_history(row);
    read_logits<T>(row);
    add_bias(row);
    const auto at = std::max_element(keys_.begin(), keys_.end());
    largest_ = *at;
    const bool valid = largest_ != kNotANumber && largest_ > kMinusInfinity;
    const int32_t token = valid ? choose(row, static_cast<int32_t>(at - keys_.begin())) : -1;
    p_.out[row] = token;
    if (p_.logprobs == nullptr && p_.top_ids == nullptr) return;
    const double log_sum = valid ? log_of_sum() : 0.0;
    const auto logprob = [&](int32_t index) {
      if (!valid || index < 0) return std::numeric_limits<float>::quiet_NaN();
      const uint32_t key = keys_[static_cast<size_t>(index)];
      const double beside = key == largest_ ? 0.0 : double{logit_of(key)} - double{logit_of(largest_)};
      return static_cast<float>(beside - log_sum);
    };
    if (p_.logprobs != nullptr) p_.logprobs[row] = logprob(token);
    if (p_.top_ids == nullptr) return;
    int32_t* ids = p_.top_ids + row * s_.top_n;
    if (valid)
      list_top(ids);
    else
      std::fill_n(ids, s_.top_n, -1);
    for (int i = 0; i < s_.top_n; ++i) p_.top_logprobs[row * s_.top_n + i] = logprob(ids[i]);
  }

 private:
  /// An id of a list, or nothing for padding and for bad ones.
  bool is_token(int32_t id) const {
    if (id >= s_.vocab) runtime::note_fault(fault_, s_.fault_op, id, s_.vocab);
    return id >= 0 && id < s_.vocab;
  }

  void count_history(int64_t row) {
    if (p_.history == nullptr) return;
    counts_.assign(static_cast<size_t>(s_.vocab), 0);
    const int64_t length = std::min<int64_t>(number(p_.history_lengths, row, s_.history_count), s_.history_count);
    const int64_t prompt = number(p_.prompt_lengths, row, 0);
    const int32_t* ids = p_.history + row * s_.history_row;
    for (int64_t i = 0; i < length; ++i) {
      if (!is_token(ids[i])) continue;
      uint32_t& count = counts_[static_cast<size_t>(ids[i])];
      if (i < prompt)
        count |= kInPrompt;
      else
        ++count;
    }
  }

  bool is_allowed(int64_t row, int64_t token) const {
    if (p_.allowed == nullptr) return true;
    const int64_t at = row * s_.allowed_row + (s_.allowed_bits != 0 ? token / 32 : token) * s_.allowed_step;
    if (s_.allowed_bits == 0) return static_cast<const uint8_t*>(p_.allowed)[at] != 0;
    return (static_cast<const uint32_t*>(p_.allowed)[at] >> (token % 32) & 1u) != 0;
  }

  template <typename T>
  void read_logits(int64_t row) {
    const T* logits = static_cast<const T*>(p_.logits) + row * s_.logits_row;
    const float repetition = number(p_.repetition, row, s_.repetition);
    const float frequency = number(p_.frequency, row, s_.frequency);
    const float presence = number(p_.presence, row, s_.presence);
    for (int64_t i = 0; i < s_.vocab; ++i) {
      const auto at = static_cast<size_t>(i);
      float logit = load(logits[i * s_.logits_step]);
      if (p_.history != nullptr) logit = penalize(logit, counts_[at], repetition, frequency, presence);
      keys_[at] = is_allowed(row, i) ? key_of(logit) : kMinusInfinity;
    }
  }

  void add_bias(int64_t row) {
    for (int64_t i = row * s_.bias_row; i < row * s_.bias_row + s_.bias_count; ++i) {
      if (!is_token(p_.bias_ids[i])) continue;
      uint32_t& key = keys_[static_cast<size_t>(p_.bias_ids[i])];
      if (key != kMinusInfinity && key != kNotANumber) key = key_of(rounded::add(logit_of(key), p_.bias_values[i]));
    }
  }

  /// Where the largest keys reach `need` of the sum of `measure`, which is not less.
  template <typename Measure>
  Cut cut_at(uint64_t need, const Measure& measure) const {
    uint32_t prefix = 0;
    uint64_t above = 0;
    for (int d = 0; d < kDigits; ++d) {
      uint64_t bins[kBins] = {};
      for (const uint32_t key : keys_)
        if ((key & kPrefixMask[d]) == prefix) bins[key >> kDigitShift[d] & kDigitMask[d]] += measure(key);
      uint32_t digit = kDigitMask[d];
      for (; above + bins[digit] < need; --digit) above += bins[digit];
      prefix |= digit << kDigitShift[d];
    }
    const uint64_t each = measure(prefix);
    return {prefix, (need - above + each - 1) / each};
  }

  Cut largest_count(int64_t count) const {
    return cut_at(static_cast<uint64_t>(count), [](uint32_t) { return uint64_t{1}; });
  }

  int32_t choose(int64_t row, int32_t likeliest) const {
    const float temperature = number(p_.temperature, row, s_.temperature);
    if (!(temperature >= kGreedyBelow)) return likeliest;
    const int32_t top_k = number(p_.top_k, row, s_.top_k);
    const float top_p = number(p_.top_p, row, s_.top_p);
    const uint64_t least = least_weight(number(p_.min_p, row, s_.min_p));
    Cut cut;
    const auto weight = [&](uint32_t key) { return key < cut.key ? 0 : weight_of(key, largest_, temperature); };
    if (top_k > 0 && top_k < s_.vocab) cut = largest_count(top_k);
    if (top_p < 1.0f) {
      uint64_t total = cut.ties * weight(cut.key);
      for (const uint32_t key : keys_)
        if (key > cut.key) total += weight(key);
      cut = cut_at(nucleus(total, top_p), weight);
    }
    const auto visit = [&](auto&& see) {
      uint64_t ties = cut.ties;
      for (size_t i = 0; i < keys_.size(); ++i) {
        if (keys_[i] < cut.key || (keys_[i] == cut.key && ties == 0)) continue;
        if (keys_[i] == cut.key) --ties;
        const uint64_t w = weight(keys_[i]);
        if (w >= least && !see(static_cast<int32_t>(i), w)) return;
      }
    };
    uint64_t total = 0, passed = 0;
    visit([&](int32_t, uint64_t w) { return total += w, true; });
    const uint64_t target = random::multiply_high(word(row), total);
    int32_t token = -1;
    visit([&](int32_t i, uint64_t w) {
      passed += w;
      token = i;
      return passed <= target;
    });
    return token;
  }

  uint64_t word(int64_t row) const {
    if (p_.uniform != nullptr) return word_of(p_.uniform[row]);
    const auto position = p_.position != nullptr ? static_cast<uint64_t>(int64_t{p_.position[row]}) : s_.position;
    return draw(number(p_.seed, row, s_.seed), position, s_.one_seed != 0 ? static_cast<uint64_t>(row) : 0);
  }

  double log_of_sum() const {
    uint64_t sum = 0;
    for (const uint32_t key : keys_) sum += weight_of(key, largest_, 1.0f);
    return std::log(static_cast<double>(sum) / static_cast<double>(kOne));
  }

  void list_top(int32_t* ids) const {
    const Cut cut = largest_count(s_.top_n);
    uint64_t ties = cut.ties;
    int32_t* end = ids;
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (keys_[i] < cut.key || (keys_[i] == cut.key && ties == 0)) continue;
      if (keys_[i] == cut.key) --ties;
      *end++ = static_cast<int32_t>(i);
    }
    std::stable_sort(
        ids, end, [&](int32_t a, int32_t b) { return keys_[static_cast<size_t>(a)] > keys_[static_cast<size_t>(b)]; });
  }

  const SamplingSpace& s_;
  const Pointers& p_;
  runtime::FaultWord* const fault_;
  std::vector<uint32_t> keys_, counts_;
  uint32_t largest_ = 0;
};

}  // namespace

void sample(const SamplingWork& w) {
  runtime::FaultWord* fault = runtime::fault_word(w.out.device());
  visit_floating(w.logits.dtype(), [&]<typename T>() {
    runtime::run_host(
        "sample", w.out.device(),
        {write(w.out),           write_if(w.logprobs),       write_if(w.top_ids),       write_if(w.top_logprobs),
         read(w.logits),         read_if(w.temperature),     read_if(w.top_k),          read_if(w.top_p),
         read_if(w.min_p),       read_if(w.repetition),      read_if(w.frequency),      read_if(w.presence),
         read_if(w.history),     read_if(w.history_lengths), read_if(w.prompt_lengths), read_if(w.bias_ids),
         read_if(w.bias_values), read_if(w.allowed),         read_if(w.seed),           read_if(w.position),
         read_if(w.uniform)},
        [s = w.space, rows = w.logits.shape()[0], fault](void* const* p) {
          Pointers pointers;
          std::memcpy(&pointers, p, sizeof(pointers));
          parallel_for(rows, std::max<int64_t>(1, 4096 / s.vocab), [&](int64_t begin, int64_t end) {
            Sampler sampler(s, pointers, fault);
            for (int64_t row = begin; row < end; ++row) sampler.run<T>(row);
          });
        });
  });
}

}  // namespace gpukit::cpu
