// Files and process facts on Windows. Folders under %LOCALAPPDATA% belong to their user by the system's own rules.
#ifdef _WIN32

#ifndef NOMINMAX
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"

namespace gpukit::files {
namespace {

std::wstring widen(const std::string& text) {
  const int length = MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0);
  std::wstring wide(static_cast<size_t>(length), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), wide.data(), length);
  return wide;
}

std::string narrow(const wchar_t* text) {
  const int length = WideCharToMultiByte(CP_UTF8, 0, text, -1, nullptr, 0, nullptr, nullptr);
  std::string out(static_cast<size_t>(std::max(length, 1)), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text, -1, out.data(), length, nullptr, nullptr);
  out.pop_back();
  return out;
}

int last_errno() {
  switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND: return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION: return EACCES;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: return EEXIST;
    case ERROR_DISK_FULL: return ENOSPC;
    default: return EIO;
  }
}

class Handle {
 public:
  explicit Handle(HANDLE handle) : handle_(handle) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (valid()) CloseHandle(handle_);
  }
  HANDLE get() const { return handle_; }
  bool valid() const { return handle_ != INVALID_HANDLE_VALUE && handle_ != nullptr; }

 private:
  HANDLE handle_;
};

DWORD attributes(const std::string& path) { return GetFileAttributesW(widen(path).c_str()); }

int64_t unix_ns(const FILETIME& time) {
  const uint64_t ticks = static_cast<uint64_t>(time.dwHighDateTime) << 32 | time.dwLowDateTime;
  return (static_cast<int64_t>(ticks) - 116444736000000000) * 100;
}

bool is_component(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of("/\\:") == std::string::npos;
}

HANDLE open_plain(const std::string& path, DWORD access) {
  return CreateFileW(widen(path).c_str(), access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                     OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, nullptr);
}

}  // namespace

Mapping Mapping::open(const std::string& path) {
  Handle file(CreateFileW(widen(path).c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr,
                          OPEN_EXISTING, 0, nullptr));
  LARGE_INTEGER size;
  if (!file.valid() || !GetFileSizeEx(file.get(), &size)) throw FileError(path, last_errno(), "cannot open");
  Mapping mapping;
  if (size.QuadPart == 0) return mapping;
  Handle section(CreateFileMappingW(file.get(), nullptr, PAGE_READONLY, 0, 0, nullptr));
  void* data = section.valid() ? MapViewOfFile(section.get(), FILE_MAP_READ, 0, 0, 0) : nullptr;
  if (data == nullptr) throw FileError(path, last_errno(), "cannot map");
  mapping.data_ = static_cast<const std::byte*>(data);
  mapping.size_ = static_cast<size_t>(size.QuadPart);
  return mapping;
}

Mapping::~Mapping() {
  if (data_ != nullptr) UnmapViewOfFile(data_);
}

namespace {

/// 0 where it is not known.
int64_t modified_ns(HANDLE file) {
  FILETIME time;
  if (!GetFileTime(file, nullptr, nullptr, &time)) return 0;
  return ((int64_t{time.dwHighDateTime} << 32) | time.dwLowDateTime) * 100;
}

}  // namespace

ReadableFile ReadableFile::open(const std::string& path) {
  if (is_folder(path)) throw FileError(path, EISDIR, "not a plain file:");
  const HANDLE handle = CreateFileW(widen(path).c_str(), GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, nullptr,
                                    OPEN_EXISTING, 0, nullptr);
  if (handle == INVALID_HANDLE_VALUE) throw FileError(path, last_errno(), "cannot open");
  ReadableFile file(path, reinterpret_cast<intptr_t>(handle));
  LARGE_INTEGER size;
  if (GetFileType(handle) != FILE_TYPE_DISK || !GetFileSizeEx(handle, &size))
    throw FileError(path, EINVAL, "not a plain file:");
  file.size_ = size.QuadPart;
  file.modified_ns_ = modified_ns(handle);
  return file;
}

bool ReadableFile::unchanged() const {
  const auto handle = reinterpret_cast<HANDLE>(handle_);
  LARGE_INTEGER size;
  if (!GetFileSizeEx(handle, &size)) throw FileError(path_, last_errno(), "cannot read");
  return size.QuadPart == size_ && modified_ns(handle) == modified_ns_;
}

ReadableFile::~ReadableFile() {
  if (handle_ != -1) CloseHandle(reinterpret_cast<HANDLE>(handle_));
}

size_t ReadableFile::read_at(int64_t offset, void* to, size_t bytes) const {
  constexpr size_t kMost = size_t{1} << 30;  // of one call of the system
  size_t done = 0;
  while (done < bytes) {
    const uint64_t at = static_cast<uint64_t>(offset) + done;
    OVERLAPPED place = {};
    place.Offset = static_cast<DWORD>(at);
    place.OffsetHigh = static_cast<DWORD>(at >> 32);
    DWORD n = 0;
    if (!ReadFile(reinterpret_cast<HANDLE>(handle_), static_cast<char*>(to) + done,
                  static_cast<DWORD>(std::min(bytes - done, kMost)), &n, &place) &&
        GetLastError() != ERROR_HANDLE_EOF)
      throw FileError(path_, last_errno(), "cannot read");
    if (n == 0) break;
    done += n;
  }
  return done;
}

struct PrivateFolder::State {
  std::string path;
};

PrivateFolder::PrivateFolder(std::unique_ptr<State> state) : state_(std::move(state)) {}
PrivateFolder::PrivateFolder(PrivateFolder&&) noexcept = default;
PrivateFolder& PrivateFolder::operator=(PrivateFolder&&) noexcept = default;
PrivateFolder::~PrivateFolder() = default;

const std::string& PrivateFolder::path() const { return state_->path; }

PrivateFolder PrivateFolder::open(const std::string& path) {
  for (size_t at = path.find_first_of("/\\", 3); at != std::string::npos; at = path.find_first_of("/\\", at + 1))
    make_folder(path.substr(0, at));
  make_folder(path);
  if ((attributes(path) & FILE_ATTRIBUTE_REPARSE_POINT) != 0) throw FileError(path, EACCES, "folder is a link:");
  return PrivateFolder(std::unique_ptr<State>(new State{path}));
}

std::optional<std::string> PrivateFolder::read(const std::string& name, size_t max_bytes) const {
  if (!is_component(name)) return std::nullopt;
  Handle file(open_plain(join(state_->path, name), GENERIC_READ));
  BY_HANDLE_FILE_INFORMATION info;
  if (!file.valid() || !GetFileInformationByHandle(file.get(), &info)) return std::nullopt;
  if ((info.dwFileAttributes & (FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DIRECTORY)) != 0) return std::nullopt;
  const uint64_t size = static_cast<uint64_t>(info.nFileSizeHigh) << 32 | info.nFileSizeLow;
  if (size > max_bytes || size > MAXDWORD) return std::nullopt;
  std::string bytes(static_cast<size_t>(size), '\0');
  DWORD done = 0;
  if (!ReadFile(file.get(), bytes.data(), static_cast<DWORD>(size), &done, nullptr) || done != size)
    return std::nullopt;
  return bytes;
}

void PrivateFolder::write(const std::string& name, std::string_view bytes) const {
  if (!is_component(name)) throw ArgumentError("files", "name", "be one path component", "'" + name + "'");
  write_file(join(state_->path, name), bytes);
}

std::vector<Entry> PrivateFolder::list() const { return list_folder(state_->path); }

bool PrivateFolder::remove(const std::string& name) const noexcept {
  try {
    return is_component(name) && DeleteFileW(widen(join(state_->path, name)).c_str()) != 0;
  } catch (...) {
    return false;
  }
}

void PrivateFolder::touch(const std::string& name) const noexcept {
  try {
    Handle file(open_plain(join(state_->path, name), FILE_WRITE_ATTRIBUTES));
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    if (file.valid()) SetFileTime(file.get(), nullptr, nullptr, &now);
  } catch (...) {
  }
}

void write_file(const std::string& path, std::string_view bytes) {
  static std::atomic<uint64_t> count{0};
  const std::string temporary =
      path + "." + std::to_string(GetCurrentProcessId()) + "." + std::to_string(count.fetch_add(1)) + ".tmp";
  bool good;
  {
    Handle file(CreateFileW(widen(temporary).c_str(), GENERIC_WRITE, 0, nullptr, CREATE_NEW, 0, nullptr));
    if (!file.valid()) throw FileError(path, last_errno(), "cannot create");
    DWORD done = 0;
    good = bytes.size() <= MAXDWORD &&
           WriteFile(file.get(), bytes.data(), static_cast<DWORD>(bytes.size()), &done, nullptr) &&
           done == bytes.size();
  }
  good = good && MoveFileExW(widen(temporary).c_str(), widen(path).c_str(), MOVEFILE_REPLACE_EXISTING);
  if (good) return;
  const int error = last_errno();
  DeleteFileW(widen(temporary).c_str());
  throw FileError(path, error, "cannot write");
}

std::vector<Entry> list_folder(const std::string& path) {
  WIN32_FIND_DATAW item;
  HANDLE search = FindFirstFileW(widen(join(path, "*")).c_str(), &item);
  if (search == INVALID_HANDLE_VALUE) throw FileError(path, last_errno(), "cannot list");
  std::vector<Entry> entries;
  do {
    const std::string name = narrow(item.cFileName);
    if (name == "." || name == "..") continue;
    const bool regular = (item.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)) == 0;
    const int64_t size = static_cast<int64_t>(item.nFileSizeHigh) << 32 | item.nFileSizeLow;
    entries.push_back({name, size, unix_ns(item.ftLastWriteTime), regular, true});
  } while (FindNextFileW(search, &item));
  FindClose(search);
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

bool is_file(const std::string& path) noexcept {
  const DWORD found = attributes(path);
  return found != INVALID_FILE_ATTRIBUTES && (found & FILE_ATTRIBUTE_DIRECTORY) == 0;
}

bool is_folder(const std::string& path) noexcept {
  const DWORD found = attributes(path);
  return found != INVALID_FILE_ATTRIBUTES && (found & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

void make_folder(const std::string& path) {
  if (!CreateDirectoryW(widen(path).c_str(), nullptr) && !is_folder(path))
    throw FileError(path, last_errno(), "cannot make folder");
}

size_t page_size() noexcept {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}

int64_t process_id() noexcept { return static_cast<int64_t>(GetCurrentProcessId()); }

/// Windows has no fork.
uint64_t fork_generation() noexcept { return 0; }

int available_cpus() noexcept { return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1); }

void host_memory(int64_t* free_bytes, int64_t* total_bytes) noexcept {
  MEMORYSTATUSEX status = {};
  status.dwLength = sizeof(status);
  const bool good = GlobalMemoryStatusEx(&status) != 0;
  *free_bytes = good ? static_cast<int64_t>(status.ullAvailPhys) : 0;
  *total_bytes = good ? static_cast<int64_t>(status.ullTotalPhys) : 0;
}

}  // namespace gpukit::files

#endif
