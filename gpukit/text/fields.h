// Members of a JSON object, read so that every error names the place: `tokenizer: model.vocab must be an object`.
#pragma once

#include <string>
#include <string_view>

#include "gpukit/base/json.h"

namespace gpukit::text {

/// A view: the Json must outlive it.
class Fields {
 public:
  /// `what` is the file's kind, `path` where `object` lies in it. Throws FormatError unless it is an object.
  Fields(const Json& object, std::string what, std::string path = {});

  const Json::Members& members() const { return object_->members(); }
  /// Null for a member that is missing or null.
  const Json* find(std::string_view name) const;
  // These throw FormatError for a member of another kind, the first two also for one that is missing.
  const std::string& string(std::string_view name) const;
  Fields object(std::string_view name) const;
  std::string string_or(std::string_view name, std::string_view otherwise) const;
  bool flag_or(std::string_view name, bool otherwise) const;
  const Json::List& list(std::string_view name) const;  // missing: empty
  /// An id or a count: 0 to 2^31 - 1. Missing: an error.
  int32_t count(std::string_view name) const;
  /// The objects of a list, by place.
  Fields item(std::string_view list, size_t index) const;

  [[noreturn]] void fail(std::string_view name, const std::string& why) const;
  [[noreturn]] void unsupported(std::string_view name, const std::string& given) const;

 private:
  std::string place(std::string_view name) const;

  const Json* object_;
  std::string what_, path_;
};

}  // namespace gpukit::text
