#include "gpukit/scheduler/compat/persistent_cache.h"

#include <algorithm>
#include <charconv>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/base/json.h"
#include "gpukit/base/sha256.h"
#include "gpukit/scheduler/compat/kernel_cache.h"
#include "gpukit/scheduler/dispatch/dispatch_queue.h"

namespace gpukit::scheduler {
namespace {

constexpr int64_t kFormat = 1;
constexpr std::string_view kSuffix = ".ptx.json";
constexpr const char* kIndex = "index.json";
constexpr size_t kMaxIndexBytes = size_t{64} << 20;

std::string hex16(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) text[static_cast<size_t>(i)] = kDigits[value & 15];
  return text;
}

std::optional<uint64_t> from_hex16(std::string_view text) {
  uint64_t value = 0;
  if (text.size() != 16) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string file_name(uint64_t key) { return hex16(key) + std::string(kSuffix); }

std::optional<uint64_t> key_of_file(std::string_view name) {
  if (name.size() <= kSuffix.size() || name.substr(name.size() - kSuffix.size()) != kSuffix) return std::nullopt;
  return from_hex16(name.substr(0, name.size() - kSuffix.size()));
}

double now() { return timestamp(real_clock()); }

std::string default_folder() {
#ifdef _WIN32
  const char* variable = "USERPROFILE";
#else
  const char* variable = "HOME";
#endif
  const auto home = env::get(variable);
  if (!home || home->empty())
    throw Error(std::string("PersistentCache: cache_dir must be given: ") + variable + " is not set");
  return files::join(files::join(*home, ".pygpukit"), "cache");
}

std::string text_of(const PersistentEntry& entry, uint64_t key, uint64_t arch) {
  Json json = Json::object();
  json.set("format", kFormat);
  json.set("key", hex16(key));
  json.set("arch", hex16(arch));
  json.set("name", entry.name);
  json.set("source_hash", hex16(entry.source_hash));
  json.set("options_hash", hex16(entry.options_hash));
  json.set("created_at", entry.created_at);
  json.set("sha256", hex(sha256(entry.ptx)));
  json.set("ptx", entry.ptx);
  return json.dump();
}

/// Throws FormatError for anything but what text_of wrote for this key and chip.
PersistentEntry parse_entry(std::string_view text, uint64_t key, uint64_t arch) {
  const Json json = Json::parse(text);
  auto hash = [&](const char* name) {
    const auto value = from_hex16(json.at(name).as_string());
    if (!value) throw FormatError(std::string(name) + " is not 16 hex digits");
    return *value;
  };
  if (json.at("format").as_integer() != kFormat) throw FormatError("another format");
  if (hash("key") != key || hash("arch") != arch) throw FormatError("of another key or chip");
  PersistentEntry entry;
  entry.name = json.at("name").as_string();
  entry.ptx = json.at("ptx").as_string();
  entry.source_hash = hash("source_hash");
  entry.options_hash = hash("options_hash");
  entry.created_at = json.at("created_at").as_number();
  if (json.at("sha256").as_string() != hex(sha256(entry.ptx))) throw FormatError("the checksum does not match");
  return entry;
}

}  // namespace

uint64_t ArchFingerprint::hash() const {
  std::vector<std::string> fields;
  for (int64_t value :
       {sm_version, global_memory, shared_memory_per_sm, max_registers_per_block, l2_cache_size, driver_version})
    fields.push_back(std::to_string(value));
  return hash_fields({fields.begin(), fields.end()});
}

bool ArchFingerprint::is_compatible(const ArchFingerprint& other) const {
  return sm_version == other.sm_version && driver_version == other.driver_version;
}

double PersistentCacheStats::hit_rate() const {
  return hits + misses == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
}

PersistentCache::PersistentCache(const PersistentCacheConfig& config, const ArchFingerprint& arch)
    : config_(config), arch_(arch), path_(config.cache_dir.empty() ? default_folder() : config.cache_dir) {
  if (config.max_entries < 1)
    throw ArgumentError("PersistentCacheConfig", "max_entries", "be at least 1", std::to_string(config.max_entries));
  if (config.max_size < 1)
    throw ArgumentError("PersistentCacheConfig", "max_size", "be at least 1 byte", std::to_string(config.max_size));
  if (!(config.ttl_seconds >= 0)) {
    throw ArgumentError("PersistentCacheConfig", "ttl_seconds", "be 0 (off) or more",
                        std::to_string(config.ttl_seconds));
  }
}

uint64_t PersistentCache::compute_key(uint64_t source_hash, std::string_view name, uint64_t options_hash,
                                      uint64_t arch_hash) {
  return hash_fields({hex16(source_hash), name, hex16(options_hash), hex16(arch_hash)});
}

uint64_t PersistentCache::hash_source(std::string_view source) { return hash_fields({source}); }

uint64_t PersistentCache::hash_options(const std::vector<std::string>& options) {
  return hash_fields({options.begin(), options.end()});
}

files::PrivateFolder& PersistentCache::folder() {
  if (folder_) return *folder_;
  folder_ = files::PrivateFolder::open(path_);
  read_index();
  if (config_.auto_cleanup) clean();
  return *folder_;
}

void PersistentCache::initialize() {
  std::lock_guard lock(mutex_);
  folder();
}

/// The files are the truth; the index adds the times and counts of use.
void PersistentCache::read_index() {
  known_.clear();
  total_bytes_ = 0;
  for (const files::Entry& file : folder_->list()) {
    const auto key = key_of_file(file.name);
    if (!key || !file.regular || !file.owned) continue;
    const double modified = static_cast<double>(file.modified_ns) * 1e-9;
    known_[*key] = {file.size, modified, modified, 0};
    total_bytes_ += file.size;
  }
  const auto text = folder_->read(kIndex, kMaxIndexBytes);
  if (!text) return;
  try {
    const Json index = Json::parse(*text);
    if (index.at("format").as_integer() != kFormat) throw FormatError("another format");
    for (const Json& item : index.at("entries").items()) {
      const auto key = from_hex16(item.at("key").as_string());
      auto found = key ? known_.find(*key) : known_.end();
      if (found == known_.end()) continue;
      found->second.created_at = item.at("created_at").as_number();
      found->second.last_access = std::max(found->second.last_access, item.at("last_access").as_number());
      found->second.access_count = item.at("access_count").as_integer();
    }
  } catch (const FormatError&) {
    ++stats_.load_errors;
  }
}

void PersistentCache::write_index() {
  Json entries = Json::list();
  for (const auto& [key, known] : known_) {
    Json item = Json::object();
    item.set("key", hex16(key));
    item.set("bytes", known.bytes);
    item.set("created_at", known.created_at);
    item.set("last_access", known.last_access);
    item.set("access_count", known.access_count);
    entries.push_back(std::move(item));
  }
  Json index = Json::object();
  index.set("format", kFormat);
  index.set("entries", std::move(entries));
  try {
    folder_->write(kIndex, index.dump());
  } catch (const FileError&) {
    // The entries themselves are complete without it.
    ++stats_.save_errors;
  }
}

void PersistentCache::drop(uint64_t key) {
  folder_->remove(file_name(key));
  auto found = known_.find(key);
  if (found == known_.end()) return;
  total_bytes_ -= found->second.bytes;
  known_.erase(found);
}

/// Drops the least recently used until this many more entries and bytes fit.
int64_t PersistentCache::make_room(int64_t entries, int64_t bytes) {
  auto full = [&] {
    return !known_.empty() && (static_cast<int64_t>(known_.size()) + entries > config_.max_entries ||
                               total_bytes_ + bytes > config_.max_size);
  };
  if (!full()) return 0;
  std::vector<std::pair<double, uint64_t>> by_use;
  for (const auto& [key, known] : known_) by_use.emplace_back(known.last_access, key);
  std::sort(by_use.begin(), by_use.end());
  int64_t count = 0;
  while (full()) {
    drop(by_use[static_cast<size_t>(count)].second);
    ++count;
    ++stats_.evictions;
  }
  return count;
}

int64_t PersistentCache::clean() {
  std::vector<uint64_t> old;
  if (config_.ttl_seconds > 0) {
    for (const auto& [key, known] : known_)
      if (now() - known.created_at > config_.ttl_seconds) old.push_back(key);
  }
  for (uint64_t key : old) drop(key);
  stats_.evictions += static_cast<int64_t>(old.size());
  const int64_t count = static_cast<int64_t>(old.size()) + make_room(0, 0);
  if (count > 0) write_index();
  return count;
}

std::optional<PersistentEntry> PersistentCache::get(uint64_t key) {
  std::lock_guard lock(mutex_);
  files::PrivateFolder& files = folder();
  const auto text = files.read(file_name(key), static_cast<size_t>(config_.max_size) * 8 + 4096);
  auto miss = [&] {
    ++stats_.misses;
    if (known_.contains(key)) drop(key);
    return std::nullopt;
  };
  if (!text) return miss();
  PersistentEntry entry;
  try {
    entry = parse_entry(*text, key, arch_.hash());
  } catch (const FormatError&) {
    ++stats_.load_errors;
    files.remove(file_name(key));
    return miss();
  }
  if (config_.ttl_seconds > 0 && now() - entry.created_at > config_.ttl_seconds) {
    files.remove(file_name(key));
    return miss();
  }
  Known& known = known_[key];
  if (known.bytes == 0) total_bytes_ += static_cast<int64_t>(text->size());
  known.bytes = static_cast<int64_t>(text->size());
  known.created_at = entry.created_at;
  known.last_access = now();
  ++known.access_count;
  ++stats_.hits;
  files.touch(file_name(key));
  entry.last_access = known.last_access;
  entry.access_count = known.access_count;
  return entry;
}

uint64_t PersistentCache::insert(std::string_view source, const std::string& name,
                                 const std::vector<std::string>& options, const std::string& ptx) {
  PersistentEntry entry;
  entry.name = name;
  entry.ptx = ptx;
  entry.source_hash = hash_source(source);
  entry.options_hash = hash_options(options);
  entry.created_at = now();
  const uint64_t key = compute_key(entry.source_hash, name, entry.options_hash, arch_.hash());
  const std::string text = text_of(entry, key, arch_.hash());
  const auto bytes = static_cast<int64_t>(text.size());
  if (bytes > config_.max_size) {
    throw ArgumentError("PersistentCache.insert", "ptx",
                        "fit in max_size (" + std::to_string(config_.max_size) + " bytes)",
                        std::to_string(bytes) + " bytes with its header");
  }
  std::lock_guard lock(mutex_);
  files::PrivateFolder& files = folder();
  if (known_.contains(key)) drop(key);
  make_room(1, bytes);
  try {
    files.write(file_name(key), text);
  } catch (const FileError&) {
    ++stats_.save_errors;
    throw;
  }
  known_[key] = {bytes, entry.created_at, entry.created_at, 0};
  total_bytes_ += bytes;
  write_index();
  return key;
}

bool PersistentCache::remove(uint64_t key) {
  std::lock_guard lock(mutex_);
  folder();
  const bool had = known_.contains(key);
  drop(key);
  if (had) write_index();
  return had;
}

void PersistentCache::clear() {
  std::lock_guard lock(mutex_);
  folder();
  while (!known_.empty()) drop(known_.begin()->first);
  write_index();
}

int64_t PersistentCache::cleanup() {
  std::lock_guard lock(mutex_);
  folder();
  return clean();
}

bool PersistentCache::contains(uint64_t key) {
  std::lock_guard lock(mutex_);
  folder();
  return known_.contains(key);
}

int64_t PersistentCache::size() {
  std::lock_guard lock(mutex_);
  folder();
  return static_cast<int64_t>(known_.size());
}

PersistentCacheStats PersistentCache::stats() {
  std::lock_guard lock(mutex_);
  folder();
  PersistentCacheStats stats = stats_;
  stats.entries = static_cast<int64_t>(known_.size());
  stats.total_size = total_bytes_;
  return stats;
}

}  // namespace gpukit::scheduler
