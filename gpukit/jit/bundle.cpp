#include "gpukit/jit/bundle.h"

#include <algorithm>
#include <mutex>

#include "gpukit/base/error.h"
#include "gpukit/base/log.h"

namespace gpukit::jit {
namespace {

// Magic; length of the header; the header (compiler, archs, count); the index (key, offset, size: sorted by key);
// SHA-256 of all that; the entries, each with its own checksum.
constexpr std::string_view kMagic =
    "GPUKIT\x01"
    "B";
constexpr size_t kIndexEntry = sizeof(Key) + 16;

std::string_view index_entry(std::string_view file, size_t index_offset, size_t i) {
  return file.substr(index_offset + i * kIndexEntry, kIndexEntry);
}

struct Process {
  std::mutex mutex;
  bool looked = false;
  std::string path;
  std::string reason;
  std::unique_ptr<Bundle> bundle;
};

Process& process() {
  static Process* state = new Process;
  return *state;
}

}  // namespace

std::unique_ptr<Bundle> Bundle::open(const std::string& path) {
  std::unique_ptr<Bundle> result(new Bundle);
  result->path_ = path;
  result->file_ = files::Mapping::open(path);
  const std::string_view file = result->file_.text();
  auto bad = [&](const char* what) { return FormatError("kernel bundle " + path + ": " + what); };

  Reader reader(file);
  if (reader.raw(kMagic.size()) != kMagic) throw bad("not a kernel bundle of this version");
  const std::string_view header = reader.field();
  Reader fields(header);
  result->compiler_.major = static_cast<int>(fields.number());
  result->compiler_.minor = static_cast<int>(fields.number());
  const uint64_t num_archs = fields.number();
  for (uint64_t i = 0; i < num_archs && fields.ok(); ++i) result->archs_.emplace_back(fields.field());
  const uint64_t count = fields.number();
  if (!reader.ok() || !fields.at_end() || count > file.size() / kIndexEntry) throw bad("damaged header");
  result->count_ = count;
  result->index_offset_ = kMagic.size() + 8 + header.size();
  result->data_offset_ = result->index_offset_ + count * kIndexEntry + sizeof(Sha256Digest);
  if (result->data_offset_ > file.size()) throw bad("cut short");
  const size_t hashed = result->data_offset_ - sizeof(Sha256Digest);
  if (bytes_of(sha256(file.substr(0, hashed))) != file.substr(hashed, sizeof(Sha256Digest))) throw bad("damaged index");
  return result;
}

std::optional<Image> Bundle::find(const Key& key) const {
  const std::string_view file = file_.text();
  size_t low = 0, high = count_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    const std::string_view found = index_entry(file, index_offset_, middle).substr(0, sizeof(Key));
    if (found < bytes_of(key)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == count_) return {};
  Reader entry(index_entry(file, index_offset_, low));
  if (entry.raw(sizeof(Key)) != bytes_of(key)) return {};
  const uint64_t offset = entry.number(), size = entry.number();
  const size_t data_bytes = file.size() - data_offset_;
  if (offset > data_bytes || size > data_bytes - offset) return {};
  return decode(key, file.substr(data_offset_ + offset, size));
}

void write_bundle(const std::string& path, CompilerVersion compiler, const std::vector<std::string>& archs,
                  std::vector<std::pair<Key, std::string>> entries) {
  std::sort(entries.begin(), entries.end());
  entries.erase(
      std::unique(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
      entries.end());
  Writer header;
  header.number(static_cast<uint64_t>(compiler.major));
  header.number(static_cast<uint64_t>(compiler.minor));
  header.number(archs.size());
  for (const std::string& arch : archs) header.field(arch);
  header.number(entries.size());

  Writer writer;
  writer.raw(kMagic);
  writer.field(header.bytes());
  uint64_t offset = 0;
  for (const auto& [key, bytes] : entries) {
    writer.raw(bytes_of(key));
    writer.number(offset);
    writer.number(bytes.size());
    offset += bytes.size();
  }
  const Sha256Digest checksum = sha256(writer.bytes());
  writer.raw(bytes_of(checksum));
  for (const auto& [key, bytes] : entries) writer.raw(bytes);
  files::write_file(path, writer.bytes());
}

const Bundle* bundle() {
  Process& state = process();
  std::string warning;
  const Bundle* found = nullptr;
  {
    std::lock_guard lock(state.mutex);
    if (!state.looked) {
      state.looked = true;
      if (state.path.empty()) {
        state.reason = "no kernel bundle is installed";
      } else if (!files::is_file(state.path)) {
        state.reason = "no kernel bundle at " + state.path;
      } else {
        try {
          state.bundle = Bundle::open(state.path);
        } catch (const std::exception& e) {
          state.reason = warning = e.what();
        }
      }
    }
    found = state.bundle.get();
  }
  if (!warning.empty()) log(LogLevel::warning, warning);
  return found;
}

std::string bundle_reason() {
  bundle();
  std::lock_guard lock(process().mutex);
  return process().reason;
}

void set_bundle_path(const std::string& path) {
  Process& state = process();
  std::lock_guard lock(state.mutex);
  if (state.looked && path == state.path) return;
  // A bundle already handed out may be in use: it stays mapped.
  static_cast<void>(state.bundle.release());
  state.path = path;
  state.looked = false;
  state.reason.clear();
}

}  // namespace gpukit::jit
