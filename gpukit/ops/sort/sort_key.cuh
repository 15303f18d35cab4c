// Keys of sorting: unsigned integers in the order of the elements, made from an element's bits. Shared by both sides.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

enum class KeyKind : int32_t { plain, with_sign, real };

struct KeyRule {
  KeyKind kind;
  int32_t descending;
  uint64_t infinity;  // bits of the dtype's infinity, for reals
};

/// -0 and 0 have one key; so have all NaN, above every number. U is as wide as the element.
template <typename U>
GPUKIT_DEVICE U sort_key(U bits, const KeyRule& rule) {
  constexpr U kSign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  U key = bits;
  if (rule.kind == KeyKind::with_sign) {
    key = static_cast<U>(bits ^ kSign);
  } else if (rule.kind == KeyKind::real) {
    const U magnitude = static_cast<U>(bits & ~kSign);
    if (magnitude > static_cast<U>(rule.infinity))
      key = static_cast<U>(~U(0));
    else if (magnitude == 0)
      key = kSign;
    else
      key = static_cast<U>((bits & kSign) != 0 ? ~bits : bits | kSign);
  }
  return rule.descending != 0 ? static_cast<U>(~key) : key;
}

/// An element that has the key.
template <typename U>
GPUKIT_DEVICE U bits_of_key(U key, const KeyRule& rule) {
  constexpr U kSign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  if (rule.descending != 0) key = static_cast<U>(~key);
  if (rule.kind == KeyKind::plain) return key;
  if (rule.kind == KeyKind::with_sign) return static_cast<U>(key ^ kSign);
  return static_cast<U>((key & kSign) != 0 ? key ^ kSign : ~key);
}

/// How many of `n` sorted elements come before `key`; with `right`, how many do not come after it. Element i is at
/// sorted[order[i]] where an order is given.
template <typename U>
GPUKIT_DEVICE int64_t search_row(const U* sorted, const int64_t* order, int64_t n, U key, bool right,
                                 const KeyRule& rule) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t at = middle;
    if (order != nullptr) {
      at = order[middle] < 0 ? order[middle] + n : order[middle];
      at = at < 0 ? 0 : at >= n ? n - 1 : at;  // of a bad order any answer will do
    }
    const U other = sort_key(sorted[at], rule);
    if (other < key || (right && other == key))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

}  // namespace gpukit
