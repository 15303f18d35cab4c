#include <algorithm>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/random/draw.cuh"
#include "gpukit/ops/random/random_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

template <typename E, typename W, int digits>
struct Element {
  using T = E;
  using Word = W;
  using Compute = compute_t<E>;
  static constexpr int kDigits = digits;
  static Compute load(E v) { return cpu::load(v); }
  static E store(Compute v) { return cpu::store<E>(v); }
};

/// out[i] = f(word i). `f` is copied into the submitted work.
template <typename T, typename Word, typename F>
void fill_words(const char* name, const Array& out, random::State state, F f) {
  runtime::run_host(name, out.device(), {write(out)}, [size = out.size(), state, f](void* const* p) {
    using Draws = random::Draws<Word>;
    constexpr int64_t kPer = Draws::kPerBlock;
    constexpr int64_t kGrain = 2048;  // blocks
    T* to = static_cast<T*>(p[0]);
    parallel_for((size + kPer - 1) / kPer, kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const random::Words words = random::philox(state.seed, state.offset, static_cast<uint64_t>(block));
        const int count = static_cast<int>(std::min(kPer, size - block * kPer));
        for (int i = 0; i < count; ++i) to[block * kPer + i] = f(Draws::word(words, i));
      }
    });
  });
}

/// Calls f<Element>() for the dtypes computed in float.
template <typename F>
void visit_small(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16: f.template operator()<Element<half, uint32_t, 11>>(); break;
    case DType::bfloat16: f.template operator()<Element<bfloat16, uint32_t, 8>>(); break;
    default: f.template operator()<Element<float, uint32_t, 24>>(); break;
  }
}
using DoubleElement = Element<double, uint64_t, 53>;

template <typename E, typename Range>
void uniform_as(const Array& out, random::State state, const Range& range) {
  using Word = typename E::Word;
  fill_words<typename E::T, Word>("random.uniform", out, state,
                                  [range](Word word) { return random::uniform_real<E>(word, range); });
}

template <typename E, typename Parameters>
void normal_as(const Array& out, random::State state, const Parameters& parameters) {
  using Word = typename E::Word;
  fill_words<typename E::T, Word>("random.normal", out, state,
                                  [p = parameters](Word word) { return random::normal_real<E>(word, p.mean, p.std); });
}

}  // namespace

void random_uniform(const Array& out, random::State state, const random::UniformRange<float>& range) {
  visit_small(out.dtype(), [&]<typename E>() { uniform_as<E>(out, state, range); });
}
void random_uniform(const Array& out, random::State state, const random::UniformRange<double>& range) {
  uniform_as<DoubleElement>(out, state, range);
}
void random_normal(const Array& out, random::State state, const NormalParameters<float>& parameters) {
  visit_small(out.dtype(), [&]<typename E>() { normal_as<E>(out, state, parameters); });
}
void random_normal(const Array& out, random::State state, const NormalParameters<double>& parameters) {
  normal_as<DoubleElement>(out, state, parameters);
}

void random_integer(const Array& out, random::State state, const random::IntegerRange& range) {
  visit_arithmetic(out.dtype(), [&]<typename T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      fill_words<T, uint64_t>("random.randint", out, state,
                              [range](uint64_t word) { return static_cast<T>(random::uniform_integer(word, range)); });
  });
}

}  // namespace gpukit::cpu
