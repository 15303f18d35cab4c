// What the environment says, see tools/emulate.py.
#pragma once

#include <string>

#include "tests/emulator/launch.h"

namespace emulator {

/// The chip: it has no instructions of later ones.
inline constexpr int kArch = 80;

struct Settings {
  std::string root;      // of the sources
  std::string cache;     // compiled kernels
  std::string compiler;  // of kernels
  std::string library;   // this one
  Options options;
  int sms;
};

const Settings& settings();

}  // namespace emulator
