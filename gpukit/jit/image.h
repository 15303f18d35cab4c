// A compiled module as it is kept: the names the compiler gave the kernels, and the code. One format on disk, in the
// cache and in the bundle: magic, key, fields, checksum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpukit/base/sha256.h"

namespace gpukit::jit {

using Key = Sha256Digest;

struct Image {
  std::vector<std::pair<std::string, std::string>> names;  // name expression, lowered name
  std::string code;                                        // a cubin, or PTX with its final zero
  std::string ptx;                                         // user kernels only
  std::string log;                                         // what the compiler said, when it was asked to

  /// Empty when the image has no such expression.
  std::string lowered(std::string_view expression) const;
};

std::string encode(const Key& key, const Image& image);
/// nullopt for anything but the whole, unchanged entry of exactly this key.
std::optional<Image> decode(const Key& key, std::string_view bytes);

/// Little-endian numbers and length-prefixed text, for this format and the bundle's.
class Writer {
 public:
  void raw(std::string_view bytes) { out_ += bytes; }
  void number(uint64_t value);
  void field(std::string_view text) {
    number(text.size());
    out_ += text;
  }
  std::string take() { return std::move(out_); }
  const std::string& bytes() const { return out_; }

 private:
  std::string out_;
};

/// Reads what Writer wrote. After a read past the end, ok() is false and every further read gives nothing.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::string_view raw(size_t bytes);
  uint64_t number();
  std::string_view field() { return raw(number()); }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

inline std::string_view bytes_of(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// What the header of a cubin (ELF) says. nullopt when it is not one.
struct CubinHeader {
  int abi_version = 0;  // 7: CUDA 12 drivers load it; 8: Blackwell's, or CUDA 13's own
  int sm = 0;           // 90 for sm_90 and sm_90a
};
std::optional<CubinHeader> read_cubin_header(std::string_view code);
/// `.version 8.8` gives 88; 0 when the text is not PTX.
int read_ptx_version(std::string_view ptx);
/// The chip that a cubin or PTX was made for: 90 for sm_90a and compute_90; 0 when it is neither.
int read_target(std::string_view code);

}  // namespace gpukit::jit
