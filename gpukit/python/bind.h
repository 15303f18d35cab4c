// What every *_py.cpp includes: converters between Python and the library, and the scope of a call.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/array/array.h"
#include "gpukit/base/scalar.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/python/arguments.h"
#include "gpukit/python/gil.h"
#include "gpukit/runtime/session.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gpukit::python {

/// Enters the session of Python's ContextVar and releases the GIL for its life. One per call into the library.
class CallScope {
 public:
  CallScope() : CallScope(nullptr) {}
  /// A call that only submits work on `target`'s device: on a GPU whose stream is not near full it cannot block, and
  /// giving the GIL up and taking it again would cost more than it gives.
  explicit CallScope(const Array* target);
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  std::shared_ptr<const runtime::Session> session_;  // null: the default session
  std::optional<runtime::SessionGuard> guard_;
  std::optional<GilReleased> released_;  // empty: the GIL is kept
};

// Python objects whose type the stubs show.
using ArrayObject = nb::typed<nb::object, Array>;
using AnyObject = nb::typed<nb::object, nb::any>;
using IntTuple = nb::typed<nb::tuple, int, nb::ellipsis>;
using AnyDict = nb::typed<nb::dict, nb::str, nb::any>;
using AnyList = nb::typed<nb::list, nb::any>;
struct DTypeObject : nb::object {
  NB_OBJECT(DTypeObject, nb::object, "pygpukit.core.dtypes.DataType", check)
  static bool check(PyObject* object);
};

/// A new GPUArray. Cheaper than nb::cast.
ArrayObject wrap(Array&& array);

/// An array, or a Python or NumPy number. Throws TypeError naming op and argument for anything else
/// (a NumPy array gets a hint: `use gp.from_numpy`).
Operand to_operand(const char* op, const char* argument, nb::handle value);
/// The same for operators: nullopt for anything else.
std::optional<Operand> try_operand(const char* op, nb::handle value);
/// Throws TypeError naming op and argument.
const Array& to_array(const char* op, const char* argument, nb::handle value);
/// None gives null.
const Array* to_optional_array(const char* op, const char* argument, nb::handle value);
/// Null for anything but a GPUArray.
const Array* try_array(nb::handle value);
/// DataType, name, NumPy dtype, or Python type. Throws DTypeError `Unsupported dtype ...`.
DType to_dtype(nb::handle value);
std::optional<DType> to_optional_dtype(nb::handle value);
DTypeObject from_dtype(DType dtype);
/// Anything with __index__. Throws TypeError naming op and argument.
int64_t to_int(const char* op, const char* argument, nb::handle value);
/// Integers of 0 to 2^64 - 1. Throws ArgumentError for others, TypeError for what is none.
uint64_t to_uint64(const char* op, const char* argument, nb::handle value);
/// None: nullopt.
std::optional<int64_t> to_optional_int(const char* op, const char* argument, nb::handle value);
/// One number, not a sequence: an int, anything else with __index__, an array of no dimensions.
bool is_one_int(nb::handle value);
/// Items of an argument at most: an array of the host can claim more than memory holds, without having them.
inline constexpr size_t kMaxItems = size_t{1} << 22;
/// The items a sequence or iterator has now: code that reading one of them runs cannot change the others. Throws
/// TypeError naming op and argument for anything else, ShapeError for more than `limit`.
nb::tuple to_items(const char* op, const char* argument, nb::handle value, size_t limit = kMaxItems);
/// An int, or a sequence of at most `limit` ints. Every list of sizes, axes, counts and indices comes through here.
std::vector<int64_t> to_ints(const char* op, const char* argument, nb::handle value, size_t limit = kMaxItems);
/// The same for shapes. Throws TypeError / ShapeError naming op.
Dims to_dims(const char* op, nb::handle value, const char* argument = "shape");
IntTuple from_dims(const Dims& dims);
/// None: nullopt. An int or a sequence of ints, normalised by the op itself.
std::optional<Dims> to_optional_axes(const char* op, nb::handle value);
/// An int, or 1 to 3 of them; what is not given is 1.
std::array<int64_t, 3> to_extent(const char* op, const char* argument, nb::handle value);
/// None: nullopt. Throws what the object's own __bool__ throws.
std::optional<bool> to_optional_bool(nb::handle value);
/// The UTF-8 text of a str, zero bytes included. Throws TypeError naming op and argument, UnicodeEncodeError.
std::string to_text(const char* op, const char* argument, nb::handle value);
/// repr(value) for messages: at most 200 characters, any of which may be half of a pair.
std::string shown(nb::handle value);
/// A str of any bytes: what is not UTF-8 is written as \\xff.
nb::str from_text(std::string_view text);
/// Device, name or None (default device).
Device to_device(nb::handle value);
Scalar to_scalar(const char* op, const char* argument, nb::handle value);

/// The Python session in force here, or null for the default one. For code that holds the GIL and makes no CallScope.
std::shared_ptr<const runtime::Session> context_session();
/// The same by value, with the default one spelled out: what a new scope starts from.
runtime::Session outer_session();
/// Makes `session` current in Python's context until `owner` calls pop_session. Scopes nest. With `over` the scope does
/// not keep the owner alive, and has ended once that is true; the GIL guards it.
void push_session(nb::handle owner, runtime::Session session, std::shared_ptr<const bool> over = nullptr);
/// Throws Error when `owner` did not enter the innermost scope.
void pop_session(nb::handle owner);
/// Who entered the innermost scope; not valid outside of all.
nb::object innermost_scope();

/// Runs `f(const Array* out)` inside a CallScope. Returns the very `out` object when one is given, else a new GPUArray.
template <typename F>
ArrayObject with_out(const char* op, nb::handle out, F&& f) {
  const Array* target = to_optional_array(op, "out", out);
  if (target != nullptr) {
    CallScope scope(target);
    f(target);
  } else {
    std::optional<Array> value;
    {
      CallScope scope;
      value.emplace(f(nullptr));
    }
    return wrap(std::move(*value));
  }
  return nb::borrow(out);
}

/// Same for results that are always new.
template <typename F>
auto in_scope(F&& f) {
  CallScope scope;
  return f();
}

}  // namespace gpukit::python
