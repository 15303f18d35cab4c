// Log messages go to a sink that the host program sets; without one they are dropped.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace gpukit {

enum class LogLevel : uint8_t { debug, info, warning, error, off };

const char* name(LogLevel level);

/// The sink may be called from any thread and must not throw; it is never called under a lock of the library.
/// An empty function removes it.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;
void set_log_sink(LogSink sink);

/// Messages below this level are dropped before the sink. PYGPUKIT_LOG, else debug: then the sink decides.
void set_log_level(LogLevel level);
/// A sink is set and takes this level: worth building the message.
bool log_enabled(LogLevel level);

/// Never throws.
void log(LogLevel level, std::string_view message) noexcept;
/// Only the first message with this key passes, counted from the moment a sink takes it.
void log_once(LogLevel level, std::string_view key, std::string_view message) noexcept;

}  // namespace gpukit
