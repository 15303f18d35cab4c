// What is the same on every system; files_posix.cpp and files_windows.cpp have the rest.
#include "gpukit/base/files.h"

#include <chrono>
#include <utility>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"

namespace gpukit::files {

#ifdef _WIN32
constexpr char kSeparator = '\\';
#else
constexpr char kSeparator = '/';
#endif

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

ReadableFile::ReadableFile(ReadableFile&& other) noexcept
    : path_(std::move(other.path_)),
      handle_(std::exchange(other.handle_, -1)),
      size_(other.size_),
      modified_ns_(other.modified_ns_) {}

ReadableFile& ReadableFile::operator=(ReadableFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(handle_, other.handle_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(size_, other.size_);
  return *this;
}

std::string read_file(const std::string& path) {
  // Not mapped: where a mapped file is cut, reading ends the process.
  const ReadableFile file = ReadableFile::open(path);
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  const size_t got = file.read_at(0, bytes.data(), bytes.size());
  if (got != bytes.size())
    throw FormatError(path + ": the file has become shorter: it ends at byte " + std::to_string(got));
  return bytes;
}

std::string join(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/' && path.back() != kSeparator) path += kSeparator;
  return path.append(name);
}

std::optional<std::string> user_cache_folder() {
#ifdef _WIN32
  return env::get("LOCALAPPDATA");
#else
  // The base directory rules say that a relative path is to be ignored.
  if (auto base = env::get("XDG_CACHE_HOME"); base && base->front() == '/') return base;
  if (auto home = env::get("HOME")) return join(*home, ".cache");
  return std::nullopt;
#endif
}

int64_t monotonic_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t wall_clock_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace gpukit::files
