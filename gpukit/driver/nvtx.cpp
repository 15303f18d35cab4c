#include "gpukit/driver/nvtx.h"

#include <vector>

#include "gpukit/base/env.h"
#include "gpukit/base/files.h"
#include "gpukit/driver/dynlib.h"
#include "gpukit/driver/library_search.h"

namespace gpukit::driver {

namespace {

#if defined(_WIN32)
constexpr const char* kName = "nvToolsExt64_1.dll";
constexpr const char* kFolder = "bin";
constexpr const char* kToolkitFolder = "bin";
#else
constexpr const char* kName = "libnvToolsExt.so.1";
constexpr const char* kFolder = "lib";
constexpr const char* kToolkitFolder = "lib64";
#endif

NvtxLibrary* g_replaced = nullptr;

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  auto add = [&](std::string folder, std::initializer_list<const char*> names) {
    for (const char* name : names) folder = files::join(folder, name);
    if (files::is_file(folder)) paths.push_back(std::move(folder));
  };
  for (const std::string& site : site_package_folders()) add(site, {"nvidia", "nvtx", kFolder, kName});
  if (auto conda = env::get("CONDA_PREFIX")) add(*conda, {kFolder, kName});
  paths.emplace_back(kName);
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"})
    if (auto root = env::get(variable)) add(*root, {kToolkitFolder, kName});
  return paths;
}

std::string fill(const Dynlib& library, NvtxTable* table) {
  table->push = reinterpret_cast<decltype(table->push)>(library.symbol("nvtxRangePushA"));
  table->pop = reinterpret_cast<decltype(table->pop)>(library.symbol("nvtxRangePop"));
  table->mark = reinterpret_cast<decltype(table->mark)>(library.symbol("nvtxMarkA"));
  return table->push && table->pop && table->mark ? "" : "has no nvtxRangePushA, nvtxRangePop and nvtxMarkA";
}

NvtxLibrary* look() {
  auto* found = new NvtxLibrary;
  std::vector<LibraryAttempt> attempts;
  auto* table = new NvtxTable;
  auto serves = [&](Dynlib library, const std::string& path, std::string reason) {
    if (library) reason = fill(library, table);
    if (!library || !reason.empty()) {
      attempts.push_back({path, std::move(reason)});
      return false;
    }
    found->table = table;
    found->path = library.path();
    library.leak();
    return true;
  };
  if (serves(Dynlib::find_loaded(kName), kName, "not loaded in this process")) return found;
  for (const std::string& path : candidates()) {
    std::string reason;
    Dynlib library = Dynlib::open(path, &reason);
    if (serves(std::move(library), path, reason)) return found;
  }
  delete table;
  found->reason = str(attempts);
  return found;
}

}  // namespace

const NvtxLibrary& nvtx() {
  if (g_replaced != nullptr) return *g_replaced;
  static const NvtxLibrary* found = look();
  return *found;
}

void replace_nvtx(const NvtxTable* table) {
  delete g_replaced;
  g_replaced = table == nullptr ? nullptr : new NvtxLibrary{table, "replaced", ""};
}

}  // namespace gpukit::driver
