#include "tests/emulator/compile.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gpukit/base/sha256.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/settings.h"

namespace emulator {
namespace {

namespace fs = std::filesystem;

std::string entries(const std::string& file, const std::vector<std::string>& expressions) {
  std::string text = "#include \"tests/emulator/device.h\"\n#include \"" + file +
                     "\"\nextern \"C\" const ::emulator::Kernel* emulator_kernels() {\n"
                     "  static const ::emulator::Kernel kernels[] = {\n";
  for (const std::string& expression : expressions) text += "    ::emulator::kernel<&" + expression + ">(),\n";
  return text + "    {}};\n  return kernels;\n}\n";
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// What the compiler called the kernels.
std::vector<std::string> names_in(const fs::path& library) {
  std::vector<std::string> names;
  void* handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  auto kernels = reinterpret_cast<Kernels>(handle == nullptr ? nullptr : dlsym(handle, kKernels));
  if (kernels == nullptr) return names;
  for (const Kernel* kernel = kernels(); kernel->address != nullptr; ++kernel) {
    Dl_info info;
    dladdr(kernel->address, &info);
    names.emplace_back(info.dli_sname);
  }
  return names;
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

}  // namespace

Compiled compile(const Source& main, const std::vector<Source>& headers, const std::vector<std::string>& expressions,
                 const std::vector<std::string>& options) {
  const Settings& s = settings();
  const std::string file = "emulated/" + fs::path(main.name).filename().string();
  std::string chosen;
  for (const std::string& option : options)
    if (option.rfind("-D", 0) == 0 || option.rfind("--define-macro=", 0) == 0)
      chosen += " '-D" + option.substr(option[1] == 'D' ? 2 : option.find('=') + 1) + "'";
  const std::string program = entries(file, expressions);
  gpukit::Sha256 hash;
  for (const char* name : {"machine.h", "device.h", "device_math.h", "device_warp.h", "rewrite.cpp"})
    hash.field(read(fs::path(s.root) / "tests/emulator" / name));
  for (const std::string& text : {s.compiler, std::to_string(s.arch), chosen, program, main.text}) hash.field(text);
  for (const Source& header : headers) {
    hash.field(header.name);
    hash.field(header.text);
  }
  const std::string key = gpukit::hex(hash.finish()).substr(0, 32);
  const fs::path library = fs::path(s.cache) / (std::string(kKernelFile).substr(1) + key + ".so");
  if (fs::exists(library)) return {library.string(), {}, names_in(library)};

  const fs::path work = fs::path(s.cache) / (key + "." + std::to_string(getpid()));
  fs::create_directories(work);
  write(work / "entries.cpp", program);
  write(work / file, rewrite(main.text));
  for (const Source& header : headers) write(work / header.name, rewrite(header.text));
  const std::string log = quoted(work / "log");
  const std::string sanitize = " -fsanitize=thread,alignment,bounds";
  std::string command =
      s.compiler + " -std=c++20 -O1 -g1 -w -fPIC -ffp-contract=off -fno-exceptions -fno-rtti" +
      " -fno-strict-aliasing -fno-threadsafe-statics -ftemplate-backtrace-limit=3 -ferror-limit=4 -D__CUDA_ARCH__=" +
      std::to_string(s.arch * 10) + chosen + sanitize + " -I" + quoted(work) + " -I" + quoted(fs::path(s.root)) +
      " -c -o " + quoted(work / "entries.o") + " " + quoted(work / "entries.cpp") + " > " + log + " 2>&1 && " +
      s.compiler + " -shared -o " + quoted(work / "library.so") + " " + quoted(work / "entries.o") + " " +
      quoted(fs::path(s.library)) + " -lm >> " + log + " 2>&1";
  Compiled made;
  const int code = std::system(command.c_str());
  made.log = read(work / "log");
  if (code == 0) {
    fs::rename(work / "library.so", library);
    made.library = library.string();
  }
  std::error_code ignored;
  if (code == 0 || std::getenv("GPUKIT_EMULATOR_KEEP") == nullptr) fs::remove_all(work, ignored);
  if (code == 0) made.names = names_in(library);
  return made;
}

}  // namespace emulator
