#include "gpukit/driver/objects.h"

#include <algorithm>
#include <vector>

#include "gpukit/base/error.h"

namespace gpukit::driver {

namespace {

std::atomic<uint64_t> next_stream_id{1};

// Destructors go on without a current context: releasing a handle does not depend on it.
void try_make_current(const Context& context) noexcept {
  try {
    context.make_current();
  } catch (...) {
  }
}

constexpr size_t kMostIdleStreams = 16;

/// Nothing of it runs or is captured.
bool is_over(const Api& api, StreamHandle stream) noexcept {
  try {
    const int mode = api.relax_capture();
    bool over = false;
    try {
      over = api.capture_info(stream).status == CaptureStatus::none && api.query_stream(stream);
    } catch (...) {
      // One that failed is not used again.
    }
    api.restore_capture(mode);
    return over;
  } catch (...) {
    return false;
  }
}

}  // namespace

Context::Context(const Api& api, int ordinal)
    : api_(api), ordinal_(ordinal), handle_(nullptr), properties_(api.properties(ordinal)) {
  handle_ = api_.retain_primary(ordinal);
}

Context::~Context() { api_.release_primary(ordinal_); }

SmSplit::SmSplit(Context& context, int min_count)
    : context_(context), sms_(context.api().split_sms(context.ordinal(), min_count)) {}

GreenContext::GreenContext(const SmSplit& split, std::span<const int> groups, bool remainder)
    : context_(split.context()), handle_(nullptr), sm_count_(0) {
  std::vector<SmGroup> chosen;
  std::vector<int> seen;
  for (int group : groups) {
    if (group < 0 || group >= split.num_groups() || std::find(seen.begin(), seen.end(), group) != seen.end()) {
      throw ArgumentError("GreenContext", "groups",
                          "hold different numbers below " + std::to_string(split.num_groups()), std::to_string(group));
    }
    seen.push_back(group);
    chosen.push_back(split.sms().groups[group]);
  }
  if (remainder && split.remainder_sms() > 0) chosen.push_back(split.sms().remainder);
  for (const SmGroup& group : chosen) sm_count_ += group.sm_count;
  context_.make_current();
  handle_ = context_.api().create_green_context(chosen);
}

GreenContext::~GreenContext() {
  try_make_current(context_);
  // First: a stream of a green context that is gone can do nothing any more.
  for (const auto& [priority, stream] : idle_) context_.api().destroy_stream(stream);
  context_.api().destroy_green_context(handle_);
}

StreamHandle GreenContext::take_stream(int priority) {
  {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& entry) { return entry.first == priority; });
    if (found != idle_.end()) {
      const StreamHandle stream = found->second;
      idle_.erase(found);
      return stream;
    }
  }
  return context_.api().create_green_stream(handle_, priority);
}

void GreenContext::give_back_stream(StreamHandle stream, int priority) noexcept {
  if (is_over(context_.api(), stream)) {
    std::lock_guard lock(mutex_);
    if (idle_.size() < kMostIdleStreams) {
      idle_.emplace_back(priority, stream);
      return;
    }
  }
  context_.api().destroy_stream(stream);
}

Stream::Stream(Context& context, int priority, std::shared_ptr<GreenContext> green)
    : context_(context), green_(std::move(green)), handle_(nullptr), priority_(priority), id_(0), first_id_(0) {
  if (green_ != nullptr && &green_->context() != &context_) {
    throw ArgumentError("Stream", "green", "be of " + str(device()), str(green_->context().device()));
  }
  context_.make_current();
  handle_ = green_ == nullptr ? api().create_stream(priority) : green_->take_stream(priority);
  id_ = first_id_ = next_stream_id.fetch_add(1, std::memory_order_relaxed);
}

void Stream::stand_in_for(const std::shared_ptr<Stream>& first) {
  first_ = first;
  first_id_ = first->id();
}

Stream::~Stream() {
  try_make_current(context_);
  if (green_ != nullptr)
    green_->give_back_stream(handle_, priority_);
  else
    api().destroy_stream(handle_);
}

void Stream::synchronize() const {
  context_.make_current();
  api().synchronize_stream(handle_);
}

bool Stream::query() const {
  context_.make_current();
  return api().query_stream(handle_);
}

void Stream::wait(const Event& event) const {
  context_.make_current();
  api().wait_event(handle_, event.handle());
}

Event::Event(Context& context, bool timing, bool blocking) : context_(context), handle_(nullptr) {
  context_.make_current();
  handle_ = context_.api().create_event(timing, blocking);
}

Event::~Event() {
  try_make_current(context_);
  context_.api().destroy_event(handle_);
}

void Event::record(const Stream& stream) {
  context_.make_current();
  context_.api().record_event(handle_, stream.handle());
}

void Event::synchronize() const {
  context_.make_current();
  context_.api().synchronize_event(handle_);
}

bool Event::query() const {
  context_.make_current();
  return context_.api().query_event(handle_);
}

float elapsed_ms(const Event& start, const Event& stop) {
  start.context().make_current();
  return start.context().api().elapsed_ms(start.handle(), stop.handle());
}

}  // namespace gpukit::driver
