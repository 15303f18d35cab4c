// Zip archives: what .npz files are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/base/files.h"

namespace gpukit::io {

struct ZipMember {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0;  // bytes in the archive, and once unpacked
  uint64_t header = 0;            // where its local header is
};

/// The members of an archive. Throws FormatError naming the file: no archive, encrypted, of another method, out of
/// bounds, cut while it is read.
std::vector<ZipMember> read_directory(const files::ReadableFile& archive);
/// The bytes of one, unpacked. The checksum was compared. Throws FormatError.
std::vector<std::byte> read_member(const files::ReadableFile& archive, const ZipMember& member);

/// Writes an archive.
class ZipWriter {
 public:
  /// Stored, or with `packed` deflated where that is shorter.
  void add(const std::string& name, std::string_view bytes, bool packed = false);
  /// The whole archive.
  std::string finish();

 private:
  std::string bytes_, directory_;
  uint64_t count_ = 0;
};

/// Packs bytes as raw deflate. The same bytes in, the same bytes out.
std::string deflate(std::span<const std::byte> bytes);
/// Unpacks raw deflate into exactly `out`; false for anything else.
bool inflate(std::span<const std::byte> packed, std::span<std::byte> out);
uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace gpukit::io
