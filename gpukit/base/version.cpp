#include "gpukit/base/version.h"

#ifndef GPUKIT_VERSION
#error "GPUKIT_VERSION is set by the build from the file VERSION"
#endif

namespace gpukit {

const char* version() noexcept { return GPUKIT_VERSION; }

}  // namespace gpukit
