#include "gpukit/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__) && !defined(_WIN32)
#include <cpuid.h>
#include <immintrin.h>
#define GPUKIT_SHA_INSTRUCTIONS 1
#endif

namespace gpukit {
namespace {

alignas(16) constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t load_big_endian(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         p[3];
}

#ifdef GPUKIT_SHA_INSTRUCTIONS

bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kSsse3 = 1u << 9, kSha = 1u << 29;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kSsse3) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kSha) != 0;
}

__attribute__((target("sha,ssse3"))) void blocks_by_instructions(uint32_t* state, const uint8_t* data, size_t count) {
  const __m128i swap_bytes = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  const auto words = [state](int i, int j, int k, int l) __attribute__((target("sha,ssse3"))) {
    return _mm_set_epi32(static_cast<int>(state[i]), static_cast<int>(state[j]), static_cast<int>(state[k]),
                         static_cast<int>(state[l]));
  };
  // The instructions want the state as a b e f and c d g h.
  __m128i abef = words(0, 1, 4, 5), cdgh = words(2, 3, 6, 7);
  for (; count > 0; --count, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), swap_bytes);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {  // four rounds each
      const __m128i first = w[i % 4], last = w[(i + 3) % 4];
      const __m128i sum = _mm_add_epi32(first, _mm_load_si128(reinterpret_cast<const __m128i*>(kRound) + i));
      const __m128i half = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, half, _mm_unpackhi_epi64(sum, sum));
      cdgh = half;
      if (i >= 12) continue;
      const __m128i seven_before = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
      w[i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(first, w[(i + 1) % 4]), seven_before), last);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) uint32_t left[4], right[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(left), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(right), cdgh);
  const uint32_t result[8] = {left[3], left[2], right[3], right[2], left[1], left[0], right[1], right[0]};
  std::copy_n(result, 8, state);
}

#endif

void plain_block(uint32_t* state, const uint8_t* data) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = load_big_endian(data + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += add[i];
}

}  // namespace

void sha256_blocks_plain(uint32_t state[8], const uint8_t* data, size_t count) {
  for (; count > 0; --count, data += 64) plain_block(state, data);
}

void sha256_blocks(uint32_t state[8], const uint8_t* data, size_t count) {
#ifdef GPUKIT_SHA_INSTRUCTIONS
  static const bool found = has_instructions();
  if (found) return blocks_by_instructions(state, data, count);
#endif
  sha256_blocks_plain(state, data, count);
}

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Sha256::update(const void* data, size_t bytes) {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  total_ += bytes;
  while (bytes > 0) {
    if (used_ == 0 && bytes >= sizeof(buffer_)) {
      const size_t whole = bytes / sizeof(buffer_);
      sha256_blocks(state_, p, whole);
      p += whole * sizeof(buffer_);
      bytes -= whole * sizeof(buffer_);
      continue;
    }
    const size_t part = std::min(bytes, sizeof(buffer_) - used_);
    std::memcpy(buffer_ + used_, p, part);
    used_ += part;
    p += part;
    bytes -= part;
    if (used_ == sizeof(buffer_)) {
      sha256_blocks(state_, buffer_, 1);
      used_ = 0;
    }
  }
}

void Sha256::field(std::string_view text) {
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(static_cast<uint64_t>(text.size()) >> (8 * i));
  update(length, sizeof(length));
  update(text);
}

Sha256Digest Sha256::finish() {
  const uint64_t bits = total_ * 8;
  buffer_[used_++] = 0x80;
  if (used_ > 56) {
    std::memset(buffer_ + used_, 0, sizeof(buffer_) - used_);
    sha256_blocks(state_, buffer_, 1);
    used_ = 0;
  }
  std::memset(buffer_ + used_, 0, 56 - used_);
  for (int i = 0; i < 8; ++i) buffer_[56 + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  sha256_blocks(state_, buffer_, 1);
  Sha256Digest digest;
  for (int i = 0; i < 32; ++i) digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256Digest sha256(std::string_view data) {
  Sha256 hash;
  hash.update(data);
  return hash.finish();
}

std::string hex(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace gpukit
