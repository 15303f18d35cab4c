// SafeTensors: tensors by name, from one file or from several with an index. Read-only; strict.
//
// Nothing is mapped: bytes are read when they are asked for, so that a file that becomes shorter meanwhile gives an
// error and never a fault. Files are expected to stay as they are while they are open.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/array/array.h"
#include "gpukit/io/safetensors_header.h"

namespace gpukit::io {

/// A handle; copies share the open files. Any thread may use it.
class TensorFile {
 public:
  /// A .safetensors file; an index (.json) of several; a folder that holds one of either; the name of a model in the
  /// Hugging Face cache of this disk (see find_model). The files behind an index are opened when a tensor of theirs is
  /// asked for. Throws FileError, FormatError.
  static TensorFile open(const std::string& path);

  /// Of the file or the index.
  const std::string& path() const;
  bool is_sharded() const;
  /// As their bytes follow each other, or as the index lists them.
  const std::vector<std::string>& names() const;
  bool contains(std::string_view name) const;
  /// Throws NotFoundError; FileError and FormatError where a file behind an index is opened for it.
  const TensorInfo& info(std::string_view name) const;
  /// What was written beside the tensors; empty for an index.
  const TextPairs& metadata() const;
  /// Bytes of the file; of the files opened so far behind an index.
  int64_t file_bytes() const;

  /// A copy of the tensor's bytes. Throws as info does, and FormatError when the file has become shorter.
  std::vector<std::byte> bytes(std::string_view name) const;
  /// The same at an address that stays for the life of the handle and its copies: read once, and kept.
  std::span<const std::byte> kept_bytes(std::string_view name) const;
  /// The tensor on a device, row-major, cast when asked. Throws as bytes does, OutOfMemoryError, and inside a capture.
  Array load(std::string_view name, Device device, std::optional<DType> cast = std::nullopt) const;
  /// Several at once, as they are: faster than one after the other.
  std::vector<Array> load(std::span<const std::string> names, Device device) const;
  /// Part of the tensor's bytes, for memory that may change a file's life: throws FileError where the file is not as it
  /// was when it was opened, and as bytes does.
  void read_again(std::string_view name, int64_t offset, void* to, int64_t bytes) const;

 private:
  struct State;
  explicit TensorFile(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Writes arrays, waiting for those of a GPU. All or nothing: a temporary file, then a rename. Tensors of wide elements
/// come first, then by name, so that each is aligned. Throws FileError; ArgumentError for a name used twice and for
/// __metadata__; DTypeError for a dtype that the format does not have.
void save_safetensors(const std::string& path, std::span<const std::pair<std::string, Array>> tensors,
                      const TextPairs& metadata = {});

}  // namespace gpukit::io
