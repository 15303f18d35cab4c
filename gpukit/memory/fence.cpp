#include "gpukit/memory/fence.h"

#include <algorithm>
#include <utility>

namespace gpukit::memory {

bool is_capturing(const driver::Stream& stream) {
  stream.context().make_current();
  return stream.api().capture_info(stream.handle()).status != driver::CaptureStatus::none;
}

const std::shared_ptr<driver::Event>& Marker::now(const std::shared_ptr<driver::Stream>& stream) {
  for (auto& [known, event] : marks_)
    if (known == stream.get()) return event;
  auto event = std::make_shared<driver::Event>(stream->context());
  event->record(*stream);
  return marks_.emplace_back(stream.get(), std::move(event)).second;
}

void Fence::add(const std::shared_ptr<driver::Stream>& stream) {
  if (std::find(unmarked_.begin(), unmarked_.end(), stream) == unmarked_.end()) unmarked_.push_back(stream);
}

void Fence::add(const std::shared_ptr<driver::Event>& event) {
  if (std::find(events_.begin(), events_.end(), event) == events_.end()) events_.push_back(event);
}

void Fence::add(const Fence& other) {
  for (const auto& stream : other.unmarked_) add(stream);
  for (const auto& event : other.events_) add(event);
}

void Fence::forget(const driver::Stream& stream) {
  std::erase_if(unmarked_, [&](const auto& known) { return known.get() == &stream; });
}

bool Fence::can_mark() const {
  return std::none_of(unmarked_.begin(), unmarked_.end(), [](const auto& stream) { return is_capturing(*stream); });
}

void Fence::mark(Marker& marker) {
  while (!unmarked_.empty()) {
    add(marker.now(unmarked_.back()));
    unmarked_.pop_back();
  }
}

void Fence::order(const driver::Stream& stream) const {
  for (const auto& event : events_) stream.wait(*event);
}

void Fence::synchronize() const {
  for (const auto& event : events_) event->synchronize();
}

bool Fence::complete() {
  for (size_t i = events_.size(); i-- > 0;) {
    if (!events_[i]->query()) continue;
    std::swap(events_[i], events_.back());
    events_.pop_back();
  }
  return empty();
}

}  // namespace gpukit::memory
