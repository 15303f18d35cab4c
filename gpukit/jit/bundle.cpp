#include "gpukit/jit/bundle.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/base/log.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/jit/compress.h"

namespace gpukit::jit {
namespace {

// Magic; length of the header; the header (compiler, archs, counts); the blocks (unpacked size, offset, packed size);
// the index (key, block, offset in it, size: sorted by key); SHA-256 of all that; the blocks. One whose two sizes are
// equal is not packed. Entries have checksums.
constexpr std::string_view kMagic =
    "GPUKIT\x03"
    "B";
constexpr size_t kBlockRow = 24;
constexpr size_t kIndexRow = sizeof(Key) + 24;
constexpr size_t kBlockBytes = size_t{1} << 20;  // unpacked: a first use waits for one block
constexpr size_t kMaxBlockBytes = size_t{1} << 30;

struct Process {
  std::mutex mutex;
  bool looked = false;
  std::string path;
  std::string reason;
  std::unique_ptr<Bundle> bundle;
  std::vector<std::unique_ptr<Bundle>> retired;
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
  const uint64_t num_blocks = fields.number(), count = fields.number();
  const size_t limit = file.size() / kBlockRow;
  if (!reader.ok() || !fields.at_end() || count > limit || num_blocks > limit) throw bad("damaged header");
  result->count_ = count;
  result->num_blocks_ = num_blocks;
  result->blocks_offset_ = kMagic.size() + 8 + header.size();
  result->index_offset_ = result->blocks_offset_ + num_blocks * kBlockRow;
  result->data_offset_ = result->index_offset_ + count * kIndexRow + sizeof(Sha256Digest);
  if (result->data_offset_ > file.size()) throw bad("cut short");
  const size_t hashed = result->data_offset_ - sizeof(Sha256Digest);
  if (bytes_of(sha256(file.substr(0, hashed))) != file.substr(hashed, sizeof(Sha256Digest))) throw bad("damaged index");
  return result;
}

std::optional<std::string_view> Bundle::block(size_t number, std::shared_ptr<const std::string>* unpacked) const {
  if (number >= num_blocks_) return {};
  const std::string_view file = file_.text();
  Reader row(file.substr(blocks_offset_ + number * kBlockRow, kBlockRow));
  const uint64_t raw = row.number(), offset = row.number(), size = row.number();
  const size_t data_bytes = file.size() - data_offset_;
  if (offset > data_bytes || size > data_bytes - offset || raw > kMaxBlockBytes) return {};
  const std::string_view held = file.substr(data_offset_ + offset, size);
  if (raw == size) return held;
  std::lock_guard lock(mutex_);
  if (last_block_ == nullptr || last_number_ != number) {
    auto text = decompress(held, raw);
    if (!text) return {};
    last_number_ = number;
    last_block_ = std::make_shared<const std::string>(*std::move(text));
  }
  *unpacked = last_block_;
  return std::string_view(**unpacked);
}

std::optional<std::string_view> Bundle::row_of(const Key& key) const {
  const std::string_view file = file_.text();
  auto row = [&](size_t i) { return file.substr(index_offset_ + i * kIndexRow, kIndexRow); };
  size_t low = 0, high = count_;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (row(middle).substr(0, sizeof(Key)) < bytes_of(key)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == count_ || row(low).substr(0, sizeof(Key)) != bytes_of(key)) return {};
  return row(low);
}

std::optional<Image> Bundle::find(const Key& key) const {
  const auto found = row_of(key);
  if (!found) return {};
  Reader entry(found->substr(sizeof(Key)));
  const uint64_t number = entry.number(), offset = entry.number(), size = entry.number();
  std::shared_ptr<const std::string> unpacked;
  const auto text = block(number, &unpacked);
  if (!text || offset > text->size() || size > text->size() - offset) return {};
  return decode(key, text->substr(offset, size));
}

void write_bundle(const std::string& path, CompilerVersion compiler, const std::vector<std::string>& archs,
                  std::vector<BundleEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const BundleEntry& a, const BundleEntry& b) {
    return a.group != b.group ? a.group < b.group : a.key < b.key;
  });
  const auto same = [](const BundleEntry& a, const BundleEntry& b) { return a.key == b.key; };
  entries.erase(std::unique(entries.begin(), entries.end(), same), entries.end());

  struct Row {
    Key key;
    uint64_t block, offset, size;
  };
  std::vector<Row> rows;
  std::vector<std::string> raw;
  std::vector<char> plain;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool starts = i == 0 || entries[i].group != entries[i - 1].group || raw.back().size() >= kBlockBytes;
    if (starts || entries[i].alone || entries[i - 1].alone) {
      raw.emplace_back();
      plain.push_back(entries[i].alone);
    }
    rows.push_back({entries[i].key, raw.size() - 1, raw.back().size(), entries[i].bytes.size()});
    raw.back() += entries[i].bytes;
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.key < b.key; });
  std::vector<std::string> packed(raw.size());
  parallel_for(static_cast<int64_t>(raw.size()), 1, [&](int64_t begin, int64_t end) {
    for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if (plain[i] == 0) packed[i] = compress(raw[i]);
      if (plain[i] != 0 || packed[i].size() >= raw[i].size()) packed[i] = raw[i];
    }
  });

  Writer header;
  header.number(static_cast<uint64_t>(compiler.major));
  header.number(static_cast<uint64_t>(compiler.minor));
  header.number(archs.size());
  for (const std::string& arch : archs) header.field(arch);
  header.number(raw.size());
  header.number(rows.size());

  Writer writer;
  writer.raw(kMagic);
  writer.field(header.bytes());
  uint64_t offset = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    writer.number(raw[i].size());
    writer.number(offset);
    writer.number(packed[i].size());
    offset += packed[i].size();
  }
  for (const Row& row : rows) {
    writer.raw(bytes_of(row.key));
    writer.number(row.block);
    writer.number(row.offset);
    writer.number(row.size);
  }
  const Sha256Digest checksum = sha256(writer.bytes());
  writer.raw(bytes_of(checksum));
  for (const std::string& bytes : packed) writer.raw(bytes);
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
  if (state.bundle != nullptr) state.retired.push_back(std::move(state.bundle));
  state.path = path;
  state.looked = false;
  state.reason.clear();
}

}  // namespace gpukit::jit
