#include "gpukit/runtime/stream_group.h"

#include <algorithm>
#include <atomic>
#include <deque>

#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_control.h"
#include "gpukit/runtime/stream_list.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::runtime {

struct StreamMove {
  /// A stream that was left. A call that looked before the move may still submit to it, so it is looked at again.
  struct Earlier {
    std::weak_ptr<driver::Stream> stream;
    std::atomic<uint64_t> followed;
    Earlier(std::weak_ptr<driver::Stream> s, uint64_t sequence) : stream(std::move(s)), followed(sequence) {}
  };
  std::shared_ptr<driver::Stream> to;  // null: the stream itself again
  std::deque<Earlier> earlier;
  std::mutex mutex;

  void follow(const driver::Stream& target) {
    if (target.capture.load(std::memory_order_relaxed) != nullptr) return;
    for (Earlier& entry : earlier) {
      const std::shared_ptr<driver::Stream> left = entry.stream.lock();
      if (left == nullptr) continue;
      const uint64_t submitted = left->sequence.load(std::memory_order_acquire);
      if (entry.followed.load(std::memory_order_acquire) == submitted) continue;
      if (left->capture.load(std::memory_order_relaxed) != nullptr) continue;
      std::lock_guard lock(mutex);
      order_after(*left, target);
      entry.followed.store(submitted, std::memory_order_release);
    }
  }
};

namespace {

/// Counts moves of the process: what a thread remembers is good while it stays the same.
std::atomic<uint64_t> g_generation{0};

struct Remembered {
  uint64_t stream_id = 0, generation = 0;
  std::shared_ptr<StreamMove> move;
};

/// References that resolve gave point into these, so that a move in another thread frees nothing under a call.
struct ThreadMemory {
  Remembered slots[8];
  unsigned next = 0;
};
thread_local ThreadMemory t_memory;

}  // namespace

std::shared_ptr<StreamGroup> StreamGroup::make(driver::Context& context, std::shared_ptr<driver::GreenContext> green) {
  std::shared_ptr<StreamGroup> group(new StreamGroup(context));
  group->green_ = std::move(green);
  return group;
}

std::shared_ptr<driver::Stream> StreamGroup::make_stream(int priority, bool counted) {
  context_.make_current();
  std::shared_ptr<driver::Stream> stream;
  StreamHook hook;
  std::string label;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& entry) { return entry.second.first.expired(); });
    stream = std::make_shared<driver::Stream>(context_, priority, green_);
    stream->group = weak_from_this();
    entries_[stream->id()] = {stream, nullptr, counted};
    hook = hook_;
    label = label_;
  }
  if (hook) hook(stream);
  list_stream(stream, label);
  return stream;
}

void StreamGroup::set_hook(StreamHook hook) {
  std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

void StreamGroup::set_label(std::string label) {
  std::lock_guard lock(mutex_);
  label_ = std::move(label);
}

std::shared_ptr<driver::GreenContext> StreamGroup::green() const {
  std::lock_guard lock(mutex_);
  return green_;
}

void StreamGroup::move_to(std::shared_ptr<driver::GreenContext> green) {
  struct Change {
    std::shared_ptr<driver::Stream> first, left;
    std::shared_ptr<StreamMove> move;
  };
  std::vector<Change> changes;
  context_.make_current();
  {
    std::lock_guard lock(mutex_);
    if (green == green_) return;
    for (auto& [id, entry] : entries_) {
      std::shared_ptr<driver::Stream> first = entry.first.lock();
      if (first == nullptr) continue;
      std::shared_ptr<driver::Stream> left = entry.move != nullptr && entry.move->to ? entry.move->to : first;
      if (left->capture.load(std::memory_order_acquire) != nullptr) continue;
      auto move = std::make_shared<StreamMove>();
      if (first->green() != green) {
        move->to = std::make_shared<driver::Stream>(context_, first->priority(), green);
        move->to->group = weak_from_this();
        move->to->stand_in_for(first);
        // Whoever takes the first stream under control right now may not have seen the one that is left.
        StreamControl* control = left->control.load(std::memory_order_acquire);
        if (control == nullptr) control = first->control.load(std::memory_order_acquire);
        if (control != nullptr) control->moved(left, move->to);
        list_stream(move->to, label_);
      }
      driver::Stream& target = move->to != nullptr ? *move->to : *first;
      const uint64_t submitted = left->sequence.load(std::memory_order_acquire);
      order_after(*left, target);
      move->earlier.emplace_back(left, submitted);
      if (entry.move != nullptr) {
        for (const auto& before : entry.move->earlier)
          if (auto stream = before.stream.lock(); stream != nullptr && stream.get() != &target)
            move->earlier.emplace_back(stream, before.followed.load(std::memory_order_acquire));
      }
      changes.push_back({std::move(first), std::move(left), std::move(move)});
    }
    for (Change& change : changes) {
      entries_[change.first->id()].move = change.move;
      if (change.left != change.first) leaving_.push_back(change.left);
      change.first->moved.store(true, std::memory_order_release);
    }
    green_ = std::move(green);
    g_generation.fetch_add(1, std::memory_order_acq_rel);
  }
  for (const Change& change : changes)
    if (change.left != change.first) retire(change.left);
}

void StreamGroup::retire(const std::shared_ptr<driver::Stream>& left) noexcept {
  auto let_go = [](StreamGroup& group, uint64_t id) {
    std::shared_ptr<driver::Stream> last;  // destroyed without the lock
    std::lock_guard lock(group.mutex_);
    auto found = std::find_if(group.leaving_.begin(), group.leaving_.end(),
                              [&](const auto& stream) { return stream->id() == id; });
    if (found == group.leaving_.end()) return;
    last = std::move(*found);
    group.leaving_.erase(found);
  };
  try {
    auto event = std::make_shared<driver::Event>(context_);
    event->record(*left);
    Waiter::of(context_.device()).add(left, event, [group = weak_from_this(), id = left->id(), let_go](int) {
      if (auto alive = group.lock()) let_go(*alive, id);
    });
  } catch (...) {
    // The driver finishes the work of a destroyed stream all the same.
    let_go(*this, left->id());
  }
}

int StreamGroup::num_streams() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(entries_.begin(), entries_.end(), [](const auto& entry) {
    return entry.second.counted && !entry.second.first.expired();
  }));
}

std::vector<std::shared_ptr<driver::Stream>> StreamGroup::streams() const {
  std::vector<std::shared_ptr<driver::Stream>> list;
  std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : entries_) {
    std::shared_ptr<driver::Stream> first = entry.first.lock();
    if (first == nullptr) continue;
    if (entry.move != nullptr && entry.move->to != nullptr) list.push_back(entry.move->to);
    list.push_back(std::move(first));
  }
  list.insert(list.end(), leaving_.begin(), leaving_.end());
  return list;
}

const std::shared_ptr<driver::Stream>& resolve_moved(const std::shared_ptr<driver::Stream>& stream) {
  const uint64_t generation = g_generation.load(std::memory_order_acquire);
  Remembered* slot = nullptr;
  for (Remembered& known : t_memory.slots)
    if (known.stream_id == stream->id() && known.generation == generation) slot = &known;
  if (slot == nullptr) {
    const std::shared_ptr<StreamGroup> group = stream->group.lock();
    if (group == nullptr) return stream;
    std::shared_ptr<StreamMove> move;
    {
      std::lock_guard lock(group->mutex_);
      auto found = group->entries_.find(stream->id());
      if (found != group->entries_.end()) move = found->second.move;
    }
    if (move == nullptr) return stream;
    slot = &t_memory.slots[t_memory.next++ % std::size(t_memory.slots)];
    *slot = {stream->id(), generation, std::move(move)};
  }
  const std::shared_ptr<driver::Stream>& target = slot->move->to != nullptr ? slot->move->to : stream;
  slot->move->follow(*target);
  return target;
}

std::shared_ptr<driver::Stream> stand_in(const driver::Stream& first) {
  const std::shared_ptr<StreamGroup> group = first.group.lock();
  if (group == nullptr) return nullptr;
  std::lock_guard lock(group->mutex_);
  auto found = group->entries_.find(first.id());
  return found == group->entries_.end() || found->second.move == nullptr ? nullptr : found->second.move->to;
}

std::shared_ptr<driver::Stream> new_stream(Device device, int priority, bool counted) {
  const std::shared_ptr<driver::Stream>& current = borrow_stream(device);
  if (auto group = current->group.lock()) return group->make_stream(priority, counted);
  current->context().make_current();
  auto stream = std::make_shared<driver::Stream>(current->context(), priority, current->green());
  list_stream(stream, "default session");
  return stream;
}

void order_after(const driver::Stream& first, const driver::Stream& then) {
  if (&first == &then) return;
  first.context().make_current();
  driver::Event reached(first.context());
  reached.record(first);
  if (&then.context() != &first.context()) then.context().make_current();
  then.wait(reached);
}

void forget_moved_streams() noexcept {
  for (Remembered& slot : t_memory.slots) slot = {};
}

}  // namespace gpukit::runtime
