#include "gpukit/driver/page_file.h"

#if defined(_WIN32)

namespace gpukit::driver::host {

bool pages_supported() noexcept { return false; }
bool create_block(size_t, PageBlock*) noexcept { return false; }
void release_block(const PageBlock&) noexcept {}
void* reserve_addresses(size_t, size_t) noexcept { return nullptr; }
void release_addresses(void*, size_t) noexcept {}
bool show_block(void*, size_t, const PageBlock&, PageAccess) noexcept { return false; }
bool hide_block(void*, size_t) noexcept { return false; }
void leave_files() noexcept {}
bool copy_block(const PageBlock&, PageBlock*) noexcept { return false; }
void show_private(void*, size_t, const PageBlock&) noexcept {}
void forget_block(const PageBlock&) noexcept {}

}  // namespace gpukit::driver::host

#else

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

namespace gpukit::driver::host {

namespace {

#if defined(MAP_NORESERVE)
constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#else
constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS;
#endif

int protection(PageAccess access) {
  switch (access) {
    case PageAccess::none: return PROT_NONE;
    case PageAccess::read: return PROT_READ;
    case PageAccess::read_write: return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

#if defined(__linux__)

// One file for all blocks: descriptors are few. Offsets are never used twice; holes cost nothing.
constexpr int64_t kFileBytes = int64_t{1} << 60;
constexpr unsigned kCloseOnExec = 1, kPunch = 3;  // MFD_CLOEXEC; FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
int file = -1, left_file = -1;
int64_t next_offset = 0;

bool open_file() {
  if (file >= 0) return true;
  rlimit limit{};
  // A limit on file sizes would end the process by a signal.
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return false;
  file = static_cast<int>(syscall(SYS_memfd_create, "gpukit-pages", kCloseOnExec));
  next_offset = 0;
  if (file >= 0 && ftruncate(file, kFileBytes) != 0) {
    close(file);
    file = -1;
  }
  return file >= 0;
}

// The next part of the block that was ever written, from `*begin` on; false when there is none.
bool next_data(const PageBlock& block, size_t* begin, size_t* end) {
  off_t last = block.offset + static_cast<off_t>(block.bytes);
  off_t data = lseek(block.file, block.offset + static_cast<off_t>(*begin), SEEK_DATA);
  if (data < 0 || data >= last) return false;
  off_t hole = lseek(block.file, data, SEEK_HOLE);
  *begin = static_cast<size_t>(data - block.offset);
  *end = static_cast<size_t>((hole < 0 ? last : std::min(hole, last)) - block.offset);
  return true;
}

#else

bool open_file() {
  PageBlock block;
  static const bool works = create_block(kPageBytes, &block) && (release_block(block), true);
  return works;
}

bool next_data(const PageBlock& block, size_t* begin, size_t* end) {
  *end = block.bytes;
  return *begin < block.bytes;
}

#endif

}  // namespace

bool pages_supported() noexcept {
  static const bool works = open_file();
  return works;
}

#if defined(__linux__)

bool create_block(size_t bytes, PageBlock* block) noexcept {
  if (!open_file() || bytes > static_cast<size_t>(kFileBytes - next_offset)) return false;
  *block = {file, next_offset, bytes};
  next_offset += static_cast<int64_t>(bytes);
  return true;
}

void release_block(const PageBlock& block) noexcept {
  if (block.file >= 0) fallocate(block.file, kPunch, block.offset, static_cast<off_t>(block.bytes));
}

void leave_files() noexcept {
  left_file = file;
  file = -1;
}

// All blocks are in the one file.
void forget_block(const PageBlock& block) noexcept {
  if (block.file < 0 || block.file != left_file) return;
  close(left_file);
  left_file = -1;
}

#else

// One file for each block: nothing portable gives back a part of one.
bool create_block(size_t bytes, PageBlock* block) noexcept {
  static unsigned number = 0;
  char name[64];
  std::snprintf(name, sizeof name, "/gpukit-%ld-%u", static_cast<long>(getpid()), ++number);
  int made = shm_open(name, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
  if (made < 0) return false;
  shm_unlink(name);
  if (ftruncate(made, static_cast<off_t>(bytes)) != 0) {
    close(made);
    return false;
  }
  *block = {made, 0, bytes};
  return true;
}

void release_block(const PageBlock& block) noexcept {
  if (block.file >= 0) close(block.file);
}

void leave_files() noexcept {}
void forget_block(const PageBlock& block) noexcept { release_block(block); }

#endif

void* reserve_addresses(size_t bytes, size_t alignment) noexcept {
  if (bytes > SIZE_MAX - alignment) return nullptr;
  size_t asked = bytes + alignment;
  void* got = mmap(nullptr, asked, PROT_NONE, kReserve, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  auto first = reinterpret_cast<uintptr_t>(got);
  uintptr_t start = (first + alignment - 1) & ~(static_cast<uintptr_t>(alignment) - 1);
  if (start != first) munmap(got, start - first);
  if (first + asked != start + bytes) munmap(reinterpret_cast<void*>(start + bytes), first + asked - start - bytes);
  return reinterpret_cast<void*>(start);
}

void release_addresses(void* address, size_t bytes) noexcept { munmap(address, bytes); }

bool show_block(void* address, size_t bytes, const PageBlock& block, PageAccess access) noexcept {
  return mmap(address, bytes, protection(access), MAP_SHARED | MAP_FIXED, block.file, block.offset) != MAP_FAILED;
}

bool hide_block(void* address, size_t bytes) noexcept {
  return mmap(address, bytes, PROT_NONE, kReserve | MAP_FIXED, -1, 0) != MAP_FAILED;
}

bool copy_block(const PageBlock& from, PageBlock* to) noexcept {
  if (!create_block(from.bytes, to)) return false;
  void* source = mmap(nullptr, from.bytes, PROT_READ, MAP_SHARED, from.file, from.offset);
  void* copy = mmap(nullptr, to->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, to->file, to->offset);
  bool right = source != MAP_FAILED && copy != MAP_FAILED;
  size_t end = 0;
  for (size_t begin = 0; right && next_data(from, &begin, &end); begin = end) {
    std::memcpy(static_cast<char*>(copy) + begin, static_cast<const char*>(source) + begin, end - begin);
  }
  if (source != MAP_FAILED) munmap(source, from.bytes);
  if (copy != MAP_FAILED) munmap(copy, to->bytes);
  if (!right) release_block(*to);
  return right;
}

void show_private(void* address, size_t bytes, const PageBlock& block) noexcept {
  mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, block.file, block.offset);
}

}  // namespace gpukit::driver::host

#endif
