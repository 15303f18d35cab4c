// Files and process facts on Linux and macOS.
#ifndef _WIN32

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/fork.h"

namespace gpukit::files {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

int open_retry(int folder, const char* path, int flags, mode_t mode = 0) {
  int fd;
  do fd = ::openat(folder, path, flags | O_CLOEXEC, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

bool read_all(int fd, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::read(fd, to, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

bool write_all(int fd, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    from += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

/// Different for every writer on the machine, and for forked children.
std::string temporary_name(const std::string& name) {
  static std::atomic<uint64_t> count{0};
  return "." + name + "." + std::to_string(::getpid()) + "." + std::to_string(count.fetch_add(1)) + "." +
         std::to_string(monotonic_ns()) + ".tmp";
}

void write_at(int folder, const std::string& shown_path, const std::string& name, std::string_view bytes, mode_t mode) {
  const std::string temporary = temporary_name(name);
  int error = 0;
  {
    Descriptor file(open_retry(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
    if (!file.valid()) throw FileError(shown_path, errno, "cannot create");
    if (!write_all(file.get(), bytes.data(), bytes.size())) error = errno;
  }
  if (error == 0 && ::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlinkat(folder, temporary.c_str(), 0);
    throw FileError(shown_path, error, "cannot write");
  }
}

int64_t modified_ns(const struct stat& info) {
#ifdef __APPLE__
  return int64_t{info.st_mtimespec.tv_sec} * 1000000000 + info.st_mtimespec.tv_nsec;
#else
  return int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec;
#endif
}

/// Takes the descriptor.
std::vector<Entry> list_at(int fd, const std::string& shown_path) {
  DIR* folder = ::fdopendir(fd);
  if (folder == nullptr) {
    const int error = errno;
    ::close(fd);
    throw FileError(shown_path, error, "cannot list");
  }
  std::vector<Entry> entries;
  while (const dirent* item = ::readdir(folder)) {
    const std::string name = item->d_name;
    struct stat info;
    if (name == "." || name == ".." || ::fstatat(::dirfd(folder), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    entries.push_back({name, info.st_size, modified_ns(info), S_ISREG(info.st_mode), info.st_uid == ::geteuid()});
  }
  ::closedir(folder);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

/// Parents are made for the user alone too; an existing one is left as it is.
void make_parents(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST && !is_folder(parent))
      throw FileError(parent, errno, "cannot make folder");
  }
}

bool is_component(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

void check_component(const std::string& name) {
  if (!is_component(name)) throw ArgumentError("files", "name", "be one path component", "'" + name + "'");
}

std::atomic<uint64_t> g_generation{0};
[[maybe_unused]] const bool g_counts_forks =
    at_fork(ForkOrder::leaf, nullptr, nullptr, [] { g_generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

Mapping Mapping::open(const std::string& path) {
  Descriptor file(open_retry(AT_FDCWD, path.c_str(), O_RDONLY));
  struct stat info;
  if (!file.valid() || ::fstat(file.get(), &info) != 0) throw FileError(path, errno, "cannot open");
  if (!S_ISREG(info.st_mode)) throw FileError(path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL, "cannot map");
  Mapping mapping;
  if (info.st_size == 0) return mapping;
  void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) throw FileError(path, errno, "cannot map");
  mapping.data_ = static_cast<const std::byte*>(data);
  mapping.size_ = static_cast<size_t>(info.st_size);
  return mapping;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

ReadableFile ReadableFile::open(const std::string& path) {
  // Non-blocking: the open of a pipe would wait for a writer.
  const int fd = open_retry(AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK);
  if (fd < 0) throw FileError(path, errno, "cannot open");
  ReadableFile file(path, fd);
  struct stat info;
  if (::fstat(fd, &info) != 0) throw FileError(path, errno, "cannot open");
  if (!S_ISREG(info.st_mode)) throw FileError(path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL, "not a plain file:");
  file.size_ = info.st_size;
  file.modified_ns_ = modified_ns(info);
  return file;
}

bool ReadableFile::unchanged() const {
  struct stat info;
  if (::fstat(static_cast<int>(handle_), &info) != 0) throw FileError(path_, errno, "cannot read");
  return info.st_size == size_ && modified_ns(info) == modified_ns_;
}

ReadableFile::~ReadableFile() {
  if (handle_ >= 0) ::close(static_cast<int>(handle_));
}

size_t ReadableFile::read_at(int64_t offset, void* to, size_t bytes) const {
  constexpr size_t kMost = size_t{1} << 30;  // of one call of the system
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::pread(static_cast<int>(handle_), static_cast<char*>(to) + done, std::min(bytes - done, kMost),
                              offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError(path_, errno, "cannot read");
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

struct PrivateFolder::State {
  std::string path;
  Descriptor folder;
};

PrivateFolder::PrivateFolder(std::unique_ptr<State> state) : state_(std::move(state)) {}
PrivateFolder::PrivateFolder(PrivateFolder&&) noexcept = default;
PrivateFolder& PrivateFolder::operator=(PrivateFolder&&) noexcept = default;
PrivateFolder::~PrivateFolder() = default;

const std::string& PrivateFolder::path() const { return state_->path; }

PrivateFolder PrivateFolder::open(const std::string& path) {
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  make_parents(clean);
  if (::mkdir(clean.c_str(), 0700) != 0 && errno != EEXIST) throw FileError(clean, errno, "cannot make folder");
  Descriptor folder(open_retry(AT_FDCWD, clean.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  struct stat info;
  if (!folder.valid() || ::fstat(folder.get(), &info) != 0) throw FileError(clean, errno, "cannot open folder");
  if (info.st_uid != ::geteuid()) throw FileError(clean, EACCES, "not this user's folder");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) throw FileError(clean, EACCES, "others may write to folder");
  return PrivateFolder(std::unique_ptr<State>(new State{std::move(clean), std::move(folder)}));
}

std::optional<std::string> PrivateFolder::read(const std::string& name, size_t max_bytes) const {
  if (!is_component(name)) return std::nullopt;
  // Non-blocking: a pipe put there by someone must not hang the open.
  Descriptor file(open_retry(state_->folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!file.valid() || ::fstat(file.get(), &info) != 0) return std::nullopt;
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return std::nullopt;
  if (info.st_size < 0 || static_cast<uint64_t>(info.st_size) > max_bytes) return std::nullopt;
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  if (!read_all(file.get(), bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

void PrivateFolder::write(const std::string& name, std::string_view bytes) const {
  check_component(name);
  write_at(state_->folder.get(), join(state_->path, name), name, bytes, 0600);
}

std::vector<Entry> PrivateFolder::list() const {
  const int fd = open_retry(state_->folder.get(), ".", O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw FileError(state_->path, errno, "cannot list");
  return list_at(fd, state_->path);
}

bool PrivateFolder::remove(const std::string& name) const noexcept {
  return is_component(name) && ::unlinkat(state_->folder.get(), name.c_str(), 0) == 0;
}

void PrivateFolder::touch(const std::string& name) const noexcept {
  if (is_component(name)) ::utimensat(state_->folder.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

void write_file(const std::string& path, std::string_view bytes) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (!is_component(name)) throw FileError(path, EINVAL, "cannot write");
  Descriptor parent(open_retry(AT_FDCWD, folder.c_str(), O_RDONLY | O_DIRECTORY));
  if (!parent.valid()) throw FileError(folder, errno, "cannot open folder");
  write_at(parent.get(), path, name, bytes, 0644);
}

std::vector<Entry> list_folder(const std::string& path) {
  const int fd = open_retry(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw FileError(path, errno, "cannot list");
  return list_at(fd, path);
}

bool is_file(const std::string& path) noexcept {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_folder(const std::string& path) noexcept {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && !(errno == EEXIST && is_folder(path)))
    throw FileError(path, errno, "cannot make folder");
}

size_t page_size() noexcept { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

int64_t process_id() noexcept { return ::getpid(); }

uint64_t fork_generation() noexcept { return g_generation.load(std::memory_order_relaxed); }

int available_cpus() noexcept {
#ifdef __linux__
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(CPU_COUNT(&set), 1);
#endif
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

void host_memory(int64_t* free_bytes, int64_t* total_bytes) noexcept {
  const int64_t page = static_cast<int64_t>(page_size());
  *total_bytes = std::max<int64_t>(::sysconf(_SC_PHYS_PAGES), 0) * page;
#ifdef _SC_AVPHYS_PAGES
  *free_bytes = std::max<int64_t>(::sysconf(_SC_AVPHYS_PAGES), 0) * page;
#else
  *free_bytes = 0;
#endif
}

}  // namespace gpukit::files

#endif
