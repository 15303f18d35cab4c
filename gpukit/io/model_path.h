// Where the files of a model are on this disk. Nothing is ever downloaded.
#pragma once

#include <string>

namespace gpukit::io {

/// `name` itself where it is a file or a folder; else the folder of the model `name` or `owner/name` in the cache that
/// Hugging Face's tools keep ($HF_HUB_CACHE, $HF_HOME/hub, ~/.cache/huggingface/hub): the revision of refs/main, or the
/// only one. `cache`: another folder of that kind. Throws FileError that says where it looked, FormatError for a broken
/// cache.
std::string find_model(const std::string& name, const std::string& cache = {});

/// The folder that config.json, tokenizer.json and the like lie in: that of a file, or the path of a folder.
std::string model_folder(const std::string& path);

}  // namespace gpukit::io
