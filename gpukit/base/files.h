// Files and process facts: with driver/, the only place of the library that makes system calls.
// Paths are UTF-8. Functions throw FileError unless they say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpukit::files {

/// A file mapped read-only, for those that nobody changes: where one is cut, reading it ends the process. Empty files
/// give size 0 and a null pointer.
class Mapping {
 public:
  static Mapping open(const std::string& path);
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A plain file held open for reading at any place, from any thread. Links are followed.
class ReadableFile {
 public:
  /// Throws FileError, for what is not a plain file too.
  static ReadableFile open(const std::string& path);
  ReadableFile(ReadableFile&& other) noexcept;
  ReadableFile& operator=(ReadableFile&& other) noexcept;
  ~ReadableFile();
  const std::string& path() const { return path_; }
  /// When it was opened.
  int64_t size() const { return size_; }
  /// Whether size and time of change are those of the opening. Another file of the same name is not this one.
  bool unchanged() const;
  /// Reads up to `bytes` at `offset`; fewer only where the file ends.
  size_t read_at(int64_t offset, void* to, size_t bytes) const;

 private:
  ReadableFile(std::string path, intptr_t handle) : path_(std::move(path)), handle_(handle) {}
  std::string path_;
  intptr_t handle_;  // -1: moved from
  int64_t size_ = 0, modified_ns_ = 0;
};

struct Entry {
  std::string name;
  int64_t size = 0;
  int64_t modified_ns = 0;  // since 1970
  bool regular = false;     // a plain file: no link, no folder
  bool owned = false;       // by this user
};

/// A folder that only this user can change, held open. Names are single components; links are never followed.
/// Other processes may use the folder at the same time.
class PrivateFolder {
 public:
  /// Opens the folder, making it (0700) and its parents when missing. Throws FileError when it is a link, not a folder,
  /// of another owner, or writable by others.
  static PrivateFolder open(const std::string& path);
  PrivateFolder(PrivateFolder&&) noexcept;
  PrivateFolder& operator=(PrivateFolder&&) noexcept;
  ~PrivateFolder();

  const std::string& path() const;
  /// The whole file; nullopt when it is missing, not a plain file, of another owner, or longer than `max_bytes`.
  std::optional<std::string> read(const std::string& name, size_t max_bytes) const;
  /// All or nothing: a temporary file, then a rename over `name`.
  void write(const std::string& name, std::string_view bytes) const;
  std::vector<Entry> list() const;
  /// False when there was nothing to remove or it could not be removed.
  bool remove(const std::string& name) const noexcept;
  /// Sets the modification time to now, for least-recently-used trimming. Failure is ignored.
  void touch(const std::string& name) const noexcept;

 private:
  struct State;
  explicit PrivateFolder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Throws FormatError when the file becomes shorter meanwhile.
std::string read_file(const std::string& path);
/// All or nothing: a temporary file beside it, then a rename.
void write_file(const std::string& path, std::string_view bytes);
/// Entries without `.` and `..`, sorted by name.
std::vector<Entry> list_folder(const std::string& path);
bool is_file(const std::string& path) noexcept;    // follows links
bool is_folder(const std::string& path) noexcept;  // follows links
/// One folder, mode 0700; fine when it exists.
void make_folder(const std::string& path);
/// Joins with the system's separator.
std::string join(std::string_view folder, std::string_view name);
/// $XDG_CACHE_HOME or ~/.cache (%LOCALAPPDATA% on Windows); nullopt when neither is known.
std::optional<std::string> user_cache_folder();
/// Bytes of one page of memory.
size_t page_size() noexcept;

int64_t monotonic_ns() noexcept;
int64_t wall_clock_ns() noexcept;
int64_t process_id() noexcept;
/// 0 in the process that loaded the library, one more in each forked child.
uint64_t fork_generation() noexcept;
/// CPUs this process may run on.
int available_cpus() noexcept;
/// Total and free bytes of main memory; 0 when unknown.
void host_memory(int64_t* free_bytes, int64_t* total_bytes) noexcept;

}  // namespace gpukit::files
