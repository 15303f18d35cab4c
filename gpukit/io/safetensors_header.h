// The header of a SafeTensors file: which tensors lie where. Text in, table out; nothing is read here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpukit/base/dims.h"
#include "gpukit/base/dtype.h"

namespace gpukit::io {

/// Bytes of a header at most.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

struct TensorInfo {
  std::string name;
  DType dtype = DType::float32;
  Dims shape;
  int64_t offset = 0;  // of its first byte in the file
  int64_t bytes = 0;
};

using TextPairs = std::vector<std::pair<std::string, std::string>>;

struct SafeTensorsHeader {
  std::vector<TensorInfo> tensors;  // as their bytes follow each other
  TextPairs metadata;
};

/// `text`: the header, which begins at byte 8 of the file `path` of `file_bytes` bytes. Strict: the tensors cover all
/// that follows without holes and overlaps, and each has the bytes of its shape and dtype. Throws FormatError naming
/// the file, the tensor and the offset.
SafeTensorsHeader parse_safetensors_header(const std::string& path, std::string_view text, int64_t file_bytes);

/// `F32`; null for a dtype the format does not have.
const char* safetensors_name(DType dtype);

}  // namespace gpukit::io
