#include "gpukit/models/llm/residence.h"

#include "gpukit/base/error.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/device.h"

namespace gpukit::llm {

namespace {

memory::Pool& pool_of(Device device) {
  auto* pool = dynamic_cast<memory::Pool*>(runtime::open_device(device).resource.get());
  if (pool == nullptr) throw Error("load_model: the memory of " + str(device) + " does not evict");
  return *pool;
}

std::shared_ptr<memory::Account> account_below(const std::string& name, Device device) {
  std::shared_ptr<memory::Account> above = runtime::current_account(device);
  if (above == nullptr) above = pool_of(device).root();
  return memory::Account::create(name, device, 0, true, std::move(above));
}

}  // namespace

Residence::Residence(const std::string& name, Device device)
    : account_(account_below(name, device)), group_(pool_of(device)) {
  // Who asked for a base gives way after those who did not.
  for (const memory::Account* one = account_.get(); one != nullptr; one = one->parent().get())
    if (one->kept() != 0) group_.set_priority(1);
}

Residence::Turn::Turn(const std::shared_ptr<Residence>& residence) {
  if (residence == nullptr) return;
  session_ = runtime::current_session().with_account(residence->account_);
  guard_.emplace(session_);
  turn_.emplace(residence->group_);
}

}  // namespace gpukit::llm
