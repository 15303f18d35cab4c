// Lines of compiled kernels, for messages.
#pragma once

#include <string>
#include <vector>

namespace emulator {

std::vector<void*> return_addresses();
/// The lines of those addresses that lie in compiled kernels, innermost first.
std::string lines_of(const std::vector<void*>& addresses);

}  // namespace emulator
