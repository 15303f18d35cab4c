#include "gpukit/jit/compiler.h"

#include <algorithm>
#include <charconv>

#include "gpukit/base/error.h"
#include "gpukit/driver/nvrtc.h"

namespace gpukit::jit {
namespace {

constexpr const char* kFormatVersion = "gpukit-kernel-1";
constexpr int kNvrtcInvalidOption = 5;

const driver::NvrtcTable& table() {
  std::string reason;
  const driver::NvrtcTable* nvrtc = driver::nvrtc(&reason);
  if (nvrtc == nullptr) throw NvrtcError(kNvrtcNotLoaded, reason);
  return *nvrtc;
}

/// A program of the compiler, destroyed with its scope.
class Program {
 public:
  Program(const driver::NvrtcTable& nvrtc, const CompileRequest& request) : nvrtc_(nvrtc), request_(request) {
    std::vector<const char*> texts, names;
    for (const EmbeddedFile* file : request.files) {
      texts.push_back(file->data);
      names.push_back(file->name);
    }
    check(nvrtc.nvrtcCreateProgram(&program_, request.source.c_str(), request.file.c_str(),
                                   static_cast<int>(names.size()), texts.data(), names.data()),
          "the program could not be made");
  }
  ~Program() { nvrtc_.nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void compile() {
    for (const std::string& expression : request_.expressions)
      check(nvrtc_.nvrtcAddNameExpression(program_, expression.c_str()), ("bad name expression " + expression).c_str());
    const std::string arch = "--gpu-architecture=" + request_.arch;
    std::vector<const char*> options = {arch.c_str()};
    for (const std::string& option : request_.options) options.push_back(option.c_str());
    check(nvrtc_.nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data()), "compilation failed");
  }

  std::string lowered(const std::string& expression) const {
    const char* name = nullptr;
    check(nvrtc_.nvrtcGetLoweredName(program_, expression.c_str(), &name), ("no kernel " + expression).c_str());
    return name;
  }

  std::string cubin() const { return bytes(nvrtc_.nvrtcGetCUBINSize, nvrtc_.nvrtcGetCUBIN, "no cubin"); }
  std::string ptx() const { return bytes(nvrtc_.nvrtcGetPTXSize, nvrtc_.nvrtcGetPTX, "no PTX"); }

  std::string log() const {
    std::string text = bytes(nvrtc_.nvrtcGetProgramLogSize, nvrtc_.nvrtcGetProgramLog, nullptr);
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }

 private:
  template <typename GetSize, typename Get>
  std::string bytes(GetSize get_size, Get get, const char* failure) const {
    size_t size = 0;
    int code = get_size(program_, &size);
    std::string result(size, '\0');
    if (code == 0 && size != 0) code = get(program_, result.data());
    if (code == 0) return result;
    if (failure != nullptr) check(code, failure);
    return {};
  }

  void check(int code, const char* what) const {
    if (code == 0) return;
    std::string text = request_.name + ": " + what + " for " + request_.arch;
    std::string log = program_ == nullptr ? std::string() : this->log();
    if (!log.empty()) text += "\n" + log;
    throw NvrtcError(code, text, std::move(log));
  }

  const driver::NvrtcTable& nvrtc_;
  const CompileRequest& request_;
  driver::nvrtcProgram program_ = nullptr;
};

void add_list(Sha256* hash, const std::vector<std::string>& values) {
  hash->field(std::to_string(values.size()));
  for (const std::string& value : values) hash->field(value);
}

}  // namespace

Key key_of(const CompileRequest& request, CompilerVersion compiler) {
  Sha256 hash;
  hash.field(kFormatVersion);
  hash.field(std::to_string(compiler.major) + "." + std::to_string(compiler.minor));
  hash.field(request.arch);
  add_list(&hash, request.options);
  add_list(&hash, request.expressions);
  hash.field(request.keep_ptx ? "ptx" : "");
  hash.field(request.source);
  hash.field(std::to_string(request.files.size()));
  for (const EmbeddedFile* file : request.files) {
    hash.field(file->name);
    hash.field({file->data, file->size});
  }
  return hash.finish();
}

bool compiler_available(std::string* reason) { return driver::nvrtc(reason) != nullptr; }

CompilerVersion compiler_version() {
  table();
  const driver::NvrtcVersion version = driver::nvrtc_version();
  return {version.major, version.minor};
}

std::string unsupported_arch(const std::string& arch) {
  const size_t digits = arch.find_first_of("0123456789");
  int number = 0;
  if (digits != std::string::npos) std::from_chars(arch.data() + digits, arch.data() + arch.size(), number);
  const std::vector<int> known = driver::nvrtc_archs();
  if (known.empty() || std::find(known.begin(), known.end(), number) != known.end()) return {};
  const CompilerVersion version = compiler_version();
  return "NVRTC " + std::to_string(version.major) + "." + std::to_string(version.minor) + " cannot make code for " +
         arch;
}

Image compile(const CompileRequest& request) {
  const driver::NvrtcTable& nvrtc = table();
  if (std::string why = unsupported_arch(request.arch); !why.empty()) {
    throw NvrtcError(kNvrtcInvalidOption, request.name + ": " + why);
  }
  Program program(nvrtc, request);
  program.compile();
  Image image;
  for (const std::string& expression : request.expressions)
    image.names.emplace_back(expression, program.lowered(expression));
  const bool is_virtual = request.arch.rfind("compute_", 0) == 0;
  if (is_virtual || request.keep_ptx) image.ptx = program.ptx();
  image.code = is_virtual ? image.ptx : program.cubin();
  if (!request.keep_ptx) image.ptx.clear();
  image.log = program.log();
  return image;
}

const std::vector<std::string>& builtin_options() {
  // No contraction of a * b + c: kernels say fma where they want one, so the CPU can compute the same bits.
  static const auto* options = new std::vector<std::string>{"--std=c++17", "--fmad=false", "-default-device"};
  return *options;
}

const char* error_code_name(int code) {
  switch (code) {
    case 0: return "Success";
    case 1: return "OutOfMemory";
    case 2: return "ProgramCreationFailure";
    case 3: return "InvalidInput";
    case 4: return "InvalidProgram";
    case 5: return "InvalidOption";
    case 6: return "Compilation";
    case 7: return "BuiltinOperationFailure";
    case 8: return "NoNameExpressionsAfterCompilation";
    case 9: return "NoLoweredNamesBeforeCompilation";
    case 10: return "NameExpressionNotValid";
    case kNvrtcNotLoaded: return "NotLoaded";
    case kNvrtcPtxLoadFailed: return "PtxLoadFailed";
    case kNvrtcFunctionNotFound: return "FunctionNotFound";
    case kNvrtcLaunchFailed: return "LaunchFailed";
    default: return "InternalError";
  }
}

}  // namespace gpukit::jit
