#include "gpukit/jit/options.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace gpukit::jit {
namespace {

constexpr std::string_view kPtxas[] = {"-Xptxas", "--ptxas-options"};
/// Each has a value: `-Xcompiler -fPIC`, `-Xcompiler=-fPIC`.
constexpr std::string_view kOthersWithValue[] = {"-Xcompiler", "--compiler-options", "-Xlinker", "--linker-options",
                                                 "-Xnvlink",   "--nvlink-options",   "-ccbin",   "--compiler-bindir",
                                                 "-gencode",   "--generate-code",    "-t",       "--threads",
                                                 "-O",         "--optimize"};
constexpr std::string_view kOthers[] = {"-O0",
                                        "-O1",
                                        "-O2",
                                        "-O3",
                                        "-g",
                                        "--debug",
                                        "-m64",
                                        "-v",
                                        "--verbose",
                                        "-Wno-deprecated-gpu-targets",
                                        "-expt-relaxed-constexpr",
                                        "--expt-relaxed-constexpr",
                                        "-extended-lambda",
                                        "--extended-lambda",
                                        "-expt-extended-lambda",
                                        "--expt-extended-lambda"};

template <size_t kCount>
bool is_one_of(const std::string_view (&list)[kCount], std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

/// Walks over options; a value stands in the same text, after `=` or a space, or is the next text.
class Reader {
 public:
  explicit Reader(const std::vector<std::string>& given) : given_(given) {}
  bool done() const { return at_ == given_.size(); }
  std::string_view flag() const { return text().substr(0, text().find_first_of("= ")); }
  const std::string& text_with_value() const { return given_[at_]; }

  /// Moves past the option. Empty when it has no value.
  std::string_view take_value() {
    const std::string_view whole = text();
    ++at_;
    if (const size_t end = whole.find_first_of("= "); end != std::string_view::npos) return whole.substr(end + 1);
    return at_ < given_.size() ? std::string_view(given_[at_++]) : std::string_view();
  }
  void skip() { ++at_; }

 private:
  std::string_view text() const { return given_[at_]; }
  const std::vector<std::string>& given_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> nvrtc_options(const std::vector<std::string>& given, std::vector<std::string>* passed_over) {
  std::vector<std::string> options;
  for (Reader reader(given); !reader.done();) {
    const std::string_view flag = reader.flag();
    const std::string whole = reader.text_with_value();
    if (is_one_of(kPtxas, flag)) {
      // NVRTC takes one at a time, nvcc a list.
      std::string_view list = reader.take_value();
      while (!list.empty()) {
        const size_t end = std::min(list.find_first_of(", "), list.size());
        if (end > 0) options.push_back("--ptxas-options=" + std::string(list.substr(0, end)));
        list.remove_prefix(std::min(end + 1, list.size()));
      }
    } else if (flag == "-res-usage" || flag == "--resource-usage") {
      reader.skip();
      options.push_back("--ptxas-options=-v");
    } else if (whole == "-std" || whole == "--std") {
      options.push_back("--std=" + std::string(reader.take_value()));
    } else if (is_one_of(kOthersWithValue, flag)) {
      const std::string_view value = reader.take_value();
      if (passed_over != nullptr)
        passed_over->push_back(whole.size() > flag.size() ? whole : whole + " " + std::string(value));
    } else if (is_one_of(kOthers, whole)) {
      reader.skip();
      if (passed_over != nullptr) passed_over->push_back(whole);
    } else {
      reader.skip();
      options.push_back(whole);
    }
  }
  return options;
}

}  // namespace gpukit::jit
