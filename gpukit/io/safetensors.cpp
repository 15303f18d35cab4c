#include "gpukit/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/json.h"
#include "gpukit/io/file_copy.h"
#include "gpukit/io/model_path.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit::io {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they lie in the file");

constexpr std::string_view kTensorSuffix = ".safetensors", kIndexSuffix = ".safetensors.index.json";

/// One .safetensors file and its table.
struct OpenFile {
  files::ReadableFile file;
  SafeTensorsHeader header;
  std::unordered_map<std::string_view, const TensorInfo*> by_name;

  static std::unique_ptr<const OpenFile> open(const std::string& path) {
    files::ReadableFile file = files::ReadableFile::open(path);
    const auto fail = [&](const std::string& why) { throw FormatError(path + ": at byte 0: " + why); };
    if (file.size() < 8) fail("the file has " + std::to_string(file.size()) + " bytes, not a SafeTensors file");
    uint64_t length = 0;
    read_part(file, "the length of the header", 0, &length, 8);
    if (length > static_cast<uint64_t>(kMaxHeaderBytes))
      fail("a header of " + std::to_string(length) + " bytes, " + std::to_string(kMaxHeaderBytes) + " are the most");
    if (length > static_cast<uint64_t>(file.size() - 8))
      fail("a header of " + std::to_string(length) + " bytes, the file has " + std::to_string(file.size()));
    std::string text(length, '\0');
    read_part(file, "the header", 8, text.data(), static_cast<int64_t>(length));
    SafeTensorsHeader header = parse_safetensors_header(path, text, file.size());
    auto opened = std::make_unique<OpenFile>(OpenFile{std::move(file), std::move(header), {}});
    for (const TensorInfo& tensor : opened->header.tensors) opened->by_name.emplace(tensor.name, &tensor);
    return opened;
  }
};

bool is_shard_name(std::string_view name) {
  return name.size() > kTensorSuffix.size() && name.ends_with(kTensorSuffix) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == std::string_view::npos;
}

/// The one file of a folder that holds its tensors.
std::string find_in_folder(const std::string& folder) {
  std::vector<std::string> indexes, singles;
  for (const files::Entry& entry : files::list_folder(folder)) {
    if (entry.name.front() == '.') continue;
    if (entry.name.ends_with(kIndexSuffix)) indexes.push_back(entry.name);
    if (entry.name.ends_with(kTensorSuffix)) singles.push_back(entry.name);
  }
  for (const auto& [found, usual] :
       {std::pair(&indexes, "model.safetensors.index.json"), std::pair(&singles, "model.safetensors")}) {
    if (found->size() == 1) return files::join(folder, found->front());
    if (std::find(found->begin(), found->end(), usual) != found->end()) return files::join(folder, usual);
    if (!found->empty())
      throw FormatError(folder + ": holds " + std::to_string(found->size()) + " files like " + found->front() +
                        ": name the one to read");
  }
  throw FormatError(folder + ": holds no .safetensors file");
}

}  // namespace

struct TensorFile::State {
  struct Shard {
    std::string path;
    std::vector<std::string> names;  // that the index says it holds
    std::unique_ptr<const OpenFile> opened;
  };

  std::string path;
  bool sharded = false;
  std::vector<std::string> names;
  std::unordered_map<std::string_view, Shard*> shard_of;
  std::vector<std::unique_ptr<Shard>> shards;
  std::mutex mutex;  // of Shard::opened and kept
  std::map<std::string, std::vector<std::byte>, std::less<>> kept;

  void read_index();
  const OpenFile& open(Shard& shard);
  /// Both stay where they are.
  std::pair<const OpenFile*, const TensorInfo*> find(std::string_view name);
};

void TensorFile::State::read_index() {
  const auto fail = [&](const std::string& why) { throw FormatError(path + ": " + why); };
  const files::ReadableFile file = files::ReadableFile::open(path);
  if (file.size() > kMaxHeaderBytes)
    fail("an index of " + std::to_string(file.size()) + " bytes, " + std::to_string(kMaxHeaderBytes) + " are the most");
  std::string text(static_cast<size_t>(file.size()), '\0');
  read_part(file, "the index", 0, text.data(), file.size());
  Json root;
  try {
    root = Json::parse(text);
  } catch (const FormatError& e) {
    fail(e.what());
  }
  const Json* map = root.is_object() ? root.find("weight_map") : nullptr;
  if (map == nullptr || !map->is_object() || map->members().empty()) fail("there is no weight_map of names to files");
  std::unordered_map<std::string_view, Shard*> by_file;
  const std::string folder = model_folder(path);
  names.reserve(map->members().size());
  for (const auto& [name, value] : map->members()) {
    if (!value.is_string() || !is_shard_name(value.as_string()))
      fail("tensor '" + name + "': weight_map does not name a .safetensors file of the same folder");
    Shard*& shard = by_file[value.as_string()];
    if (shard == nullptr) {
      shards.push_back(std::make_unique<Shard>(Shard{files::join(folder, value.as_string()), {}, nullptr}));
      shard = shards.back().get();
    }
    names.push_back(name);
    shard->names.push_back(name);
    shard_of.emplace(names.back(), shard);
  }
}

const OpenFile& TensorFile::State::open(Shard& shard) {
  std::lock_guard lock(mutex);
  if (shard.opened == nullptr) {
    auto opened = OpenFile::open(shard.path);
    for (const std::string& name : shard.names)
      if (!opened->by_name.contains(name))
        throw FormatError(path + ": tensor '" + name + "' is not in " + shard.path + ", where weight_map has it");
    shard.opened = std::move(opened);
  }
  return *shard.opened;
}

std::pair<const OpenFile*, const TensorInfo*> TensorFile::State::find(std::string_view name) {
  const auto found = shard_of.find(name);
  if (found == shard_of.end()) throw NotFoundError(path + ": there is no tensor '" + std::string(name) + "'");
  const OpenFile& file = open(*found->second);
  return {&file, file.by_name.at(name)};
}

TensorFile TensorFile::open(const std::string& path) {
  auto state = std::make_shared<State>();
  state->path = find_model(path);
  if (files::is_folder(state->path)) state->path = find_in_folder(state->path);
  state->sharded = state->path.ends_with(".json");
  if (state->sharded) {
    state->read_index();
    return TensorFile(std::move(state));
  }
  state->shards.push_back(std::make_unique<State::Shard>(State::Shard{state->path, {}, OpenFile::open(state->path)}));
  State::Shard* only = state->shards.front().get();
  for (const TensorInfo& tensor : only->opened->header.tensors) {
    state->names.push_back(tensor.name);
    state->shard_of.emplace(tensor.name, only);
  }
  return TensorFile(std::move(state));
}

const std::string& TensorFile::path() const { return state_->path; }
bool TensorFile::is_sharded() const { return state_->sharded; }
const std::vector<std::string>& TensorFile::names() const { return state_->names; }
bool TensorFile::contains(std::string_view name) const { return state_->shard_of.contains(name); }
const TensorInfo& TensorFile::info(std::string_view name) const { return *state_->find(name).second; }

const TextPairs& TensorFile::metadata() const {
  static const TextPairs none;
  return state_->sharded ? none : state_->shards.front()->opened->header.metadata;
}

int64_t TensorFile::file_bytes() const {
  std::lock_guard lock(state_->mutex);
  int64_t sum = 0;
  for (const auto& shard : state_->shards)
    if (shard->opened != nullptr) sum += shard->opened->file.size();
  return sum;
}

namespace {

std::string shown(const TensorInfo& tensor) {
  return "tensor '" + tensor.name + "' at byte " + std::to_string(tensor.offset);
}

}  // namespace

std::vector<std::byte> TensorFile::bytes(std::string_view name) const {
  const auto [file, tensor] = state_->find(name);
  std::vector<std::byte> data(static_cast<size_t>(tensor->bytes));
  read_part(file->file, shown(*tensor), tensor->offset, data.data(), tensor->bytes);
  return data;
}

std::span<const std::byte> TensorFile::kept_bytes(std::string_view name) const {
  {
    std::lock_guard lock(state_->mutex);
    if (const auto found = state_->kept.find(name); found != state_->kept.end()) return found->second;
  }
  std::vector<std::byte> data = bytes(name);
  std::lock_guard lock(state_->mutex);
  return state_->kept.try_emplace(std::string(name), std::move(data)).first->second;
}

Array TensorFile::load(std::string_view name, Device device, std::optional<DType> cast) const {
  const std::string names[] = {std::string(name)};
  const Array array = load(names, device).front();
  return cast ? astype(array, *cast) : array;
}

std::vector<Array> TensorFile::load(std::span<const std::string> names, Device device) const {
  std::vector<FilePart> parts;
  std::vector<Array> arrays;
  for (const std::string& name : names) {
    const auto [file, tensor] = state_->find(name);
    arrays.push_back(Array::empty(tensor->shape, tensor->dtype, device));
    parts.push_back({arrays.back(), &file->file, shown(*tensor), tensor->offset});
  }
  read_into(parts);
  return arrays;
}

void TensorFile::read_again(std::string_view name, int64_t offset, void* to, int64_t bytes) const {
  const auto [file, tensor] = state_->find(name);
  read_run(file->file, shown(*tensor), tensor->offset + offset, to, bytes);
  if (!file->file.unchanged())
    throw FileError(file->file.path(), 0,
                    "cannot read " + shown(*tensor) + " again: it has been changed since it was opened:");
}

void save_safetensors(const std::string& path, std::span<const std::pair<std::string, Array>> tensors,
                      const TextPairs& metadata) {
  std::vector<const std::pair<std::string, Array>*> order;
  for (const auto& tensor : tensors) {
    if (tensor.first == "__metadata__")
      throw ArgumentError("save_safetensors", "name", "not be reserved", tensor.first);
    if (safetensors_name(tensor.second.dtype()) == nullptr)
      throw DTypeError("save_safetensors", "'" + tensor.first + "'", "be of a dtype of the format",
                       name(tensor.second.dtype()));
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(-itemsize(a->second.dtype()), std::string_view(a->first)) <
           std::pair(-itemsize(b->second.dtype()), std::string_view(b->first));
  });

  Json header = Json::object();
  const auto add = [](Json& to, const std::string& name, Json value) {
    to.members().emplace_back(name, std::move(value));
  };
  if (!metadata.empty()) {
    Json pairs = Json::object();
    for (const auto& [key, text] : metadata) add(pairs, key, Json(text));
    add(header, "__metadata__", std::move(pairs));
  }
  int64_t end = 0;
  for (const auto* tensor : order) {
    const Array& array = tensor->second;
    Json shape = Json::list(), offsets = Json::list(), entry = Json::object();
    for (const int64_t extent : array.shape()) shape.push_back(Json(extent));
    offsets.push_back(Json(end));
    offsets.push_back(Json(end += array.nbytes()));
    add(entry, "dtype", Json(safetensors_name(array.dtype())));
    add(entry, "shape", std::move(shape));
    add(entry, "data_offsets", std::move(offsets));
    add(header, tensor->first, std::move(entry));
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  // What cannot be read back is not written: names used twice, text that is not UTF-8, a header that is too long.
  try {
    const int64_t length = static_cast<int64_t>(text.size());
    if (length > kMaxHeaderBytes) throw FormatError("the header is too long");
    parse_safetensors_header(path, text, 8 + length + end);
  } catch (const FormatError& e) {
    throw ArgumentError("save_safetensors", "tensors", "have names and metadata that can be read back", e.what());
  }

  std::string file(8 + text.size() + static_cast<size_t>(end), '\0');
  const uint64_t length = text.size();
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, text.data(), text.size());
  char* at = file.data() + 8 + text.size();
  for (const auto* tensor : order) {
    to_host(at, contiguous(tensor->second), "save_safetensors");
    at += tensor->second.nbytes();
  }
  files::write_file(path, file);
}

}  // namespace gpukit::io
