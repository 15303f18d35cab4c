#include "tests/emulator/trace.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstring>

#include "tests/emulator/compile.h"

namespace emulator {

std::vector<void*> return_addresses() {
  std::vector<void*> addresses(32);
  addresses.resize(static_cast<size_t>(backtrace(addresses.data(), static_cast<int>(addresses.size()))));
  return addresses;
}

std::string lines_of(const std::vector<void*>& addresses) {
  std::string text;
  for (void* address : addresses) {
    Dl_info info;
    if (dladdr(address, &info) == 0 || std::strstr(info.dli_fname, kKernelFile) == nullptr) continue;
    char command[512];
    const auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase) - 1;
    std::snprintf(command, sizeof command, "addr2line -Cfipse %s %#lx", info.dli_fname,
                  static_cast<unsigned long>(offset));
    std::FILE* output = popen(command, "r");
    if (output == nullptr) break;
    char line[512];
    while (std::fgets(line, sizeof line, output) != nullptr) text += std::string("\n    ") + line;
    pclose(output);
    while (!text.empty() && text.back() == '\n') text.pop_back();
  }
  return text;
}

}  // namespace emulator
