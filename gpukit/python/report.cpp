// What `pygpukit doctor` and `info` tell: libraries, environment, threads.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/env.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/driver/cublaslt.h"
#include "gpukit/driver/cuda.h"
#include "gpukit/driver/library_search.h"
#include "gpukit/driver/nvrtc.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

nb::object version_text(int major, int minor) {
  if (major == 0) return nb::none();
  return nb::str((std::to_string(major) + "." + std::to_string(minor)).c_str());
}

nb::dict entry(const char* name, const std::string& path, nb::object version, const std::string& reason) {
  nb::dict d;
  d["name"] = name;
  d["path"] = path.empty() ? nb::object(nb::none()) : nb::object(from_text(path));
  d["version"] = version;
  d["reason"] = reason;
  return d;
}

AnyList libraries() {
  std::string driver_path, driver_report, nvrtc_path, nvrtc_reason;
  int driver_version = 0;
  driver::NvrtcVersion nvrtc_version;
  const driver::CublasLtLibrary* cublaslt = nullptr;
  in_scope([&] {
    driver_version = driver::cuda_driver_version();
    driver_path = driver::cuda_library_path();
    if (driver::cuda_table() == nullptr) driver_report = driver::cuda_load_report();
    if (driver::nvrtc(&nvrtc_reason) != nullptr) nvrtc_reason.clear();
    nvrtc_version = driver::nvrtc_version();
    nvrtc_path = driver::nvrtc_path();
    cublaslt = &driver::cublaslt();
    return 0;
  });
  nb::list result;
  result.append(entry("CUDA driver", driver_path, version_text(driver_version / 1000, driver_version % 1000 / 10),
                      driver_report));
  result.append(entry("NVRTC", nvrtc_path, version_text(nvrtc_version.major, nvrtc_version.minor), nvrtc_reason));
  nb::object version = cublaslt->usable ? nb::object(nb::str(cublaslt->version.c_str())) : nb::object(nb::none());
  result.append(entry("cuBLASLt", cublaslt->path, version, cublaslt->reason));
  return result;
}

AnyList environment() {
  nb::list result;
  for (const env::Variable& variable : env::list()) {
    nb::dict d;
    d["name"] = variable.name;
    d["meaning"] = variable.meaning;
    d["valid"] = variable.valid;
    d["value"] = variable.value ? nb::object(from_text(*variable.value)) : nb::object(nb::none());
    result.append(d);
  }
  return result;
}

}  // namespace

void bind_report(nb::module_& m) {
  m.def("_set_site_packages", &driver::set_site_packages, "folders"_a, "Where NVIDIA's wheels may lie; internal.");
  m.def("_libraries", &libraries,
        "Every library that is opened at run time, with path and version or reason; internal.");
  m.def("_environment", &environment, "Every environment variable and its value; internal.");
  m.def(
      "get_driver_version", [] { return in_scope([] { return driver::cuda_driver_version(); }); },
      "CUDA version of the driver, 12040 for 12.4; 0 without one.");
  m.def("num_threads", &num_threads, "Threads the CPU backend uses.");
  m.def("set_num_threads", &set_num_threads, "count"_a,
        "Threads the CPU backend uses from now on; 0 is the default number.");
}

}  // namespace gpukit::python
