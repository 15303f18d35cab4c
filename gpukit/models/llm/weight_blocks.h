// The weights of a model in a few large blocks, which can be read from the checkpoint again.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gpukit/io/safetensors.h"
#include "gpukit/models/llm/causal_transformer.h"
#include "gpukit/models/llm/residence.h"

namespace gpukit::llm {

/// Moves the arrays of a model into frozen blocks of its group: those whose bytes follow from tensors of the file by
/// a cast or, on the CPU, by an exchange of rows and columns into blocks that are read from there again; all others
/// (quantised and packed ones, tables) into blocks of which host memory keeps a copy once they have left.
class WeightBlocks {
 public:
  WeightBlocks(const io::TensorFile& file, std::shared_ptr<Residence> residence)
      : file_(file), residence_(std::move(residence)) {}

  const std::shared_ptr<Residence>& residence() const { return residence_; }
  /// The array is made of these tensors, one below the other. `turned`: they lie in the file as [columns, rows].
  void note(const Array& array, std::vector<std::string> tensors, bool turned = false);
  /// After each block of layers was added to `parts`, whose room is reserved: moves them when they are many bytes.
  void added(CausalTransformer::Parts& parts);
  /// Moves what is left.
  void finish(CausalTransformer::Parts& parts);

 private:
  struct Origin {
    std::vector<std::string> tensors;
    bool turned = false;
  };
  struct Segment;
  class Source;
  struct Placement;

  void move(CausalTransformer::Parts& parts, size_t first_block, bool all);
  std::vector<Segment> segments_of(const Array& array, size_t at) const;

  const io::TensorFile file_;
  const std::shared_ptr<Residence> residence_;
  std::map<std::weak_ptr<memory::Storage>, Origin, std::owner_less<>> origins_;
  std::set<const memory::Storage*> blocks_;
  size_t moved_blocks_ = 0;
};

}  // namespace gpukit::llm
