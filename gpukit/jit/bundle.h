// The kernels a wheel carries: entries in the cache's own format, found by key, packed in blocks. Made when the wheel
// is built, read-only afterwards.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/base/files.h"
#include "gpukit/jit/compiler.h"

namespace gpukit::jit {

class Bundle {
 public:
  /// Checks the header and the index. Throws FileError, FormatError.
  static std::unique_ptr<Bundle> open(const std::string& path);

  /// The compiler that made every entry: part of their keys.
  CompilerVersion compiler() const { return compiler_; }
  /// Targets it holds: `sm_80`, `sm_90a`, `compute_80`, ...
  const std::vector<std::string>& archs() const { return archs_; }
  size_t size() const { return count_; }
  size_t bytes() const { return file_.size(); }
  const std::string& path() const { return path_; }
  /// Whether there is an entry, whole or damaged.
  bool has(const Key& key) const { return row_of(key).has_value(); }
  /// nullopt when there is no entry, or a damaged one.
  std::optional<Image> find(const Key& key) const;
  /// The entry of `request` for its arch, with the bundle's own compiler in the key.
  std::optional<Image> find(const CompileRequest& request) const { return find(key_of(request, compiler_)); }

 private:
  Bundle() = default;
  std::string path_;
  files::Mapping file_;
  CompilerVersion compiler_;
  std::vector<std::string> archs_;
  /// The row of the index.
  std::optional<std::string_view> row_of(const Key& key) const;
  /// A block as it lies in the file, or unpacked: the last such one is kept at hand. nullopt when it is damaged.
  std::optional<std::string_view> block(size_t number, std::shared_ptr<const std::string>* unpacked) const;

  size_t count_ = 0, num_blocks_ = 0;
  size_t blocks_offset_ = 0, index_offset_ = 0, data_offset_ = 0;
  mutable std::mutex mutex_;
  mutable size_t last_number_ = 0;
  mutable std::shared_ptr<const std::string> last_block_;
};

struct BundleEntry {
  Key key;
  std::string group;   // entries of one group resemble each other and share blocks
  std::string bytes;   // encode(key, image)
  bool alone = false;  // in a block of its own, not packed: a first use waits for nothing. Wheels are packed anyway
};

/// Writes a bundle in one step, the same bytes for the same entries in any order.
void write_bundle(const std::string& path, CompilerVersion compiler, const std::vector<std::string>& archs,
                  std::vector<BundleEntry> entries);

/// The process's bundle, or null. Looked for once: the path set here.
const Bundle* bundle();
/// Why there is none; empty when there is one.
std::string bundle_reason();
/// Where the wheel's bundle lies. Called by the Python package; takes effect until the first kernel is asked for.
void set_bundle_path(const std::string& path);

}  // namespace gpukit::jit
