// SHA-256 (FIPS 180-4), and length-prefixed fields for keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpukit {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  void update(const void* data, size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// The length as 8 little-endian bytes, then the text: a list of fields has one reading only.
  void field(std::string_view text);
  /// Ends the hash; the object must not be used afterwards.
  Sha256Digest finish();

 private:
  uint32_t state_[8];
  uint8_t buffer_[64];
  size_t used_ = 0;
  uint64_t total_ = 0;
};

Sha256Digest sha256(std::string_view data);

/// Takes `count` blocks of 64 bytes into a state: by the processor's own instructions where it has them, and by a loop
/// that every processor runs.
void sha256_blocks(uint32_t state[8], const uint8_t* data, size_t count);
void sha256_blocks_plain(uint32_t state[8], const uint8_t* data, size_t count);

/// 64 lower-case digits.
std::string hex(const Sha256Digest& digest);

}  // namespace gpukit
