#include "gpukit/io/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/io/zip.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::io {

namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie in the file");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kSuffix = ".npy";
constexpr size_t kMaxHeader = 65536;  // far above what any array needs

struct Named {
  const char* text;
  DType dtype;
};
constexpr Named kNames[] = {{"b1", DType::boolean},   {"i1", DType::int8},       {"i2", DType::int16},
                            {"i4", DType::int32},     {"i8", DType::int64},      {"u1", DType::uint8},
                            {"u2", DType::uint16},    {"u4", DType::uint32},     {"u8", DType::uint64},
                            {"f2", DType::float16},   {"f4", DType::float32},    {"f8", DType::float64},
                            {"c8", DType::complex64}, {"c16", DType::complex128}};

struct Header {
  DType dtype = DType::float32;
  bool big_endian = false, fortran_order = false;
  Dims shape;
};

/// The description of one array: a Python dict of three known keys, read as text.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, std::string_view text) : path_(path), text_(text) {}

  Header parse() {
    Header header;
    bool dtype = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype) {
        read_dtype(header);
        dtype = true;
      } else if (key == "fortran_order" && !order) {
        header.fortran_order = boolean();
        order = true;
      } else if (key == "shape" && !shape) {
        header.shape = sizes();
        shape = true;
      } else {
        fail("its header has the key '" + std::string(key) + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("something follows the description in its header");
    if (!dtype || !order || !shape) fail("its header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw FormatError(path_ + ": " + why); }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("its header is not a description of an array: '") + c + "' is missing");
  }
  std::string_view quoted() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("its header is not a description of one plain array (of named fields?)");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a text of its header does not end");
    const std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return found;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}})
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    fail("fortran_order of its header is neither True nor False");
  }
  void read_dtype(Header& header) {
    const std::string_view text = quoted();
    if (text.size() > 1 && text[1] == 'O')
      fail("it holds Python objects, which are pickled: loading them could run any code");
    for (const Named& named : kNames) {
      if (text.empty() || text.substr(1) != named.text) continue;
      const bool one_byte = itemsize(named.dtype) == 1;
      if (text[0] != '<' && text[0] != '>' && text[0] != '=' && !(text[0] == '|' && one_byte)) continue;
      header.dtype = named.dtype;
      header.big_endian = text[0] == '>' && !one_byte;
      return;
    }
    fail("dtype '" + std::string(text) + "' is not one of ours");
  }
  Dims sizes() {
    std::vector<int64_t> found;
    expect('(');
    while (!accept(')')) {
      skip_space();
      int64_t size = 0;
      const char* const end = text_.data() + text_.size();
      const auto [next, error] = std::from_chars(text_.data() + at_, end, size);
      if (error != std::errc() || size < 0) fail("the shape in its header is not one of sizes");
      at_ = static_cast<size_t>(next - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // as Python 2 wrote
      found.push_back(size);
      if (found.size() > kMaxRank) fail("it has more than 8 dimensions");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return Dims(found);
  }

  const std::string& path_;
  std::string_view text_;
  size_t at_ = 0;
};

/// Turns numbers of `width` bytes around.
void swap_bytes(std::vector<std::byte>& bytes, size_t width) {
  for (size_t at = 0; at < bytes.size(); at += width)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + width));
}

const char* name_of(const char* op, DType dtype) {
  for (const Named& named : kNames)
    if (named.dtype == dtype) return named.text;
  throw DTypeError(op, "x", "have a dtype of NumPy (astype, or save_safetensors)", name(dtype));
}

std::string to_npy(const char* op, const Array& x) {
  std::string header = std::string("{'descr': '") + (itemsize(x.dtype()) == 1 ? '|' : '<') + name_of(op, x.dtype()) +
                       "', 'fortran_order': False, 'shape': (";
  for (int64_t size : x.shape()) header += std::to_string(size) + ", ";
  if (x.ndim() > 1) header.resize(header.size() - 2);
  if (x.ndim() == 1) header.pop_back();
  header += "), }";
  constexpr size_t kAlign = 64, kPrefix = 10;
  header.append((kAlign - (kPrefix + header.size() + 1) % kAlign) % kAlign, ' ');
  header += '\n';
  std::string file(kMagic);
  file += '\x01';
  file += '\0';
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  const size_t start = file.size();
  file.resize(start + static_cast<size_t>(x.nbytes()));
  if (x.size() > 0) to_host(file.data() + start, contiguous(x), op);
  return file;
}

}  // namespace

Array parse_npy(const std::string& path, std::span<const std::byte> bytes, Device device) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto fail = [&](const std::string& why) { throw FormatError(path + ": " + why); };
  if (!text.starts_with(kMagic) || text.size() < 10) fail("it is no .npy file");
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(text[at])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3 || byte(7) != 0)
    fail("version " + std::to_string(version) + "." + std::to_string(byte(7)) + " of the format; 1.0 to 3.0 are read");
  if (version > 1 && text.size() < 12) fail("it ends in its header");
  const size_t size = version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  const size_t start = version == 1 ? 10 : 12;
  if (size > kMaxHeader) fail("its header claims " + std::to_string(size) + " bytes");
  if (size > text.size() - start) fail("it ends in its header");
  const Header header = HeaderParser(path, text.substr(start, size)).parse();
  const std::span<const std::byte> data = bytes.subspan(start + size);
  int64_t wanted = 0;
  try {
    wanted = checked_bytes("load", header.shape, itemsize(header.dtype));
  } catch (const ShapeError&) {
    fail("its shape " + header.shape.str() + " is larger than any memory");
  }
  if (data.size() != static_cast<size_t>(wanted))
    fail("it has " + std::to_string(data.size()) + " bytes of elements, shape " + header.shape.str() + " of " +
         name(header.dtype) + " needs " + std::to_string(wanted));
  Dims shape = header.shape;
  if (header.fortran_order) std::reverse(shape.begin(), shape.end());
  const std::byte* elements = data.data();
  std::vector<std::byte> changed;
  if (header.big_endian || header.dtype == DType::boolean) {
    changed.assign(data.begin(), data.end());
    if (header.dtype == DType::boolean)
      for (std::byte& b : changed) b = static_cast<std::byte>(b != std::byte{0});
    else
      swap_bytes(changed, static_cast<size_t>(itemsize(header.dtype)) / (is_complex(header.dtype) ? 2 : 1));
    elements = changed.data();
  }
  const Array loaded = from_host(elements, shape, header.dtype, device);
  return header.fortran_order ? loaded.transpose() : loaded;
}

Array load_npy(const std::string& path, Device device) {
  const std::string file = files::read_file(path);
  return parse_npy(path, std::as_bytes(std::span(file.data(), file.size())), device);
}

void save_npy(const std::string& path, const Array& x) { files::write_file(path, to_npy("save", x)); }

struct NpzFile::State {
  files::ReadableFile file;
  std::vector<ZipMember> members = {};
  std::vector<std::string> names = {};
};

NpzFile NpzFile::open(const std::string& path) {
  auto state = std::make_shared<State>(State{files::ReadableFile::open(path)});
  for (ZipMember& member : read_directory(state->file)) {
    if (!member.name.ends_with(kSuffix)) continue;
    std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    if (std::find(state->names.begin(), state->names.end(), name) != state->names.end())
      throw FormatError(path + ": '" + name + "' is there twice");
    state->names.push_back(std::move(name));
    state->members.push_back(std::move(member));
  }
  NpzFile opened;
  opened.state_ = std::move(state);
  return opened;
}

const std::vector<std::string>& NpzFile::names() const { return state_->names; }

Array NpzFile::load(const std::string& name, Device device) const {
  const auto found = std::find(state_->names.begin(), state_->names.end(), name);
  if (found == state_->names.end()) throw NotFoundError(state_->file.path() + ": no array '" + name + "'");
  const ZipMember& member = state_->members[static_cast<size_t>(found - state_->names.begin())];
  return parse_npy(state_->file.path() + ": '" + name + "'", read_member(state_->file, member), device);
}

void save_npz(const std::string& path, std::span<const std::pair<std::string, Array>> arrays, bool packed) {
  ZipWriter archive;
  std::vector<std::string_view> seen;
  for (const auto& [name, x] : arrays) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      throw ArgumentError("savez", "arrays", "have different names", "'" + name + "' twice");
    if (name.size() > 60000) throw ArgumentError("savez", "arrays", "have names of at most 60000 bytes", "longer");
    seen.push_back(name);
    archive.add(name + std::string(kSuffix), to_npy("savez", x), packed);
  }
  files::write_file(path, archive.finish());
}

bool is_archive(const std::string& path) {
  const files::ReadableFile file = files::ReadableFile::open(path);
  char magic[4] = {};
  const std::string_view start(magic, file.read_at(0, magic, sizeof(magic)));
  return start == "PK\x03\x04" || start == "PK\x05\x06";
}

}  // namespace gpukit::io
