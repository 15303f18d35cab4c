// NVRTC, the run-time compiler, opened at run time if the machine has one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpukit/driver/library_search.h"

namespace gpukit::driver {

using nvrtcResult = int;
using nvrtcProgram = struct NvrtcProgramTag*;

/// NVRTC's entry points under their C names. All are there when the table is.
struct NvrtcTable {
  nvrtcResult (*nvrtcVersion)(int* major, int* minor) = nullptr;
  nvrtcResult (*nvrtcGetNumSupportedArchs)(int* count) = nullptr;
  nvrtcResult (*nvrtcGetSupportedArchs)(int* archs) = nullptr;
  const char* (*nvrtcGetErrorString)(nvrtcResult code) = nullptr;
  nvrtcResult (*nvrtcCreateProgram)(nvrtcProgram* program, const char* source, const char* name, int num_headers,
                                    const char* const* headers, const char* const* include_names) = nullptr;
  nvrtcResult (*nvrtcDestroyProgram)(nvrtcProgram* program) = nullptr;
  nvrtcResult (*nvrtcAddNameExpression)(nvrtcProgram program, const char* expression) = nullptr;
  nvrtcResult (*nvrtcCompileProgram)(nvrtcProgram program, int num_options, const char* const* options) = nullptr;
  nvrtcResult (*nvrtcGetLoweredName)(nvrtcProgram program, const char* expression, const char** lowered) = nullptr;
  nvrtcResult (*nvrtcGetCUBINSize)(nvrtcProgram program, size_t* bytes) = nullptr;
  nvrtcResult (*nvrtcGetCUBIN)(nvrtcProgram program, char* cubin) = nullptr;
  nvrtcResult (*nvrtcGetPTXSize)(nvrtcProgram program, size_t* bytes) = nullptr;
  nvrtcResult (*nvrtcGetPTX)(nvrtcProgram program, char* ptx) = nullptr;
  nvrtcResult (*nvrtcGetProgramLogSize)(nvrtcProgram program, size_t* bytes) = nullptr;
  nvrtcResult (*nvrtcGetProgramLog)(nvrtcProgram program, char* log) = nullptr;
};

/// Null when there is none that serves; `reason` (may be null) then gets `NVRTC JIT compiler not available: `, every
/// path tried with its reason, and what to type. Searched at the first call, and again after set_site_packages while
/// there is none.
const NvrtcTable* nvrtc(std::string* reason);

struct NvrtcVersion {
  int major = 0, minor = 0;
  friend bool operator==(NvrtcVersion, NvrtcVersion) = default;
};
/// 0.0 without NVRTC.
NvrtcVersion nvrtc_version();
/// File of the library, empty without one.
std::string nvrtc_path();
/// The set it belongs to (LibraryCandidate::place), empty without one: later libraries come from there.
std::string nvrtc_place();
/// SM numbers it compiles for, ascending: 80, 86, 90, ...
std::vector<int> nvrtc_archs();

/// What the search needs to know; the functions above fill it from the machine.
struct NvrtcSearch {
  bool off = false;
  std::string only;                          // the one path to try, if not empty
  int driver_major = 0;                      // 0: no driver, any major serves
  std::vector<int> chips;                    // SM numbers present; empty: any
  std::vector<LibraryCandidate> candidates;  // in order
  std::vector<LibraryAttempt> missing;       // what the search did not find, for the reason
};

struct NvrtcLibrary {
  NvrtcTable table;
  bool usable = false;
  NvrtcVersion version;
  std::vector<int> archs;
  std::string path, place, reason;
};

/// The first candidate that serves. The libraries stay open for good.
NvrtcLibrary open_nvrtc(const NvrtcSearch& search);

}  // namespace gpukit::driver
