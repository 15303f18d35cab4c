#include "gpukit/io/zip.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpukit/base/error.h"

namespace gpukit::io {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in the file");

constexpr uint32_t kLocal = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr uint16_t kExtra64 = 1, kVersion = 20, kVersion64 = 45, kDate = 0x21, kUtf8 = 0x800;
constexpr uint32_t kIn64 = 0xFFFFFFFFu;
constexpr uint64_t kMaxExpansion = 1032;  // no deflated byte stands for more

class Reader {
 public:
  explicit Reader(const files::ReadableFile& file) : file_(file) {}
  [[noreturn]] void fail(const std::string& why) const {
    throw FormatError(file_.path() + ": not a sound archive: " + why);
  }
  /// Throws for what the file had not when it was opened, or has no more.
  void read(uint64_t offset, void* to, uint64_t size) const {
    check(offset, size);
    if (file_.read_at(static_cast<int64_t>(offset), to, size) != size) fail("the file has become shorter");
  }
  /// Small numbers and names come from a window around the last ones.
  std::span<const std::byte> part(uint64_t offset, uint64_t size) const {
    check(offset, size);
    if (offset < begin_ || offset + size > begin_ + window_.size()) {
      begin_ = offset > kWindow / 2 ? offset - kWindow / 2 : 0;
      window_.resize(std::min<uint64_t>(this->size() - begin_, kWindow));
      read(begin_, window_.data(), window_.size());
    }
    return std::span<const std::byte>(window_).subspan(offset - begin_, size);
  }
  template <typename T>
  T get(uint64_t offset) const {
    T value;
    std::memcpy(&value, part(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  uint64_t size() const { return static_cast<uint64_t>(file_.size()); }

 private:
  void check(uint64_t offset, uint64_t size) const {
    if (offset > this->size() || size > this->size() - offset) fail("it ends in the middle of a part");
  }
  static constexpr uint64_t kWindow = 256 << 10;  // a name has up to 64 KiB
  const files::ReadableFile& file_;
  mutable std::vector<std::byte> window_;
  mutable uint64_t begin_ = 0;
};

struct Directory {
  uint64_t offset = 0, count = 0;
};

Directory find_directory(const Reader& r) {
  if (r.size() < kEndBytes) r.fail("it is too short");
  // A comment of up to 65535 bytes may follow the end record.
  const size_t last = r.size() - kEndBytes, first = last > 65535 ? last - 65535 : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (r.get<uint32_t>(at) != kEnd || at + kEndBytes + r.get<uint16_t>(at + 20) != r.size()) continue;
    Directory found{r.get<uint32_t>(at + 16), r.get<uint16_t>(at + 10)};
    if (at >= kLocator64Bytes && r.get<uint32_t>(at - kLocator64Bytes) == kLocator64) {
      const auto end = r.get<uint64_t>(at - kLocator64Bytes + 8);
      if (r.get<uint32_t>(end) != kEnd64) r.fail("its long end record is missing");
      found = {r.get<uint64_t>(end + 48), r.get<uint64_t>(end + 32)};
    }
    return found;
  }
  r.fail("it has no directory");
}

/// Sizes and offsets that do not fit 32 bits are in an extra field, in this order.
void read_extra(const Reader& r, uint64_t at, uint64_t size, ZipMember& member) {
  uint64_t* const wide[] = {&member.size, &member.packed, &member.header};
  const uint64_t end = at + size;
  while (at + 4 <= end) {
    const auto tag = r.get<uint16_t>(at), bytes = r.get<uint16_t>(at + 2);
    at += 4;
    if (tag == kExtra64) {
      uint64_t field = at;
      for (uint64_t* value : wide)
        if (*value == kIn64) {
          if (field + 8 > at + bytes) r.fail("a long size is missing");
          *value = r.get<uint64_t>(field);
          field += 8;
        }
      return;
    }
    at += bytes;
  }
}

template <typename T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

uint32_t narrow(uint64_t value) { return value >= kIn64 ? kIn64 : static_cast<uint32_t>(value); }

}  // namespace

std::vector<ZipMember> read_directory(const files::ReadableFile& archive) {
  const Reader r(archive);
  const Directory directory = find_directory(r);
  if (directory.count > r.size() / kEntryBytes) r.fail("it claims more members than it can have");
  std::vector<ZipMember> members;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (r.get<uint32_t>(at) != kEntry) r.fail("an entry of its directory is missing");
    const auto name = r.get<uint16_t>(at + 28), extra = r.get<uint16_t>(at + 30), comment = r.get<uint16_t>(at + 32);
    ZipMember member;
    const auto text = r.part(at + kEntryBytes, name);
    member.name.assign(reinterpret_cast<const char*>(text.data()), text.size());
    const auto method = r.get<uint16_t>(at + 10);
    if ((r.get<uint16_t>(at + 8) & 1) != 0) r.fail("'" + member.name + "' is encrypted");
    if (method != 0 && method != 8)
      r.fail("'" + member.name + "' is packed by method " + std::to_string(method) + "; 0 and 8 are read");
    member.deflated = method == 8;
    member.crc = r.get<uint32_t>(at + 16);
    member.packed = r.get<uint32_t>(at + 20);
    member.size = r.get<uint32_t>(at + 24);
    member.header = r.get<uint32_t>(at + 42);
    read_extra(r, at + kEntryBytes + name, extra, member);
    members.push_back(std::move(member));
    at += kEntryBytes + name + extra + comment;
  }
  return members;
}

std::vector<std::byte> read_member(const files::ReadableFile& archive, const ZipMember& member) {
  const Reader r(archive);
  const auto fail = [&](const char* why) { r.fail("'" + member.name + "' " + why); };
  if (r.get<uint32_t>(member.header) != kLocal) fail("is not where the directory says");
  const uint64_t start =
      member.header + kLocalBytes + r.get<uint16_t>(member.header + 26) + r.get<uint16_t>(member.header + 28);
  if (start > r.size() || member.packed > r.size() - start) fail("ends behind the archive");
  if (!member.deflated && member.size != member.packed) fail("has two sizes");
  if (member.deflated && member.size / kMaxExpansion > member.packed) fail("claims more bytes than it can have");
  std::vector<std::byte> bytes(member.packed);
  r.read(start, bytes.data(), bytes.size());
  if (member.deflated) {
    std::vector<std::byte> unpacked(member.size);
    if (!inflate(bytes, unpacked)) fail("cannot be unpacked");
    bytes = std::move(unpacked);
  }
  if (crc32(bytes) != member.crc) fail("is damaged: its checksum differs");
  return bytes;
}

void ZipWriter::add(const std::string& name, std::string_view bytes, bool packed) {
  const std::span<const std::byte> plain(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  const uint64_t header = bytes_.size(), size = bytes.size();
  const uint32_t crc = crc32(plain);
  const std::string shorter = packed ? deflate(plain) : std::string();
  const bool deflated = packed && shorter.size() < bytes.size();
  const std::string_view held = deflated ? std::string_view(shorter) : bytes;
  const bool long_size = size >= kIn64, long_header = header >= kIn64;
  const uint16_t version = long_size || long_header ? kVersion64 : kVersion;
  const auto put_common = [&](std::string& to, size_t extra) {
    put(to, version);
    put(to, kUtf8);
    put(to, static_cast<uint32_t>(deflated ? 8 : 0));  // the method; midnight
    put(to, kDate);                                    // 1980-01-01: the same arrays, the same bytes
    put(to, crc);
    put(to, long_size ? kIn64 : static_cast<uint32_t>(held.size()));
    put(to, narrow(size));
    put(to, static_cast<uint16_t>(name.size()));
    put(to, static_cast<uint16_t>(extra));
  };
  std::string local_extra, extra;
  if (long_size) {
    for (std::string* field : {&local_extra, &extra}) {
      put(*field, size);
      put(*field, static_cast<uint64_t>(held.size()));
    }
  }
  if (long_header) put(extra, header);
  const auto tagged = [](std::string& field) {
    if (field.empty()) return;
    std::string head;
    put(head, kExtra64);
    put(head, static_cast<uint16_t>(field.size()));
    field.insert(0, head);
  };
  tagged(local_extra);
  tagged(extra);

  put(bytes_, kLocal);
  put_common(bytes_, local_extra.size());
  bytes_ += name;
  bytes_ += local_extra;
  bytes_ += held;

  put(directory_, kEntry);
  put(directory_, version);
  put_common(directory_, extra.size());
  put(directory_, uint16_t{0});  // comment
  put(directory_, uint16_t{0});  // disk
  put(directory_, uint16_t{0});  // attributes
  put(directory_, uint32_t{0});
  put(directory_, narrow(header));
  directory_ += name;
  directory_ += extra;
  ++count_;
}

std::string ZipWriter::finish() {
  const uint64_t offset = bytes_.size(), size = directory_.size();
  bytes_ += directory_;
  if (offset >= kIn64 || size >= kIn64 || count_ >= 0xFFFF) {
    const uint64_t end = bytes_.size();
    put(bytes_, kEnd64);
    put(bytes_, uint64_t{kEnd64Bytes - 12});
    put(bytes_, kVersion64);
    put(bytes_, kVersion64);
    put(bytes_, uint64_t{0});  // two numbers of disks
    put(bytes_, count_);
    put(bytes_, count_);
    put(bytes_, size);
    put(bytes_, offset);
    put(bytes_, kLocator64);
    put(bytes_, uint32_t{0});
    put(bytes_, end);
    put(bytes_, uint32_t{1});
  }
  const auto count = static_cast<uint16_t>(count_ >= 0xFFFF ? 0xFFFF : count_);
  put(bytes_, kEnd);
  put(bytes_, uint32_t{0});  // two numbers of disks
  put(bytes_, count);
  put(bytes_, count);
  put(bytes_, narrow(size));
  put(bytes_, narrow(offset));
  put(bytes_, uint16_t{0});
  return std::move(bytes_);
}

}  // namespace gpukit::io
