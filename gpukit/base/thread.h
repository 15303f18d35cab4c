// Threads of the library itself.
#pragma once

#include <functional>
#include <thread>

namespace gpukit {

/// A thread that takes no signals: those are the host program's business. Throws Error when it cannot be started.
std::thread start_thread(std::function<void()> body);

/// This thread's short timed waits end on time, where the system would otherwise stretch them (50 us on Linux).
void wake_on_time() noexcept;

/// For tests: the next `count` calls of start_thread fail.
void fail_thread_starts(int count);

}  // namespace gpukit
