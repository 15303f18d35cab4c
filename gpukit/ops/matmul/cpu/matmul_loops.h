// The inner loops of the CPU product as one table per dtype, and the memory that a thread works in.
#pragma once

#include <array>
#include <utility>

#include "gpukit/ops/matmul/cpu/matmul_block.h"
#include "gpukit/ops/matmul/cpu/matmul_pack.h"

namespace gpukit::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// The inner loops of one dtype at one level.
template <typename T>
struct Block {
  using Sum = typename Sums<T>::type;
  using Packed = typename Sums<T>::Packed;
  using Pack = void (*)(Packed* to, const T* from, int64_t width, int64_t lane_stride, int64_t depth, int64_t k_stride);
  using Accumulate = void (*)(Sum* sums, int64_t stride, const Packed* a, const Packed* b, int64_t b_stride,
                              int64_t steps, bool fresh);

  int rows, columns;
  Pack pack_rows, pack_columns;
  std::array<Accumulate, kMaxBlockRows> accumulate;  // [rows - 1]
};

template <typename T, int... Row>
Block<T> plain_block(std::integer_sequence<int, Row...>) {
  using Sum = typename Sums<T>::type;
  constexpr int kRows = PlainShape::kRows, kColumns = PlainShape::kColumns<sizeof(Sum)>;
  return {kRows,
          kColumns,
          pack<kRows, T>,
          pack<kColumns, T>,
          {accumulate_plain<Sum, typename Sums<T>::Packed, Row + 1>...}};
}

#ifdef GPUKIT_X86_LEVELS

/// The same packing, compiled for wider registers.
template <int Lanes, typename T>
GPUKIT_AVX2 void pack_avx2(typename Sums<T>::Packed* to, const T* from, int64_t width, int64_t lane_stride,
                           int64_t depth, int64_t k_stride) {
  pack<Lanes>(to, from, width, lane_stride, depth, k_stride);
}
template <int Lanes, typename T>
GPUKIT_AVX512 void pack_avx512(typename Sums<T>::Packed* to, const T* from, int64_t width, int64_t lane_stride,
                               int64_t depth, int64_t k_stride) {
  pack<Lanes>(to, from, width, lane_stride, depth, k_stride);
}

template <typename T, int... Row>
Block<T> avx2_block(std::integer_sequence<int, Row...>) {
  using Sum = typename Sums<T>::type;
  constexpr int kRows = Avx2Shape::kRows, kColumns = Avx2Shape::kColumns<sizeof(Sum)>;
  return {kRows,
          kColumns,
          pack_avx2<kRows, T>,
          pack_avx2<kColumns, T>,
          {avx2::accumulate<Sum, typename Sums<T>::Packed, Row + 1>...}};
}
template <typename T, int... Row>
Block<T> avx512_block(std::integer_sequence<int, Row...>) {
  using Sum = typename Sums<T>::type;
  constexpr int kRows = Avx512Shape::kRows, kColumns = Avx512Shape::kColumns<sizeof(Sum)>;
  return {kRows,
          kColumns,
          pack_avx512<kRows, T>,
          pack_avx512<kColumns, T>,
          {avx512::accumulate<Sum, typename Sums<T>::Packed, Row + 1>...}};
}

#endif

template <typename T>
Block<T> choose_block([[maybe_unused]] MatmulLevel level) {
#ifdef GPUKIT_X86_LEVELS
  using Sum = typename Sums<T>::type;
  if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<Sum, uint64_t>) {
    if (level == MatmulLevel::avx512) return avx512_block<T>(std::make_integer_sequence<int, Avx512Shape::kRows>());
    if (level == MatmulLevel::avx2) return avx2_block<T>(std::make_integer_sequence<int, Avx2Shape::kRows>());
  }
#endif
  return plain_block<T>(std::make_integer_sequence<int, PlainShape::kRows>());
}

/// What one task works in: a packed tile of a that is `depth` steps of k deep, sums for its rows and `depth` columns,
/// and a packed strip of b.
struct Scratch {
  std::byte* memory;
  int64_t depth;

  template <typename V>
  V* tile() const {
    return reinterpret_cast<V*>(memory);
  }
  template <typename V>
  V* sums() const {
    return reinterpret_cast<V*>(memory + 4 * depth * depth);
  }
  template <typename V>
  V* strip() const {
    return reinterpret_cast<V*>(memory + 8 * depth * depth);
  }
  /// No strip is wider than two of the widest registers.
  static constexpr int64_t bytes(int64_t depth) { return 8 * depth * depth + 128 * depth; }
};
/// A tile of the larger depth takes a quarter of a megabyte of second-level cache, a strip fits the first level.
inline constexpr int64_t kLargeDepth = 256, kSmallDepth = 64;

/// Scratch::bytes(kLargeDepth), kept by the thread for its next product. Null when there is no memory for it.
std::byte* large_scratch() noexcept;

/// The level products submitted now use.
MatmulLevel matmul_level();

}  // namespace gpukit::cpu
