// A shared library opened at run time.
#pragma once

#include <string>

namespace gpukit::driver {

class Dynlib {
 public:
  Dynlib() = default;
  Dynlib(Dynlib&& other) noexcept;
  Dynlib& operator=(Dynlib&& other) noexcept;
  ~Dynlib() { close(); }

  /// Opens a file by path, or a name that the system's loader searches. On failure the result is empty and `reason`
  /// (may be null) says why.
  static Dynlib open(const std::string& path_or_name, std::string* reason);
  /// The library of this name if the process has it already, else empty.
  static Dynlib find_loaded(const std::string& name);

  explicit operator bool() const { return handle_ != nullptr; }
  /// Null when the library does not export it.
  void* symbol(const char* name) const;
  /// The file the system loaded; the name given to open() when it does not say.
  const std::string& path() const { return path_; }
  /// Keeps the library in the process for good.
  void leak() { handle_ = nullptr; }
  void close() noexcept;

 private:
  Dynlib(void* handle, const std::string& asked);
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace gpukit::driver
