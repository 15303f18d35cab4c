#include "gpukit/python/dispatch_thread.h"

#include <unordered_map>

#include "gpukit/base/files.h"

namespace gpukit::python {

namespace {

struct Beside {
  nb::object executor;  // concurrent.futures.ThreadPoolExecutor of one thread
  nb::object last;      // the future of the last job
  uint64_t generation = 0;
};

/// The GIL guards it.
std::unordered_map<const scheduler::SessionOwner*, Beside>& all() {
  static auto* leaked = new std::unordered_map<const scheduler::SessionOwner*, Beside>;
  return *leaked;
}

thread_local const scheduler::SessionOwner* t_serves = nullptr;

/// Null when there is none, or when it stayed behind in the process this one was forked from.
Beside* find(const scheduler::SessionOwner& owner) {
  const auto found = all().find(&owner);
  if (found == all().end() || found->second.generation != files::fork_generation()) return nullptr;
  return &found->second;
}

}  // namespace

bool would_block_a_loop(Device device) {
  if (device.kind != DeviceKind::cpu) return false;
  const nb::object asyncio = nb::steal(PyImport_GetModule(nb::str("asyncio").ptr()));
  return asyncio.is_valid() && !asyncio.attr("_get_running_loop")().is_none();
}

void run_beside(const scheduler::SessionOwner& owner, nb::object job) {
  Beside* beside = find(owner);
  if (beside == nullptr) {
    nb::object executor = nb::module_::import_("concurrent.futures")
                              .attr("ThreadPoolExecutor")(1, "thread_name_prefix"_a = "pygpukit-dispatch");
    beside = &(all()[&owner] = {std::move(executor), nb::none(), files::fork_generation()});
  }
  const nb::object context = nb::steal(PyContext_CopyCurrent());
  const nb::object executor = beside->executor;
  nb::object future =
      executor.attr("submit")(context.attr("run"), nb::cpp_function([serves = &owner, job = std::move(job)] {
                                t_serves = serves;
                                job();
                                t_serves = nullptr;
                              }));
  if (Beside* known = find(owner)) known->last = std::move(future);  // submitting gives the GIL up
}

void settle_beside(const scheduler::SessionOwner& owner) {
  if (t_serves == &owner) return;
  const Beside* beside = find(owner);
  if (beside == nullptr || beside->last.is_none()) return;
  const nb::object last = beside->last;
  call_or_park([&] { last.attr("result")(); });
}

void forget_beside(const scheduler::SessionOwner& owner) {
  const auto node = all().extract(&owner);
  if (node.empty() || node.mapped().generation != files::fork_generation()) return;
  node.mapped().executor.attr("shutdown")("wait"_a = false);
}

}  // namespace gpukit::python
