#include "gpukit/io/model_path.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"

namespace gpukit::io {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/// `name` or `owner/name`, whose folder cannot lie outside of the cache.
bool is_model_name(std::string_view name) {
  const size_t slash = name.find('/');
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), is_name_character);
  };
  if (slash == std::string_view::npos) return is_part(name);
  return is_part(name.substr(0, slash)) && is_part(name.substr(slash + 1));
}

std::optional<std::string> hub_folder() {
  if (auto folder = env::get("HF_HUB_CACHE")) return folder;
  if (auto home = env::get("HF_HOME")) return files::join(*home, "hub");
#ifdef _WIN32
  const auto user = env::get("USERPROFILE");
  const auto cache = user ? std::optional(files::join(*user, ".cache")) : std::nullopt;
#else
  const auto cache = files::user_cache_folder();
#endif
  if (!cache) return std::nullopt;
  return files::join(files::join(*cache, "huggingface"), "hub");
}

/// The commit that refs/main holds; empty when there is no such file.
std::string main_commit(const std::string& model) {
  const std::string path = files::join(files::join(model, "refs"), "main");
  if (!files::is_file(path)) return {};
  std::string commit = files::read_file(path);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  if (commit.empty() || commit.front() == '.' || !std::all_of(commit.begin(), commit.end(), is_name_character))
    throw FormatError(path + ": does not hold the name of a revision");
  return commit;
}

std::string snapshot(const std::string& model) {
  const std::string folder = files::join(model, "snapshots");
  if (const std::string commit = main_commit(model); !commit.empty()) {
    const std::string path = files::join(folder, commit);
    if (!files::is_folder(path)) throw FileError(path, ENOENT, "cannot find the revision of refs/main:");
    return path;
  }
  std::vector<std::string> revisions;
  if (files::is_folder(folder))
    for (const files::Entry& entry : files::list_folder(folder)) revisions.push_back(files::join(folder, entry.name));
  std::erase_if(revisions, [](const std::string& path) { return !files::is_folder(path); });
  if (revisions.size() != 1)
    throw FileError(folder, 0,
                    "refs/main is missing and there are " + std::to_string(revisions.size()) + " revisions in");
  return revisions.front();
}

}  // namespace

std::string find_model(const std::string& name, const std::string& cache) {
  if (files::is_file(name) || files::is_folder(name)) return name;
  std::string looked;
  if (const auto hub = cache.empty() ? hub_folder() : cache; hub && is_model_name(name)) {
    std::string folder = "models--" + name;
    if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
    const std::string model = files::join(*hub, folder);
    if (files::is_folder(model)) return snapshot(model);
    looked = ", nor a model in " + *hub + " (hf download " + name + " puts it there)";
  }
  throw FileError(name, ENOENT, "no file or folder" + looked + " is named");
}

std::string model_folder(const std::string& path) {
  if (files::is_folder(path)) return path;
  const size_t slash = path.find_last_of("/\\");
  if (slash == std::string::npos) return ".";
  return slash == 0 ? path.substr(0, 1) : path.substr(0, slash);
}

}  // namespace gpukit::io
