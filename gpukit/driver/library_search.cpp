#include "gpukit/driver/library_search.h"

#include <initializer_list>
#include <mutex>
#include <utility>

#include "gpukit/base/env.h"
#include "gpukit/base/files.h"

namespace gpukit::driver {

namespace {

constexpr int kMajors[] = {13, 12};

struct SitePackages {
  std::mutex mutex;
  std::vector<std::string> folders;
  uint64_t version = 0;
};

SitePackages& site_packages() {
  static SitePackages* instance = new SitePackages;
  return *instance;
}

std::string join(std::string folder, std::initializer_list<const char*> names) {
  for (const char* name : names) folder = files::join(folder, name);
  return folder;
}

class Search {
 public:
  Search(NvidiaLibrary library, std::vector<LibraryAttempt>* missing) : library_(library), missing_(missing) {}

  void add_names(const char* place, bool loaded) {
    for (int major : kMajors) found.push_back({place, library_file_name(library_, major), major, loaded});
  }

  // Adds the library if one of the folders has it.
  void add_files(const std::string& place, int major, const std::vector<std::string>& folders) {
    std::string name = library_file_name(library_, major);
    for (const std::string& folder : folders) {
      std::string path = files::join(folder, name);
      if (files::is_file(path)) {
        found.push_back({place, std::move(path), major, false});
        return;
      }
    }
    if (missing_ != nullptr) missing_->push_back({files::join(folders.front(), name), "no such file"});
  }

  void add_wheels(const std::string& site) {
    std::string nvidia = files::join(site, "nvidia");
    if (!files::is_folder(nvidia)) {
      if (missing_ != nullptr) missing_->push_back({nvidia, "no such folder"});
      return;
    }
    std::string all = files::join(nvidia, "cu13");
    std::string one = files::join(nvidia, library_ == NvidiaLibrary::nvrtc ? "cuda_nvrtc" : "cublas");
#if defined(_WIN32)
    add_files("site-packages " + all, 13, {join(all, {"bin", "x86_64"}), join(all, {"bin"})});
    add_files("site-packages " + nvidia, 12, {join(one, {"bin"})});
#else
    add_files("site-packages " + all, 13, {join(all, {"lib"})});
    add_files("site-packages " + nvidia, 12, {join(one, {"lib"})});
#endif
  }

  // A toolkit or an environment of conda: everything of one major in one folder.
  void add_root(const char* variable, bool conda) {
    auto root = env::get(variable);
    if (!root) return;
    std::vector<std::string> folders;
#if defined(_WIN32)
    std::string base = conda ? files::join(*root, "Library") : *root;
    folders = {join(base, {"bin", "x64"}), join(base, {"bin"})};
#else
    if (!conda) folders.push_back(join(*root, {"lib64"}));
    folders.push_back(join(*root, {"lib"}));
    folders.push_back(join(*root, {"targets", "x86_64-linux", "lib"}));
#endif
    for (int major : kMajors) add_files(std::string(variable) + " " + *root, major, folders);
  }

  std::vector<LibraryCandidate> found;

 private:
  NvidiaLibrary library_;
  std::vector<LibraryAttempt>* missing_;
};

}  // namespace

std::string str(std::span<const LibraryAttempt> attempts) {
  if (attempts.empty()) return "nothing to try";
  std::string text = "tried ";
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (i != 0) text += ", ";
    text += attempts[i].path + " (" + attempts[i].reason + ")";
  }
  return text;
}

void set_site_packages(std::vector<std::string> folders) {
  SitePackages& site = site_packages();
  std::lock_guard lock(site.mutex);
  site.folders = std::move(folders);
  ++site.version;
}

std::vector<std::string> site_package_folders() {
  SitePackages& site = site_packages();
  std::lock_guard lock(site.mutex);
  return site.folders;
}

uint64_t site_packages_version() {
  SitePackages& site = site_packages();
  std::lock_guard lock(site.mutex);
  return site.version;
}

std::vector<LibraryCandidate> library_candidates(NvidiaLibrary library, std::vector<LibraryAttempt>* missing) {
  const std::vector<std::string> sites = site_package_folders();
  Search search(library, missing);
  search.add_names("this process", true);
  for (const std::string& site : sites) search.add_wheels(site);
  search.add_root("CONDA_PREFIX", true);
  search.add_names("system", false);
  search.add_root("CUDA_PATH", false);
  search.add_root("CUDA_HOME", false);
  return std::move(search.found);
}

std::string library_file_name(NvidiaLibrary library, int major) {
  std::string number = std::to_string(major);
#if defined(_WIN32)
  return library == NvidiaLibrary::nvrtc ? "nvrtc64_" + number + "0_0.dll" : "cublasLt64_" + number + ".dll";
#else
  return (library == NvidiaLibrary::nvrtc ? "libnvrtc.so." : "libcublasLt.so.") + number;
#endif
}

std::string nvrtc_builtins_name(int major, int minor) {
#if defined(_WIN32)
  return "nvrtc-builtins64_" + std::to_string(major) + std::to_string(minor) + ".dll";
#else
  return "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor);
#endif
}

}  // namespace gpukit::driver
