// Parameters of kernels that users write as expressions: `T x, raw float32 y`, and the dtypes of a call's letters.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/ops/common/operand.h"

namespace gpukit::custom {

struct Parameter {
  std::string name;
  char letter = '\0';            // of a generic type, or none
  DType dtype = DType::float32;  // without a letter
  bool raw = false;              // the whole array, read by index
};

/// `op` and `argument` are for messages. Throws ArgumentError for what is no list of types and names, for names that
/// are no identifiers, are reserved or stand twice in `names` and here; DTypeError for types that are none.
std::vector<Parameter> parse_parameters(const std::string& op, const char* argument, std::string_view text,
                                        std::vector<std::string>* names);
/// Throws ArgumentError for what cannot name a kernel.
void check_kernel_name(const char* op, const std::string& name);

/// The type as the kernels of this family spell it: `float`, `float16`, `complex<float>`.
const char* spelled(DType dtype);

/// The dtype of each letter in a call.
class Letters {
 public:
  explicit Letters(const std::string& kernel) : kernel_(kernel) {}
  // Parameters must outlive it.
  /// The letter of an array's parameter has its dtype; another type must be it. Throws DTypeError.
  void take(const Parameter& parameter, const Array& array);
  /// A number: only where no array has said more. It takes bool, int64, float32 or complex64.
  void take_number(const Parameter& parameter, const Scalar& number);
  /// Throws DTypeError for a letter that no argument has given a dtype.
  DType of(const Parameter& parameter) const;
  /// `typedef float T;` for each letter that has a dtype.
  std::string typedefs() const;
  /// A character for each letter's dtype: part of the key of a variant.
  std::string key() const;

 private:
  const std::string& kernel_;
  std::optional<DType> dtypes_[128];
  const std::string* from_[128] = {};  // the name of the parameter that said so
};

/// The element of a number for a parameter. Throws DTypeError, ArgumentError naming kernel and parameter.
ElementBytes number_of(const std::string& kernel, const Parameter& parameter, DType dtype, const Scalar& number);

}  // namespace gpukit::custom
