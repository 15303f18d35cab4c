// A cuBLASLt for tests: it multiplies on the host, in the order of the CPU device's streams, and counts what it is
// asked.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "gpukit/driver/cublaslt.h"

namespace gpukit::testing {

/// driver::cublaslt() gives it while it exists. One at a time; graphs of its products must go before it.
class FakeCublasLt {
 public:
  FakeCublasLt();
  ~FakeCublasLt();
  FakeCublasLt(const FakeCublasLt&) = delete;
  FakeCublasLt& operator=(const FakeCublasLt&) = delete;

  /// Calls by their C names since the beginning.
  int count(const std::string& call) const;
  /// Every later call of that name gives `status`; 0: it works again.
  void fail(const std::string& call, int status);
  /// Descriptions do not know this attribute.
  void refuse_attribute(int attribute);
  /// What the heuristic says from now on.
  void set_workspace(size_t bytes);
  void set_algorithms(int count);
  /// Descriptions, layouts, preferences and handles that were made and not destroyed.
  int live() const;

  struct Asked {
    int sm_count = 0;  // of the last heuristic call, with the preferences
    int compute = 0, alignment = 0;
    size_t workspace_bytes = 0;
  };
  Asked last_asked() const;
  /// The workspaces that products were given, in order; null where there was none.
  std::vector<const void*> workspaces() const;
};

}  // namespace gpukit::testing
