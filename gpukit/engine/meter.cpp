#include "gpukit/engine/meter.h"

#include "gpukit/base/clock.h"
#include "gpukit/runtime/session.h"

namespace gpukit::engine {

void Meter::note(Device device, int64_t begin_ns, int64_t tokens, int64_t drawn) {
  const std::shared_ptr<memory::Account> account = runtime::current_account(device);
  if (account != account_ || counters_.empty()) {
    const auto counters_of = [](std::string_view owner) {
      return Counters{&counter(owned_name("llm.tokens", owner)), &counter(owned_name("llm.drawn_tokens", owner)),
                      &counter(owned_name("llm.steps_ns", owner))};
    };
    counters_.clear();
    for (const memory::Account* one = account.get(); one != nullptr; one = one->parent().get())
      counters_.push_back(counters_of(one->name()));
    if (account == nullptr) counters_.push_back(counters_of(str(device)));
    account_ = account;
  }
  const int64_t time_ns = real_clock().now_ns() - begin_ns;
  for (const Counters& c : counters_) {
    c.tokens->add(tokens);
    c.drawn->add(drawn);
    c.time_ns->add(time_ns);
  }
}

}  // namespace gpukit::engine
