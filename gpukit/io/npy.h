// NumPy's files: one array (.npy, versions 1 to 3) and archives of several (.npz).
//
// Reading is strict: sizes that disagree, headers that are no plain description of one array, broken archives and
// damaged members are FormatErrors that name the file. Nothing in a file is ever run: pickled (object), structured and
// text arrays are refused.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/array/array.h"

namespace gpukit::io {

/// Throws FileError, FormatError.
Array load_npy(const std::string& path, Device device);
/// The same from memory; `path` names it in errors.
Array parse_npy(const std::string& path, std::span<const std::byte> bytes, Device device);
/// Waits for an array of a GPU. All or nothing: a temporary file, then a rename. Throws FileError, DTypeError for what
/// NumPy has no name for (bfloat16, float8, packed).
void save_npy(const std::string& path, const Array& x);

/// An archive, its members read when asked for.
class NpzFile {
 public:
  /// Throws FileError, FormatError.
  static NpzFile open(const std::string& path);
  /// Names of the arrays, without ".npy", in the archive's order.
  const std::vector<std::string>& names() const;
  /// Throws NotFoundError, FormatError.
  Array load(const std::string& name, Device device) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// Stored, or with `packed` deflated. Throws as save_npy, and ArgumentError for a name given twice.
void save_npz(const std::string& path, std::span<const std::pair<std::string, Array>> arrays, bool packed = false);

/// Whether the file begins as a zip archive does.
bool is_archive(const std::string& path);

}  // namespace gpukit::io
