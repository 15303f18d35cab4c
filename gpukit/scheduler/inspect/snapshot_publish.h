// A file with a snapshot that a program keeps fresh, for `pygpukit top` in another terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/base/json.h"

namespace gpukit::scheduler {

/// Where programs publish unless told otherwise: `pygpukit/run` in the user's cache folder, private to the user.
/// Throws Error when there is no such folder.
std::string publish_folder();

/// Writes a snapshot now and every `interval_s` seconds from a thread of the library, each whole or not at all. An
/// empty path is `<process id>.json` in publish_folder(), removed again at the end. Replaces what was published before.
/// Gives the path. Throws ArgumentError, FileError, Error.
std::string publish_snapshot(const std::string& path, double interval_s);
/// Also called at the end of the process. Nothing when nothing is published.
void stop_publishing() noexcept;
/// The path in use, if any.
std::optional<std::string> published_path();

struct PublishedFile {
  std::string path;
  int64_t process_id = 0;
  double age_s = 0;       // since it was written
  double interval_s = 0;  // how often it is written
  /// It is late by more than a few intervals: the program has ended or hangs.
  bool stale() const;
};
/// What programs of this user publish in publish_folder(), the freshest first.
std::vector<PublishedFile> published_files();
/// A snapshot that was published. Throws FileError, FormatError when it is none.
Json read_published(const std::string& path);

}  // namespace gpukit::scheduler
