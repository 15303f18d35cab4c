// Parts of files to the memory of a device.
// Internal to io.
#pragma once

#include <span>
#include <string>

#include "gpukit/array/array.h"
#include "gpukit/base/files.h"

namespace gpukit::io {

/// Reads a part of a file by several threads. Throws FileError, and FormatError naming `what` where the file ends.
void read_part(const files::ReadableFile& file, const std::string& what, int64_t offset, void* to, int64_t bytes);
/// The same by this thread alone.
void read_run(const files::ReadableFile& file, const std::string& what, int64_t offset, void* to, int64_t bytes);

/// A contiguous array and where in a file its bytes lie.
struct FilePart {
  Array array;
  const files::ReadableFile* file = nullptr;
  std::string what;
  int64_t offset = 0;
};

/// Fills the arrays, which are of one device, by several threads; they hold the bytes when this returns. On a GPU each
/// thread reads into a chunk of the page-locked ring of the transfer engine, whose copy runs while others read. Lets
/// signals through. Throws as read_part does, and inside a capture.
void read_into(std::span<const FilePart> parts);

}  // namespace gpukit::io
