// Random fills: one thread makes one Philox block, two or four neighbouring elements. Row-major output, any grid.
#pragma once
#include "gpukit/ops/common/vec.cuh"
#include "gpukit/ops/random/draw.cuh"

namespace gpukit {

template <typename E, typename W, int digits>
struct RandomElement {
  using T = E;
  using Word = W;
  using Compute = compute_t<E>;
  static constexpr int kDigits = digits;
  static GPUKIT_DEVICE Compute load(E v) { return gpukit::load(v); }
  static GPUKIT_DEVICE E store(Compute v) { return gpukit::store<E>(v); }
};
template <typename T>
struct RandomElementOf;
template <>
struct RandomElementOf<half> {
  using type = RandomElement<half, uint32_t, 11>;
};
template <>
struct RandomElementOf<bfloat16> {
  using type = RandomElement<bfloat16, uint32_t, 8>;
};
template <>
struct RandomElementOf<float> {
  using type = RandomElement<float, uint32_t, 24>;
};
template <>
struct RandomElementOf<double> {
  using type = RandomElement<double, uint64_t, 53>;
};

/// out[i] = f(word i), the words of a block stored together where the address allows.
template <typename T, typename Word, typename F>
GPUKIT_DEVICE void random_fill(T* out, int64_t size, uint64_t seed, uint64_t offset, F f) {
  constexpr int N = random::Draws<Word>::kPerBlock;
  const int64_t blocks = (size + N - 1) / N;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const bool aligned = reinterpret_cast<uint64_t>(out) % sizeof(Vec<T, N>) == 0;
  for (int64_t block = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; block < blocks; block += stride) {
    const random::Words words = random::philox(seed, offset, static_cast<uint64_t>(block));
    Vec<T, N> values;
#pragma unroll
    for (int i = 0; i < N; ++i) values.v[i] = f(random::Draws<Word>::word(words, i));
    if (aligned && block * N + N <= size) {
      store_vec(out + block * N, values);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i)
        if (block * N + i < size) out[block * N + i] = values.v[i];
    }
  }
}

template <typename T>
__global__ void random_uniform(T* out, int64_t size, uint64_t seed, uint64_t offset,
                               random::UniformRange<compute_t<T>> range) {
  using Element = typename RandomElementOf<T>::type;
  using Word = typename Element::Word;
  random_fill<T, Word>(out, size, seed, offset, [&](Word word) { return random::uniform_real<Element>(word, range); });
}

template <typename T>
__global__ void random_normal(T* out, int64_t size, uint64_t seed, uint64_t offset, compute_t<T> mean,
                              compute_t<T> std) {
  using Element = typename RandomElementOf<T>::type;
  using Word = typename Element::Word;
  random_fill<T, Word>(out, size, seed, offset,
                       [&](Word word) { return random::normal_real<Element>(word, mean, std); });
}

template <typename T>
__global__ void random_integer(T* out, int64_t size, uint64_t seed, uint64_t offset, random::IntegerRange range) {
  random_fill<T, uint64_t>(out, size, seed, offset,
                           [&](uint64_t word) { return static_cast<T>(random::uniform_integer(word, range)); });
}

}  // namespace gpukit
