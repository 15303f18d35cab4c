// A model that leaves the device as a whole when others need its room, and comes back at the same addresses.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gpukit/memory/account.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/runtime/session.h"

namespace gpukit::llm {

/// The account and the group of one model: its weights, and the caches, buffers and graphs of those who run it.
class Residence {
 public:
  /// An account of its own below the current one. Where memory is kept for that (a context with a base) the model
  /// leaves after those of others, and not at all for their sake while it is within what is kept. Throws Error where
  /// the device has no pool that evicts.
  Residence(const std::string& name, Device device);

  const std::shared_ptr<memory::Account>& account() const { return account_; }
  memory::EvictionGroup& group() { return group_; }

  /// What this thread makes meanwhile is charged to the model, and the model is on the device. Null: nothing.
  class Turn {
   public:
    /// Throws as memory::GroupTurn.
    explicit Turn(const std::shared_ptr<Residence>& residence);
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    runtime::Session session_;
    std::optional<runtime::SessionGuard> guard_;
    std::optional<memory::GroupTurn> turn_;
  };

 private:
  const std::shared_ptr<memory::Account> account_;
  memory::EvictionGroup group_;
};

}  // namespace gpukit::llm
