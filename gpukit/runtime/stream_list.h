// Every stream that work of ours goes to, for who watches them all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpukit/driver/objects.h"

namespace gpukit::runtime {

struct ListedStream {
  std::shared_ptr<driver::Stream> stream;
  std::string label;  // whose it is: `default session`, `context 'a'`, `transfers`
};

/// Whoever makes a stream that submissions go to lists it before it gives it out.
void list_stream(const std::shared_ptr<driver::Stream>& stream, const std::string& label);
/// Those alive, in the order of their making.
std::vector<ListedStream> listed_streams();

/// Called with every stream listed from now on; null removes it. It must not throw, make a stream or wait.
using StreamWatcher = void (*)(const ListedStream&);
void set_stream_watcher(StreamWatcher watcher);

}  // namespace gpukit::runtime
