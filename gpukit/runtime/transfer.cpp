#include "gpukit/runtime/transfer.h"

#include <atomic>

#include "gpukit/memory/fence.h"
#include "gpukit/memory/hold.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/tracing.h"
#include "gpukit/runtime/transfer_engine.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::runtime {

namespace {

driver::Address address_of(const memory::Use& use) {
  return (*use.storage)->address() + static_cast<driver::Address>(use.offset_bytes);
}

SubmitKind submit_kind(driver::CopyKind kind) {
  switch (kind) {
    case driver::CopyKind::host_to_device: return SubmitKind::copy_in;
    case driver::CopyKind::device_to_host: return SubmitKind::copy_out;
    case driver::CopyKind::device_to_device: break;
  }
  return SubmitKind::copy_device;
}

/// `uses`: the device's sides, the destination first. `host`: the other side.
void submit_copy(const std::shared_ptr<driver::Stream>& stream, const char* name, driver::CopyKind kind,
                 std::span<const memory::Use> uses, void* host, size_t bytes) {
  check_work(name, uses);
  const memory::Hold hold(uses);
  Submission submission(stream, name, submit_kind(kind), bytes);
  const driver::Address first = address_of(uses.front()), second = address_of(uses.back());
  auto issue = [=](const driver::Stream& on) {
    return code_of([&] {
      switch (kind) {
        case driver::CopyKind::host_to_device:
          return on.api().copy_async(nullptr, first, host, 0, bytes, kind, on.handle());
        case driver::CopyKind::device_to_host:
          return on.api().copy_async(host, 0, nullptr, first, bytes, kind, on.handle());
        case driver::CopyKind::device_to_device:
          return on.api().copy_async(nullptr, first, nullptr, second, bytes, kind, on.handle());
      }
    });
  };
  int code = issue(*stream);
  if (code == 0 && submission.capturing()) submission.keep(issue);
  submission.done(code, uses);
}

// The driver stages pageable memory itself with one thread. On an H200 chunks of ours, filled by several threads, are
// as fast at 4 MiB and three times as fast at 64.
constexpr size_t kStagedBytes = size_t{8} << 20;
std::atomic<size_t> g_staged_bytes{0};

bool stages(const driver::Stream& stream, const void* host, size_t bytes) {
  size_t least = g_staged_bytes.load(std::memory_order_relaxed);
  if (least == 0) least = stream.device().kind == DeviceKind::cuda ? kStagedBytes : SIZE_MAX;
  return bytes >= least && !stream.api().is_page_locked(host);
}

/// What the device did wrong is told as every wait tells it.
template <typename Copy>
void staged(driver::Stream& stream, const char* caller, Copy&& copy) {
  try {
    copy(transfer_engine(stream.device()));
  } catch (const CudaError&) {
    synchronize(stream, caller);
    throw;
  }
}

/// Before a copy that uses the caller's memory: once submitted no signal may end the wait for it, and to pageable
/// memory it waits inside the driver for all that comes before it.
void let_signals_end_wait(const driver::Stream& stream) {
  try {
    wait_for_device([&] { return memory::is_capturing(stream) || stream.query(); }, [] {},
                    stream.device().kind == DeviceKind::cpu);
  } catch (const CudaError&) {
    // The copy and the wait after it tell what the device found.
  }
}

}  // namespace

void set_staged_bytes(size_t bytes) { g_staged_bytes.store(bytes, std::memory_order_relaxed); }

void copy_from_host(const memory::Use& destination, const void* source, size_t bytes) {
  copy_from_host(destination, source, bytes, borrow_stream((*destination.storage)->device()), "copy_from_host");
}

void copy_from_host(const memory::Use& destination, const void* source, size_t bytes,
                    const std::shared_ptr<driver::Stream>& stream, const char* caller) {
  refuse_in_capture(caller, "reads host memory once");
  if (bytes == 0) return;
  if (stages(*stream, source, bytes))
    return staged(*stream, caller, [&](auto& engine) { engine.copy_in(stream, destination, source, bytes); });
  // A pageable source has been staged when the driver returns; a page-locked one is still read.
  const bool still_read = stream->api().is_page_locked(source);
  if (still_read) let_signals_end_wait(*stream);
  copy_from_host_async(destination, source, bytes, stream);
  if (still_read) synchronize_fully(*stream, caller);
}

void copy_to_host(void* destination, const memory::Use& source, size_t bytes, const char* caller) {
  copy_to_host(destination, source, bytes, borrow_stream((*source.storage)->device()), caller);
}

void copy_to_host(void* destination, const memory::Use& source, size_t bytes,
                  const std::shared_ptr<driver::Stream>& stream, const char* caller) {
  refuse_in_capture(caller, "waits for the device");
  if (bytes != 0) let_signals_end_wait(*stream);
  if (stages(*stream, destination, bytes))
    staged(*stream, caller, [&](auto& engine) { engine.copy_out(stream, destination, source, bytes); });
  else if (bytes != 0)
    copy_to_host_async(destination, source, bytes, stream);
  synchronize_fully(*stream, caller);
}

void copy_from_host_async(const memory::Use& destination, const void* source, size_t bytes,
                          const std::shared_ptr<driver::Stream>& stream) {
  if (bytes == 0) return;
  memory::Use use = destination;
  use.write = true;
  settle({&use, 1}, *stream);
  submit_copy(stream, "copy_from_host", driver::CopyKind::host_to_device, {&use, 1}, const_cast<void*>(source), bytes);
}

void copy_to_host_async(void* destination, const memory::Use& source, size_t bytes,
                        const std::shared_ptr<driver::Stream>& stream) {
  if (bytes == 0) return;
  settle({&source, 1}, *stream);
  submit_copy(stream, "copy_to_host", driver::CopyKind::device_to_host, {&source, 1}, destination, bytes);
}

void copy_piece(const TransferRequest& request, size_t offset, void* host, size_t bytes,
                const std::shared_ptr<driver::Stream>& stream) {
  const auto at = static_cast<int64_t>(offset);
  const memory::Use uses[2] = {{&request.storage, request.offset_bytes + at, request.type != TransferType::d2h},
                               {&request.peer, request.peer_offset_bytes + at, false}};
  switch (request.type) {
    case TransferType::h2d:
      return submit_copy(stream, "transfer to device", driver::CopyKind::host_to_device, {uses, 1}, host, bytes);
    case TransferType::d2h:
      return submit_copy(stream, "transfer to host", driver::CopyKind::device_to_host, {uses, 1}, host, bytes);
    case TransferType::d2d:
      return submit_copy(stream, "transfer on device", driver::CopyKind::device_to_device, uses, nullptr, bytes);
  }
}

void copy_device(const memory::Use& destination, const memory::Use& source, size_t bytes) {
  copy_device_async(destination, source, bytes, borrow_stream((*destination.storage)->device()));
}

void copy_device_async(const memory::Use& destination, const memory::Use& source, size_t bytes,
                       const std::shared_ptr<driver::Stream>& stream) {
  if (bytes == 0) return;
  Device from = (*source.storage)->device();
  if (!(from == stream->device())) {
    // The source's own stream knows nothing of the destination's: order them by an event.
    const auto& source_stream = borrow_stream(from);
    source_stream->context().make_current();
    driver::Event ready(source_stream->context());
    ready.record(*source_stream);
    stream->context().make_current();
    stream->wait(ready);
  }
  memory::Use uses[2] = {destination, source};
  uses[0].write = true;
  settle(uses, *stream);
  submit_copy(stream, "copy", driver::CopyKind::device_to_device, uses, nullptr, bytes);
}

void fill(const memory::Use& destination, int value_bytes, uint32_t value, size_t count) {
  if (count == 0) return;
  memory::Use use = destination;
  use.write = true;
  const auto& stream = borrow_stream((*use.storage)->device());
  settle({&use, 1}, *stream);
  check_work("fill", {&use, 1});
  const memory::Hold hold({&use, 1});
  Submission submission(stream, "fill", SubmitKind::fill, count * static_cast<size_t>(value_bytes));
  driver::Address address = address_of(use);
  auto issue = [=](const driver::Stream& on) {
    return code_of([&] { on.api().fill_async(address, value_bytes, value, count, on.handle()); });
  };
  int code = issue(*stream);
  if (code == 0 && submission.capturing()) submission.keep(issue);
  submission.done(code, {&use, 1});
}

}  // namespace gpukit::runtime
