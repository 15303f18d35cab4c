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
  context_.api().destroy_green_context(handle_);
}

Stream::Stream(Context& context, int priority, std::shared_ptr<GreenContext> green)
    : context_(context), green_(std::move(green)), handle_(nullptr), priority_(priority), id_(0), first_id_(0) {
  if (green_ != nullptr && &green_->context() != &context_) {
    throw ArgumentError("Stream", "green", "be of " + str(device()), str(green_->context().device()));
  }
  context_.make_current();
  handle_ = green_ == nullptr ? api().create_stream(priority) : api().create_green_stream(green_->handle(), priority);
  id_ = first_id_ = next_stream_id.fetch_add(1, std::memory_order_relaxed);
}

void Stream::stand_in_for(const std::shared_ptr<Stream>& first) {
  first_ = first;
  first_id_ = first->id();
}

Stream::~Stream() {
  try_make_current(context_);
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
