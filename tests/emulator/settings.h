// What the environment says, see tools/emulate.py.
#pragma once

#include <string>

#include "tests/emulator/launch.h"

namespace emulator {

struct Settings {
  std::string root;      // of the sources
  std::string cache;     // compiled kernels
  std::string compiler;  // of kernels
  std::string library;   // this one
  Options options;
  int sms;
  int arch;  // of the chip: 80 or 90
};

const Settings& settings();

}  // namespace emulator
