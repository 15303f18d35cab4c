#include "gpukit/runtime/session.h"

#include "gpukit/base/fork.h"
#include "gpukit/memory/pool_api.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/stream_group.h"

namespace gpukit::runtime {

thread_local const Session* SessionGuard::current_ = nullptr;

Session Session::with_device(Device value) const {
  Session changed = *this;
  changed.device = value;
  return changed;
}

Session Session::with_stream(std::shared_ptr<driver::Stream> stream) const {
  Session changed = *this;
  for (auto& held : changed.streams) {
    if (held->device() == stream->device()) {
      held = std::move(stream);
      return changed;
    }
  }
  changed.streams.push_back(std::move(stream));
  return changed;
}

Session Session::with_account(std::shared_ptr<memory::Account> account) const {
  Session changed = *this;
  for (auto& held : changed.accounts) {
    if (held->device() == account->device()) {
      held = std::move(account);
      return changed;
    }
  }
  changed.accounts.push_back(std::move(account));
  return changed;
}

Session Session::with_determinism(env::Determinism level) const {
  Session changed = *this;
  changed.determinism = level;
  return changed;
}

env::Determinism determinism() {
  const std::optional<env::Determinism>& asked = current_session().determinism;
  return asked ? *asked : env::determinism();
}

const Session& current_session() {
  static const Session* none = new Session;
  return SessionGuard::current_ != nullptr ? *SessionGuard::current_ : *none;
}

namespace {
[[maybe_unused]] const bool g_made_at_load = made_at_load<current_session>();
}  // namespace

std::shared_ptr<driver::Stream> current_stream(Device device) { return borrow_stream(device); }

const std::shared_ptr<driver::Stream>& borrow_stream(Device device) {
  if (SessionGuard::current_ != nullptr) {
    for (const auto& stream : SessionGuard::current_->streams)
      if (stream->device() == device) return resolve(stream);
  }
  return resolve(open_device(device).default_stream);
}

int current_sm_count(Device device) {
  const driver::Stream& stream = *borrow_stream(device);
  return stream.green() != nullptr ? stream.green()->sm_count() : stream.context().properties().sm_count;
}

std::shared_ptr<memory::Account> current_account(Device device) {
  if (SessionGuard::current_ != nullptr) {
    for (const auto& account : SessionGuard::current_->accounts)
      if (account->device() == device) return account;
  }
  return memory::default_account(device);
}

}  // namespace gpukit::runtime
