#include "gpukit/driver/dynlib.h"

#include <utility>

#if defined(_WIN32)
#include <windows.h>

#include <system_error>
#else
#include <dlfcn.h>
#if defined(__linux__)
#include <link.h>
#endif
#endif

namespace gpukit::driver {

namespace {

#if defined(_WIN32)

std::wstring wide(const std::string& text) {
  int length = MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), nullptr, 0);
  std::wstring result(static_cast<size_t>(length), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), static_cast<int>(text.size()), result.data(), length);
  return result;
}

std::string narrow(const wchar_t* text, int size) {
  int length = WideCharToMultiByte(CP_UTF8, 0, text, size, nullptr, 0, nullptr, nullptr);
  std::string result(static_cast<size_t>(length), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text, size, result.data(), length, nullptr, nullptr);
  return result;
}

std::string loaded_path(void* handle, const std::string& asked) {
  wchar_t path[32768];
  DWORD size = GetModuleFileNameW(static_cast<HMODULE>(handle), path, static_cast<DWORD>(std::size(path)));
  return size == 0 ? asked : narrow(path, static_cast<int>(size));
}

#else

std::string loaded_path([[maybe_unused]] void* handle, const std::string& asked) {
#if defined(__linux__)
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr && *map->l_name != '\0') {
    return map->l_name;
  }
#endif
  return asked;
}

#endif

}  // namespace

Dynlib::Dynlib(void* handle, const std::string& asked) : handle_(handle), path_(loaded_path(handle, asked)) {}

Dynlib::Dynlib(Dynlib&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

Dynlib& Dynlib::operator=(Dynlib&& other) noexcept {
  if (this != &other) {
    close();
    handle_ = std::exchange(other.handle_, nullptr);
    path_ = std::move(other.path_);
  }
  return *this;
}

#if defined(_WIN32)

Dynlib Dynlib::open(const std::string& path_or_name, std::string* reason) {
  bool is_path = path_or_name.find_first_of("/\\") != std::string::npos;
  // Neither form searches the current folder or PATH.
  DWORD flags = LOAD_LIBRARY_SEARCH_DEFAULT_DIRS | (is_path ? LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR : 0);
  HMODULE handle = LoadLibraryExW(wide(path_or_name).c_str(), nullptr, flags);
  if (handle != nullptr) return Dynlib(handle, path_or_name);
  if (reason != nullptr) *reason = std::system_category().message(static_cast<int>(GetLastError()));
  return {};
}

Dynlib Dynlib::find_loaded(const std::string& name) {
  HMODULE handle = nullptr;
  if (GetModuleHandleExW(0, wide(name).c_str(), &handle) == 0) return {};
  return Dynlib(handle, name);
}

void* Dynlib::symbol(const char* name) const {
  if (handle_ == nullptr) return nullptr;
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), name));
}

void Dynlib::close() noexcept {
  if (handle_ != nullptr) FreeLibrary(static_cast<HMODULE>(std::exchange(handle_, nullptr)));
}

#else

Dynlib Dynlib::open(const std::string& path_or_name, std::string* reason) {
  if (void* handle = dlopen(path_or_name.c_str(), RTLD_NOW | RTLD_LOCAL)) return Dynlib(handle, path_or_name);
  const char* text = dlerror();
  if (reason != nullptr) {
    *reason = text != nullptr ? text : "cannot be opened";
    // The loader begins with the name, which the caller has.
    if (reason->starts_with(path_or_name + ": ")) reason->erase(0, path_or_name.size() + 2);
  }
  return {};
}

Dynlib Dynlib::find_loaded(const std::string& name) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return handle == nullptr ? Dynlib() : Dynlib(handle, name);
}

void* Dynlib::symbol(const char* name) const { return handle_ == nullptr ? nullptr : dlsym(handle_, name); }

void Dynlib::close() noexcept {
  if (handle_ != nullptr) dlclose(std::exchange(handle_, nullptr));
}

#endif

}  // namespace gpukit::driver
