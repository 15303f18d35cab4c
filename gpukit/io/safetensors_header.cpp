#include "gpukit/io/safetensors_header.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/base/json.h"

namespace gpukit::io {
namespace {

struct Name {
  const char* text;
  DType dtype;
};
constexpr Name kNames[] = {
    {"BOOL", DType::boolean},        {"U8", DType::uint8},    {"I8", DType::int8},    {"F8_E5M2", DType::float8_e5m2},
    {"F8_E4M3", DType::float8_e4m3}, {"I16", DType::int16},   {"U16", DType::uint16}, {"F16", DType::float16},
    {"BF16", DType::bfloat16},       {"I32", DType::int32},   {"U32", DType::uint32}, {"F32", DType::float32},
    {"C64", DType::complex64},       {"F64", DType::float64}, {"I64", DType::int64},  {"U64", DType::uint64},
};

class HeaderParser {
 public:
  HeaderParser(const std::string& path, int64_t data_begin, int64_t file_bytes)
      : path_(path), data_begin_(data_begin), file_bytes_(file_bytes) {}

  SafeTensorsHeader run(const Json& root) {
    SafeTensorsHeader header;
    for (const auto& [name, value] : root.members()) {
      if (name == "__metadata__")
        header.metadata = metadata(value);
      else
        header.tensors.push_back(tensor(name, value));
    }
    check_cover(header.tensors);
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const { throw FormatError(path_ + ": " + why); }
  [[noreturn]] void fail(const TensorInfo& tensor, const std::string& why) const {
    fail("tensor '" + tensor.name + "' at byte " + std::to_string(tensor.offset) + ": " + why);
  }
  [[noreturn]] void fail(const std::string& name, const std::string& why) const {
    fail("tensor '" + name + "' in the header at byte 8: " + why);
  }

  TextPairs metadata(const Json& value) const {
    if (!value.is_object()) fail("__metadata__ in the header at byte 8 is not an object");
    TextPairs pairs;
    for (const auto& [name, text] : value.members()) {
      if (!text.is_string()) fail("__metadata__ in the header at byte 8: '" + name + "' is not a string");
      pairs.emplace_back(name, text.as_string());
    }
    return pairs;
  }

  const Json& member(const std::string& tensor, const Json& value, const char* name) const {
    const Json* found = value.find(name);
    if (found == nullptr) fail(tensor, std::string("has no ") + name);
    return *found;
  }

  /// A list of integers of 0 and more.
  std::vector<int64_t> sizes(const std::string& tensor, const Json& value, const char* name) const {
    const Json& list = member(tensor, value, name);
    if (!list.is_list()) fail(tensor, std::string(name) + " is not a list");
    std::vector<int64_t> numbers;
    for (const Json& item : list.items()) {
      if (!item.is_integer() || item.as_integer() < 0)
        fail(tensor, std::string(name) + " holds what is not an integer of 0 to 2^63 - 1");
      numbers.push_back(item.as_integer());
    }
    return numbers;
  }

  DType dtype(const std::string& tensor, const Json& value) const {
    const Json& text = member(tensor, value, "dtype");
    if (!text.is_string()) fail(tensor, "dtype is not a string");
    for (const Name& known : kNames)
      if (text.as_string() == known.text) return known.dtype;
    fail(tensor, "dtype '" + text.as_string() + "' is not known");
  }

  Dims shape(const std::string& tensor, const Json& value) const {
    const std::vector<int64_t> extents = sizes(tensor, value, "shape");
    if (extents.size() > kMaxRank)
      fail(tensor,
           "shape has " + std::to_string(extents.size()) + " axes, " + std::to_string(kMaxRank) + " are the most");
    return Dims(extents);
  }

  TensorInfo tensor(const std::string& name, const Json& value) const {
    if (!value.is_object()) fail(name, "is not an object");
    for (const auto& [key, unused] : value.members())
      if (key != "dtype" && key != "shape" && key != "data_offsets") fail(name, "has an unknown member '" + key + "'");
    TensorInfo info{name, dtype(name, value), shape(name, value)};
    const std::vector<int64_t> offsets = sizes(name, value, "data_offsets");
    if (offsets.size() != 2) fail(name, "data_offsets are not two integers");
    if (offsets[0] > offsets[1]) fail(name, "data_offsets end before they begin");
    if (offsets[1] > file_bytes_ - data_begin_)
      fail(name, "ends at byte " + std::to_string(offsets[1]) + " of the data, which has " +
                     std::to_string(file_bytes_ - data_begin_));
    info.offset = data_begin_ + offsets[0];
    info.bytes = offsets[1] - offsets[0];
    int64_t needed = 0;
    try {
      needed = checked_bytes("safetensors", info.shape, itemsize(info.dtype));
    } catch (const ShapeError&) {
      fail(info, "shape " + info.shape.str() + " is too large");
    }
    if (needed != info.bytes)
      fail(info, "shape " + info.shape.str() + " of " + gpukit::name(info.dtype) + " takes " + std::to_string(needed) +
                     " bytes, data_offsets span " + std::to_string(info.bytes));
    return info;
  }

  /// Sorts the tensors by place.
  void check_cover(std::vector<TensorInfo>& tensors) const {
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    int64_t end = data_begin_;
    const std::string* before = nullptr;
    for (const TensorInfo& tensor : tensors) {
      if (tensor.offset > end) fail(tensor, "the bytes from " + std::to_string(end) + " on belong to no tensor");
      if (tensor.offset < end) fail(tensor, "overlaps tensor '" + *before + "', which ends at " + std::to_string(end));
      end += tensor.bytes;
      before = &tensor.name;
    }
    if (end != file_bytes_)
      fail("the tensors end at byte " + std::to_string(end) + ", the file has " + std::to_string(file_bytes_) +
           " bytes");
  }

  const std::string& path_;
  const int64_t data_begin_, file_bytes_;
};

}  // namespace

SafeTensorsHeader parse_safetensors_header(const std::string& path, std::string_view text, int64_t file_bytes) {
  if (text.empty() || text.front() != '{') throw FormatError(path + ": the header at byte 8 does not begin with '{'");
  Json root;
  try {
    root = Json::parse(text);
  } catch (const FormatError& e) {
    throw FormatError(path + ": the header at byte 8: " + e.what());
  }
  return HeaderParser(path, 8 + static_cast<int64_t>(text.size()), file_bytes).run(root);
}

const char* safetensors_name(DType dtype) {
  for (const Name& known : kNames)
    if (known.dtype == dtype) return known.text;
  return nullptr;
}

}  // namespace gpukit::io
