#include "gpukit/jit/source.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "gpukit/base/error.h"
#include "gpukit/jit/lexer.h"

namespace gpukit::jit {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

struct Include {
  std::string name;  // empty: computed by a macro
  bool angled = false;
};

/// The includes of a text, and whether it asks the preprocessor about files.
std::vector<Include> includes_of(std::string_view text, bool* asks_for_files) {
  std::vector<Include> found;
  for (const std::string& directive : directives(text)) {
    std::string_view rest = trimmed(directive);
    if (rest.find("__has_include") != std::string_view::npos) *asks_for_files = true;
    if (rest.substr(0, 7) != "include") continue;
    rest = trimmed(rest.substr(7));
    if (rest.substr(0, 5) == "_next") rest = {};
    const char close = rest.empty() ? '\0' : rest.front() == '"' ? '"' : rest.front() == '<' ? '>' : '\0';
    const size_t end = close == '\0' ? std::string_view::npos : rest.find(close, 1);
    if (end == std::string_view::npos) {
      found.push_back({});
    } else {
      found.push_back({std::string(rest.substr(1, end - 1)), close == '>'});
    }
  }
  return found;
}

/// Our own files say it plainly, at the start of a line, and include other headers than kernel sources for host code
/// only, behind a condition: those do not count. Reading every token would take longer than loading the kernel.
std::vector<Include> includes_of_embedded(std::string_view text) {
  constexpr std::string_view kWord = "#include \"";
  std::vector<Include> found;
  for (size_t at = text.find(kWord); at != std::string_view::npos; at = text.find(kWord, at + kWord.size())) {
    if (at != 0 && text[at - 1] != '\n') continue;
    const std::string_view rest = text.substr(at + kWord.size());
    const std::string_view name = rest.substr(0, rest.find('"'));
    if (name.ends_with(".cuh")) found.push_back({std::string(name)});
  }
  return found;
}

void visit(std::string_view text, bool embedded, Closure* closure) {
  bool asks_for_files = false;
  for (const Include& include : embedded ? includes_of_embedded(text) : includes_of(text, &asks_for_files)) {
    const EmbeddedFile* file = include.name.empty() ? nullptr : find_embedded(include.name);
    if (file == nullptr) {
      closure->complete = false;
      if (closure->missing.empty()) closure->missing = include.name;
      continue;
    }
    if (std::find(closure->files.begin(), closure->files.end(), file) != closure->files.end()) continue;
    closure->files.push_back(file);
    visit({file->data, file->size}, true, closure);
  }
  if (asks_for_files) closure->complete = false;
}

}  // namespace

const EmbeddedFile* find_embedded(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (name == file.name) return &file;
  return nullptr;
}

Closure include_closure(std::string_view text) {
  Closure closure;
  visit(text, false, &closure);
  return closure;
}

const std::vector<const EmbeddedFile*>& embedded_closure(std::string_view name) {
  const EmbeddedFile* file = find_embedded(name);
  if (file == nullptr) throw NotFoundError("kernel source " + std::string(name) + " is not in the library");
  // Modules of one source share the list: reading the texts for each would be most of its first use.
  static std::mutex mutex;
  static auto* known = new std::map<const EmbeddedFile*, std::vector<const EmbeddedFile*>>;
  std::lock_guard lock(mutex);
  if (const auto found = known->find(file); found != known->end()) return found->second;
  Closure closure;
  closure.files.push_back(file);
  visit({file->data, file->size}, true, &closure);
  if (!closure.complete) {
    throw NotFoundError("kernel source " + std::string(name) + " includes " + closure.missing +
                        ", which is not in the library");
  }
  return known->emplace(file, std::move(closure.files)).first->second;
}

}  // namespace gpukit::jit
