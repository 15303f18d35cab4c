#include "gpukit/engine/paged_cache.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::engine {

namespace {
constexpr const char* kOp = "PagedCache";
constexpr int64_t kAlignment = 256;
}  // namespace

PagedCache::PagedCache(const llm::TransformerConfig& config, const Options& options, Device device)
    : options_(options) {
  const auto positive = [](const char* argument, int64_t value) {
    if (value < 1) throw ArgumentError(kOp, argument, "be positive", std::to_string(value));
  };
  positive("num_pages", options_.num_pages);
  positive("page_size", options_.page_size);
  positive("max_sequences", options_.max_sequences);
  positive("max_tokens", options_.max_tokens);
  const DType dtype = options_.dtype;
  if (dtype != DType::float16 && dtype != DType::bfloat16 && dtype != DType::float32 && dtype != DType::int8 &&
      dtype != DType::float8_e4m3)
    throw DTypeError(kOp, "dtype", "be float16, bfloat16, float32, int8 or float8_e4m3", name(dtype));
  max_pages_ = pages_for(options_.max_tokens);
  KvCache cache;
  cache.block_tables = Array::empty({options_.max_sequences, max_pages_}, DType::int32, device);
  const Dims shape{options_.num_pages, options_.page_size, config.kv_heads(), config.dim()};
  // One block for all: it is moved, and found room for, as one.
  const int64_t bytes = shape.product() * itemsize(dtype), step = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const Array block = Array::empty({2 * config.num_layers, step}, DType::uint8, device);
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (const int64_t i : {0, 1}) {
      const Array part = block.select(0, 2 * layer + i).narrow(0, 0, bytes).bitcast(dtype).reshape_view(shape);
      (i == 0 ? cache.k : cache.v) = part;
    }
    if (dtype == DType::float8_e4m3) cache.k_scale = cache.v_scale = ones({config.kv_heads()}, DType::float32, device);
    if (dtype == DType::int8)
      for (Array* part : {&cache.k_scale, &cache.v_scale})
        *part = Array::empty({shape[0], shape[1], shape[2]}, DType::float32, device);
    layers_.push_back(cache);
  }
  tables_.resize(at(options_.max_sequences));
  rows_.assign(at(options_.max_sequences * max_pages_), -1);
  holders_.assign(at(options_.num_pages), 0);
  for (int64_t page = options_.num_pages; page-- > 0;) free_.push_back(static_cast<int32_t>(page));
}

int64_t PagedCache::nbytes() const {
  int64_t bytes = layers_.front().block_tables.nbytes();
  for (const KvCache& cache : layers_) {
    bytes += cache.k.nbytes() + cache.v.nbytes();
    if (cache.k_scale.defined()) bytes += cache.k_scale.nbytes() + cache.v_scale.nbytes();
  }
  return bytes;
}

void PagedCache::join(memory::EvictionGroup& group) const {
  group.add(layers_.front().block_tables.storage());
  for (const KvCache& cache : layers_)
    for (const Array* part : {&cache.k, &cache.v, &cache.k_scale, &cache.v_scale})
      if (part->defined()) group.add(part->storage());
}

bool PagedCache::reserve(int64_t sequence, int64_t tokens) {
  Pages& pages = tables_[at(sequence)];
  const int64_t wanted = pages_for(tokens) - static_cast<int64_t>(pages.size());
  if (tokens > options_.max_tokens)
    throw ArgumentError(kOp, "tokens", "be at most " + std::to_string(options_.max_tokens), std::to_string(tokens));
  if (wanted > free_pages()) return false;
  if (wanted <= 0) return true;
  for (int64_t i = 0; i < wanted; ++i) {
    pages.push_back(free_.back());
    holders_[at(free_.back())] = 1;
    free_.pop_back();
  }
  set_row(sequence);
  return true;
}

void PagedCache::attach(int64_t sequence, Pages pages) {
  tables_[at(sequence)] = std::move(pages);
  set_row(sequence);
}

PagedCache::Pages PagedCache::detach(int64_t sequence) {
  Pages pages = std::move(tables_[at(sequence)]);
  tables_[at(sequence)].clear();
  set_row(sequence);
  return pages;
}

void PagedCache::hold(std::span<const int32_t> pages) {
  for (const int32_t page : pages) ++holders_[at(page)];
}

void PagedCache::free(std::span<const int32_t> pages) {
  for (auto page = pages.rbegin(); page != pages.rend(); ++page)
    if (--holders_[at(*page)] == 0) free_.push_back(*page);
}

int64_t PagedCache::pages_beside(std::span<const int32_t> pages) const {
  std::vector<bool> taken(holders_.size(), false);
  const auto take = [&](int32_t page) { taken[at(page)] = true; };
  std::for_each(pages.begin(), pages.end(), take);
  for (const Pages& table : tables_) std::for_each(table.begin(), table.end(), take);
  return std::count(taken.begin(), taken.end(), false);
}

void PagedCache::copy_page(int32_t from, int32_t to, int64_t tokens) {
  const auto copy = [&](const Array& all) {
    const Array numbers = is_storage_only(all.dtype()) ? all.bitcast(DType::uint8) : all;
    const auto part = [&](int32_t page) { return numbers.select(0, page).narrow(0, 0, tokens); };
    copy_into(part(to), part(from));
  };
  for (const KvCache& cache : layers_) {
    copy(cache.k);
    copy(cache.v);
    if (cache.k_scale.ndim() < 2) continue;  // undefined, or one for each head
    copy(cache.k_scale);
    copy(cache.v_scale);
  }
}

void PagedCache::set_row(int64_t sequence) {
  const Pages& pages = tables_[at(sequence)];
  const auto row = rows_.begin() + sequence * max_pages_;
  std::fill(std::copy(pages.begin(), pages.end(), row), row + max_pages_, -1);
  changed_ = true;
}

void PagedCache::upload() {
  if (!changed_) return;
  runtime::copy_from_host(write(layers_.front().block_tables), rows_.data(), rows_.size() * sizeof(int32_t));
  changed_ = false;
}

}  // namespace gpukit::engine
