#include "gpukit/jit/image.h"

#include <charconv>

namespace gpukit::jit {
namespace {

constexpr std::string_view kMagic = "GPUKIT\x01K";
constexpr int kElfMachineCuda = 190;

}  // namespace

std::string Image::lowered(std::string_view expression) const {
  for (const auto& [name, value] : names)
    if (name == expression) return value;
  return {};
}

void Writer::number(uint64_t value) {
  for (int i = 0; i < 8; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xff);
}

std::string_view Reader::raw(size_t bytes) {
  if (!ok_ || bytes > rest_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view result = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return result;
}

uint64_t Reader::number() {
  const std::string_view bytes = raw(8);
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

std::string encode(const Key& key, const Image& image) {
  Writer writer;
  writer.raw(kMagic);
  writer.raw(bytes_of(key));
  writer.number(image.names.size());
  for (const auto& [expression, lowered] : image.names) {
    writer.field(expression);
    writer.field(lowered);
  }
  writer.field(image.code);
  writer.field(image.ptx);
  writer.field(image.log);
  const Sha256Digest checksum = sha256(writer.bytes());
  writer.raw(bytes_of(checksum));
  return writer.take();
}

std::optional<Image> decode(const Key& key, std::string_view bytes) {
  constexpr size_t kChecksum = sizeof(Sha256Digest);
  if (bytes.size() < kMagic.size() + sizeof(Key) + kChecksum) return {};
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksum);
  Reader reader(body);
  if (reader.raw(kMagic.size()) != kMagic || reader.raw(sizeof(Key)) != bytes_of(key)) return {};
  if (bytes_of(sha256(body)) != bytes.substr(body.size())) return {};
  Image image;
  const uint64_t count = reader.number();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    const std::string_view expression = reader.field();
    image.names.emplace_back(expression, reader.field());
  }
  image.code = reader.field();
  image.ptx = reader.field();
  image.log = reader.field();
  if (!reader.at_end()) return {};
  return image;
}

std::optional<CubinHeader> read_cubin_header(std::string_view code) {
  auto byte = [&](size_t i) { return static_cast<int>(static_cast<unsigned char>(code[i])); };
  if (code.size() < 64 ||
      code.substr(0, 4) !=
          "\x7f"
          "ELF" ||
      byte(18) + 256 * byte(19) != kElfMachineCuda)
    return {};
  // Up to version 7 the chip is in the low byte of e_flags, from version 8 in the byte above.
  const int version = byte(8);
  return CubinHeader{version, byte(version >= 8 ? 49 : 48)};
}

int read_ptx_version(std::string_view ptx) {
  constexpr std::string_view kWord = ".version ";
  const size_t at = ptx.find(kWord);
  if (at == std::string_view::npos) return 0;
  int version = 0;
  for (char c : ptx.substr(at + kWord.size(), 5)) {
    if (c == '.') continue;
    if (c < '0' || c > '9') break;
    version = version * 10 + (c - '0');
  }
  return version;
}

int read_target(std::string_view code) {
  if (const auto header = read_cubin_header(code)) return header->sm;
  constexpr std::string_view kWord = ".target sm_";
  const size_t at = code.find(kWord);
  int target = 0;
  if (at != std::string_view::npos) std::from_chars(code.data() + at + kWord.size(), code.data() + code.size(), target);
  return target;
}

}  // namespace gpukit::jit
