#include "gpukit/text/fields.h"

#include <cstdint>

#include "gpukit/base/error.h"

namespace gpukit::text {

Fields::Fields(const Json& object, std::string what, std::string path)
    : object_(&object), what_(std::move(what)), path_(std::move(path)) {
  if (!object.is_object())
    throw FormatError(what_ + ": " + (path_.empty() ? "the whole" : path_) + " must be an object");
}

std::string Fields::place(std::string_view name) const {
  return path_.empty() ? std::string(name) : name.empty() ? path_ : path_ + "." + std::string(name);
}

void Fields::fail(std::string_view name, const std::string& why) const {
  throw FormatError(what_ + ": " + place(name) + " " + why);
}

void Fields::unsupported(std::string_view name, const std::string& given) const {
  throw UnsupportedError(
      what_ + ": " + place(name) + " " + given +
      " is not one that is read here; the package `tokenizers` reads every kind: backend=\"tokenizers\"");
}

const Json* Fields::find(std::string_view name) const {
  const Json* value = object_->find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const std::string& Fields::string(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_string()) fail(name, "must be a string");
  return value->as_string();
}

std::string Fields::string_or(std::string_view name, std::string_view otherwise) const {
  return find(name) == nullptr ? std::string(otherwise) : string(name);
}

Fields Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) fail(name, "is missing");
  return Fields(*value, what_, place(name));
}

bool Fields::flag_or(std::string_view name, bool otherwise) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) fail(name, "must be true or false");
  return value->as_bool();
}

const Json::List& Fields::list(std::string_view name) const {
  static const Json::List empty;
  const Json* value = find(name);
  if (value == nullptr) return empty;
  if (!value->is_list()) fail(name, "must be a list");
  return value->items();
}

int32_t Fields::count(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr || !value->is_integer() || value->as_integer() < 0 || value->as_integer() > INT32_MAX)
    fail(name, "must be a whole number from 0 to 2147483647");
  return static_cast<int32_t>(value->as_integer());
}

Fields Fields::item(std::string_view name, size_t index) const {
  const Json::List& items = list(name);
  return Fields(items[index], what_, place(name) + "[" + std::to_string(index) + "]");
}

}  // namespace gpukit::text
