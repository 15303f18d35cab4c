// Where the bytes of a block that no one changes any more can be had again, so that its eviction copies nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace gpukit::memory {

class Storage;

/// Made by whoever filled the block, for freeze(). Thread-safe.
class ByteSource {
 public:
  struct Part {
    size_t offset = 0, bytes = 0;  // of the block
    bool whole = false;            // read() takes it in one piece only, which asks for a device the host can write
  };
  virtual ~ByteSource() = default;
  /// What a block must hold. What lies between the parts is nobody's.
  virtual const std::vector<Part>& parts() const = 0;
  /// Writes bytes [offset, offset + bytes) of the block, which lie in one part, to host memory. Called by several
  /// threads at a time, with no lock held that another thread could wait for. Must launch nothing and allocate nothing
  /// of a device. What it throws is what the user of the block gets; the block stays away then.
  virtual void read(size_t offset, void* to, size_t bytes) = 0;
};

/// The block will not be written any more. Its first eviction copies the bytes to host memory, where they stay; later
/// ones copy nothing. With `source` no eviction does: the bytes come from there again. A launch that writes the block
/// makes it an ordinary one. No-op for a block that is not managed. Throws Error when the parts of the source do not
/// lie in the block.
void freeze(Storage& storage, std::shared_ptr<ByteSource> source = nullptr);
/// Someone else may write it: an ordinary block again.
void melt(Storage& storage) noexcept;

}  // namespace gpukit::memory
