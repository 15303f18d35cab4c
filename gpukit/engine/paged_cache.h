// Keys and values of many sequences in pages, handed out as sequences grow.
#pragma once

#include <span>
#include <vector>

#include "gpukit/memory/eviction_group.h"
#include "gpukit/models/llm/config.h"
#include "gpukit/ops/kv_cache/kv_cache.h"

namespace gpukit::engine {

/// One page holds the same tokens in every layer. Sequences have numbers from 0, the rows of the block tables. Several
/// may hold one page that is full: it is free when the last lets go.
class PagedCache {
 public:
  struct Options {
    int64_t num_pages = 0, page_size = 64, max_sequences = 1;
    int64_t max_tokens = 0;        // of one sequence
    DType dtype = DType::float32;  // float16, bfloat16, float32; int8 with a scale for each token and head;
                                   // float8_e4m3 of the numbers themselves
  };
  using Pages = std::vector<int32_t>;

  /// Throws ArgumentError, OutOfMemoryError.
  PagedCache(const llm::TransformerConfig& config, const Options& options, Device device);

  const std::vector<KvCache>& layers() const { return layers_; }
  const Options& options() const { return options_; }
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }
  const Pages& pages(int64_t sequence) const { return tables_[at(sequence)]; }
  int64_t pages_of(int64_t sequence) const { return static_cast<int64_t>(pages(sequence).size()); }
  int64_t pages_for(int64_t tokens) const { return (tokens + options_.page_size - 1) / options_.page_size; }
  /// Pages that no sequence has, and that are not among `pages`.
  int64_t pages_beside(std::span<const int32_t> pages) const;
  int64_t nbytes() const;
  /// The keys and values leave the device and come back with the group from now on.
  void join(memory::EvictionGroup& group) const;

  /// Pages for the first `tokens` tokens of a sequence. False, and nothing changed, when too few are free.
  bool reserve(int64_t sequence, int64_t tokens);
  /// Gives a sequence that has no pages those that detach() gave, or that hold() holds for it.
  void attach(int64_t sequence, Pages pages);
  /// Takes its pages away from a sequence; they are not free.
  Pages detach(int64_t sequence);
  /// One more holder of each, who calls free().
  void hold(std::span<const int32_t> pages);
  void free(std::span<const int32_t> pages);
  /// Copies the first `tokens` tokens of a page in every layer, in stream order.
  void copy_page(int32_t from, int32_t to, int64_t tokens);
  /// Writes the tables to device memory if they changed, in stream order. Before a forward.
  void upload();

 private:
  static size_t at(int64_t i) { return static_cast<size_t>(i); }
  void set_row(int64_t sequence);

  Options options_;
  std::vector<KvCache> layers_;
  std::vector<Pages> tables_;
  Pages free_;                    // the last one is handed out next
  std::vector<int32_t> holders_;  // of each page
  std::vector<int32_t> rows_;     // of all block tables, -1 where there is no page
  int64_t max_pages_ = 0;
  bool changed_ = true;
};

}  // namespace gpukit::engine
