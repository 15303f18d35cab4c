#include "gpukit/io/file_copy.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/hold.h"
#include "gpukit/memory/mover.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::io {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;      // what one thread reads at once
constexpr size_t kUncheckedBytes = size_t{256} << 20;  // between looks for a signal

/// What went wrong at the lowest offset.
struct FirstFault {
  std::mutex mutex;
  int64_t at = INT64_MAX;
  std::exception_ptr error;

  void note(int64_t offset, std::exception_ptr what) {
    std::lock_guard lock(mutex);
    if (offset >= at) return;
    at = offset;
    error = std::move(what);
  }
};

/// A run of bytes of a file.
class FileRun final : public memory::ByteSource {
 public:
  explicit FileRun(const FilePart& part) : part_(part), parts_{{0, static_cast<size_t>(part.array.nbytes()), false}} {}
  const std::vector<Part>& parts() const override { return parts_; }
  void read(size_t offset, void* to, size_t bytes) override {
    read_run(*part_.file, part_.what, part_.offset + static_cast<int64_t>(offset), to, static_cast<int64_t>(bytes));
  }

 private:
  const FilePart& part_;
  const std::vector<Part> parts_;
};

}  // namespace

void read_run(const files::ReadableFile& file, const std::string& what, int64_t offset, void* to, int64_t bytes) {
  size_t got = 0;
  try {
    got = file.read_at(offset, to, static_cast<size_t>(bytes));
  } catch (const FileError& error) {
    throw FileError(
        file.path(), error.error_number,
        "cannot read " + what + " (" + std::to_string(bytes) + " bytes at " + std::to_string(offset) + ") of");
  }
  if (static_cast<int64_t>(got) != bytes)
    throw FormatError(file.path() + ": " + what + ": the file has become shorter: it ends at byte " +
                      std::to_string(offset + static_cast<int64_t>(got)));
}

void read_part(const files::ReadableFile& file, const std::string& what, int64_t offset, void* to, int64_t bytes) {
  FirstFault fault;
  parallel_for(bytes, kPieceBytes, [&](int64_t begin, int64_t end) {
    try {
      read_run(file, what, offset + begin, static_cast<char*>(to) + begin, end - begin);
    } catch (...) {
      fault.note(begin, std::current_exception());
    }
  });
  if (fault.error != nullptr) std::rethrow_exception(fault.error);
}

void read_into(std::span<const FilePart> parts) {
  runtime::refuse_in_capture("load", "reads a file once");
  if (parts.empty()) return;
  driver::Context& context = parts.front().array.context();
  // Earlier work of the stream may still use the blocks that the arrays got.
  runtime::synchronize(*runtime::borrow_stream(context.device()), "load");
  std::vector<memory::Move> moves;
  size_t bytes = 0;
  const auto flush = [&] {
    runtime::check_interrupt();
    memory::mover().to_device(context, moves);
    moves.clear();
    bytes = 0;
  };
  std::deque<FileRun> runs;  // stay where they are
  std::vector<memory::Pin> pins;
  for (const FilePart& part : parts) {
    const auto size = static_cast<size_t>(part.array.nbytes());
    runs.emplace_back(part);
    pins.emplace_back(part.array.storage());
    const auto to = pins.back().address() + static_cast<driver::Address>(part.array.offset_bytes());
    for (size_t at = 0; at < size;) {
      const size_t step = std::min(size - at, kUncheckedBytes - bytes);
      moves.push_back({to + at, nullptr, step, &runs.back(), at});
      at += step;
      bytes += step;
      if (bytes == kUncheckedBytes) flush();
    }
  }
  if (!moves.empty()) flush();
}

}  // namespace gpukit::io
