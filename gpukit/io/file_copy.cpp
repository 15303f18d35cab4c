#include "gpukit/io/file_copy.h"

#include <algorithm>
#include <mutex>

#include "gpukit/base/error.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/memory/hold.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/transfer_engine.h"

namespace gpukit::io {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;       // what one thread reads at once
constexpr int64_t kUncheckedBytes = int64_t{64} << 20;  // between looks for a signal

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

}  // namespace

void read_part(const files::ReadableFile& file, const std::string& what, int64_t offset, void* to, int64_t bytes) {
  FirstFault fault;
  parallel_for(bytes, kPieceBytes, [&](int64_t begin, int64_t end) {
    try {
      const auto wanted = static_cast<size_t>(end - begin);
      const size_t got = file.read_at(offset + begin, static_cast<char*>(to) + begin, wanted);
      if (got != wanted)
        throw FormatError(file.path() + ": " + what + ": the file has become shorter: it ends at byte " +
                          std::to_string(offset + begin + static_cast<int64_t>(got)));
    } catch (...) {
      fault.note(begin, std::current_exception());
    }
  });
  if (fault.error != nullptr) std::rethrow_exception(fault.error);
}

void read_in_place(const Array& array, const files::ReadableFile& file, const std::string& what, int64_t offset) {
  // Earlier work of the stream may still use the block that the array got.
  runtime::synchronize(*runtime::borrow_stream(array.device()), "load");
  const memory::Pin pin(array.storage());
  char* to = reinterpret_cast<char*>(pin.address()) + array.offset_bytes();
  for (int64_t at = 0; at < array.nbytes(); at += kUncheckedBytes) {
    runtime::check_interrupt();
    read_part(file, what, offset + at, to + at, std::min(kUncheckedBytes, array.nbytes() - at));
  }
}

void read_through_ring(const Array& array, const files::ReadableFile& file, const std::string& what, int64_t offset) {
  const auto stream = runtime::current_stream(array.device());
  runtime::PinnedRing& ring = runtime::transfer_engine(array.device()).ring();
  const auto chunk = static_cast<int64_t>(ring.chunk_bytes());
  for (int64_t at = 0; at < array.nbytes(); at += chunk) {
    runtime::check_interrupt();
    runtime::PinnedRing::Slot slot = ring.acquire(&runtime::check_interrupt);
    const int64_t bytes = std::min(chunk, array.nbytes() - at);
    read_part(file, what, offset + at, slot.data(), bytes);
    memory::Use part = write(array);
    part.offset_bytes += at;
    runtime::copy_from_host_async(part, slot.data(), static_cast<size_t>(bytes), stream);
    slot.mark(stream);
  }
}

void read_into(const Array& array, const files::ReadableFile& file, const std::string& what, int64_t offset) {
  runtime::refuse_in_capture("load", "reads a file once");
  if (array.nbytes() == 0) return;
  if (array.device().kind == DeviceKind::cpu)
    read_in_place(array, file, what, offset);
  else
    read_through_ring(array, file, what, offset);
}

}  // namespace gpukit::io
