#include "gpukit/runtime/transfer.h"

#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"

namespace gpukit::runtime {

namespace {

driver::Address address_of(const memory::Use& use) {
  return (*use.storage)->address() + static_cast<driver::Address>(use.offset_bytes);
}

void submit_copy(const std::shared_ptr<driver::Stream>& stream, const char* name, void* dst_host, driver::Address dst,
                 const void* src_host, driver::Address src, size_t bytes, driver::CopyKind kind,
                 std::span<const memory::Use> uses) {
  Submission submission(stream, name);
  auto issue = [=](const driver::Stream& on) {
    return code_of([&] { on.api().copy_async(dst_host, dst, src_host, src, bytes, kind, on.handle()); });
  };
  int code = issue(*stream);
  if (code == 0 && submission.capturing()) submission.keep(issue);
  submission.done(code, uses);
}

}  // namespace

void copy_from_host(const memory::Use& destination, const void* source, size_t bytes) {
  refuse_in_capture("copy_from_host", "reads host memory once");
  if (bytes == 0) return;
  const auto& stream = current_stream((*destination.storage)->device());
  copy_from_host_async(destination, source, bytes, stream);
  // A pageable source has been staged when the driver returns; a page-locked one is still read.
  if (stream->api().is_page_locked(source)) synchronize(*stream, "copy_from_host");
}

void copy_to_host(void* destination, const memory::Use& source, size_t bytes, const char* caller) {
  refuse_in_capture(caller, "waits for the device");
  const auto& stream = current_stream((*source.storage)->device());
  if (bytes != 0) copy_to_host_async(destination, source, bytes, stream);
  synchronize(*stream, caller);
}

void copy_from_host_async(const memory::Use& destination, const void* source, size_t bytes,
                          const std::shared_ptr<driver::Stream>& stream) {
  if (bytes == 0) return;
  memory::Use use = destination;
  use.write = true;
  submit_copy(stream, "copy_from_host", nullptr, address_of(use), source, 0, bytes, driver::CopyKind::host_to_device,
              {&use, 1});
}

void copy_to_host_async(void* destination, const memory::Use& source, size_t bytes,
                        const std::shared_ptr<driver::Stream>& stream) {
  if (bytes == 0) return;
  submit_copy(stream, "copy_to_host", destination, 0, nullptr, address_of(source), bytes,
              driver::CopyKind::device_to_host, {&source, 1});
}

void copy_device(const memory::Use& destination, const memory::Use& source, size_t bytes) {
  copy_device_async(destination, source, bytes, current_stream((*destination.storage)->device()));
}

void copy_device_async(const memory::Use& destination, const memory::Use& source, size_t bytes,
                       const std::shared_ptr<driver::Stream>& stream) {
  if (bytes == 0) return;
  Device from = (*source.storage)->device();
  if (!(from == stream->device())) {
    // The source's own stream knows nothing of the destination's: order them by an event.
    const auto& source_stream = current_stream(from);
    source_stream->context().make_current();
    driver::Event ready(source_stream->context());
    ready.record(*source_stream);
    stream->context().make_current();
    stream->wait(ready);
  }
  memory::Use uses[2] = {destination, source};
  uses[0].write = true;
  submit_copy(stream, "copy", nullptr, address_of(destination), nullptr, address_of(source), bytes,
              driver::CopyKind::device_to_device, uses);
}

void fill(const memory::Use& destination, int value_bytes, uint32_t value, size_t count) {
  if (count == 0) return;
  memory::Use use = destination;
  use.write = true;
  const auto& stream = current_stream((*use.storage)->device());
  Submission submission(stream, "fill");
  driver::Address address = address_of(use);
  auto issue = [=](const driver::Stream& on) {
    return code_of([&] { on.api().fill_async(address, value_bytes, value, count, on.handle()); });
  };
  int code = issue(*stream);
  if (code == 0 && submission.capturing()) submission.keep(issue);
  submission.done(code, {&use, 1});
}

}  // namespace gpukit::runtime
