// Part of a file to the memory of a device.
// Internal to io.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/base/files.h"

namespace gpukit::io {

/// Reads a part of a file by several threads. Throws FileError, and FormatError naming `what` where the file ends.
void read_part(const files::ReadableFile& file, const std::string& what, int64_t offset, void* to, int64_t bytes);

/// Fills a contiguous array from `offset` of a file on. On a GPU the threads read into the page-locked ring of the
/// transfer engine, whose copies run on the current stream meanwhile. Lets signals through. Throws as read_part does,
/// and inside a capture.
void read_into(const Array& array, const files::ReadableFile& file, const std::string& what, int64_t offset);

/// The two ways of it, for tests: into memory the host can write, and through the ring.
void read_in_place(const Array& array, const files::ReadableFile& file, const std::string& what, int64_t offset);
void read_through_ring(const Array& array, const files::ReadableFile& file, const std::string& what, int64_t offset);

}  // namespace gpukit::io
