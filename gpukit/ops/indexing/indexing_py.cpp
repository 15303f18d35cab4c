#include "gpukit/ops/indexing/indexing_py.h"

#include <string>
#include <string_view>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/ops/indexing/index.h"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

/// A host array of integers or bools on its way to a device. Reading the object needs the GIL, the copy does not.
struct HostIndices {
  nb::object owner;
  const void* data = nullptr;
  Dims shape;
  DType dtype = DType::int64;

  Array upload(Device device) const { return from_host(data, shape, dtype, device); }
};

/// A NumPy array or a (nested) list. Throws IndexError for values that are neither integers nor bools.
HostIndices host_indices(const char* op, nb::handle value) {
  HostIndices result;
  nb::object array = numpy().attr("asarray")(value);
  const nb::object dtype = array.attr("dtype");
  const nb::str kind_name = nb::borrow<nb::str>(dtype.attr("kind"));
  const std::string_view kind = kind_name.c_str();
  const char* wanted = "int64";
  if (kind == "b") {
    result.dtype = DType::boolean;
    wanted = "bool";
  } else if (kind == "u") {
    result.dtype = DType::uint64;
    wanted = "uint64";
  } else if (kind != "i" && to_int(op, "key", array.attr("size")) != 0) {
    throw nb::index_error(
        (std::string(op) + ": an index array must have an integer or bool dtype, got " + shown(dtype)).c_str());
  }
  result.shape = to_dims(op, array.attr("shape"));
  result.owner = numpy().attr("ascontiguousarray")(array, wanted);
  result.data = PyLong_AsVoidPtr(nb::object(result.owner.attr("ctypes").attr("data")).ptr());
  return result;
}

std::optional<int64_t> slice_bound(PyObject* value) {
  if (value == Py_None) return std::nullopt;
  // Out of range for 64 bits means beyond either end.
  const Py_ssize_t bound = PyNumber_AsSsize_t(value, nullptr);
  if (bound == -1 && PyErr_Occurred() != nullptr) nb::raise_python_error();
  return static_cast<int64_t>(bound);
}

/// A key as items; host arrays are noted and uploaded by finish().
class Key {
 public:
  Key(const char* op, nb::handle key) : op_(op) {
    if (!PyTuple_Check(key.ptr())) {
      add(key);
      return;
    }
    const Py_ssize_t count = PyTuple_GET_SIZE(key.ptr());
    items_.reserve(static_cast<size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) add(PyTuple_GET_ITEM(key.ptr(), i));
  }

  const std::vector<IndexItem>& finish(Device device) {
    for (const Pending& pending : pending_) items_[pending.item] = pending.indices.upload(device);
    return items_;
  }

 private:
  struct Pending {
    size_t item;
    HostIndices indices;
  };

  void add(nb::handle value) {
    PyObject* p = value.ptr();
    if (PyLong_CheckExact(p)) {
      items_.emplace_back(to_int(op_, "key", value));
    } else if (PySlice_Check(p)) {
      const auto* slice = reinterpret_cast<PySliceObject*>(p);
      const auto start = slice_bound(slice->start), stop = slice_bound(slice->stop), step = slice_bound(slice->step);
      items_.emplace_back(IndexSlice{start, stop, step});
    } else if (p == Py_None) {
      items_.emplace_back(IndexNewAxis{});
    } else if (p == Py_Ellipsis) {
      items_.emplace_back(IndexEllipsis{});
    } else if (PyBool_Check(p)) {
      items_.emplace_back(p == Py_True);
    } else if (const Array* array = try_array(value)) {
      items_.emplace_back(*array);
    } else if (is_numpy_array(value) || PyList_Check(p) || PyTuple_Check(p) || is_numpy_bool(value)) {
      pending_.push_back({items_.size(), host_indices(op_, value)});
      items_.emplace_back(IndexEllipsis{});
    } else if (PyIndex_Check(p)) {
      items_.emplace_back(to_int(op_, "key", value));
    } else {
      throw nb::index_error((std::string(op_) +
                             ": a key holds integers, slices, ..., None and arrays of integers or bools, got " +
                             class_of(value))
                                .c_str());
    }
  }

  static bool is_numpy_bool(nb::handle value) { return is_numpy_scalar(value) && !PyIndex_Check(value.ptr()); }

  const char* op_;
  std::vector<IndexItem> items_;
  std::vector<Pending> pending_;
};

/// The `indices` argument: a GPUArray, or host integers that are copied to `device`.
class Indices {
 public:
  Indices(const char* op, nb::handle value) {
    if (const Array* array = try_array(value))
      array_ = *array;
    else
      host_ = host_indices(op, value);
  }
  const Array& on(Device device) {
    if (!array_.defined()) array_ = host_.upload(device);
    return array_;
  }

 private:
  Array array_;
  HostIndices host_;
};

ArrayObject take_py(const ArrayObject& x, IndicesArg indices, IntArg axis, ArrayArg out) {
  const Array& source = to_array("take", "x", x);
  Indices where("take", indices);
  const std::optional<int64_t> along = to_optional_int("take", "axis", axis);
  return with_out("take", out,
                  [&](const Array* target) { return take(source, where.on(source.device()), along, target); });
}

ArrayObject take_along_axis_py(const ArrayObject& x, IndicesArg indices, int64_t axis, ArrayArg out) {
  const Array& source = to_array("gather", "x", x);
  Indices where("gather", indices);
  return with_out("gather", out, [&](const Array* target) {
    return take_along_axis(source, where.on(source.device()), axis, target);
  });
}

void put_along_axis_py(const ArrayObject& x, IndicesArg indices, OperandArg values, int64_t axis) {
  const Array& target = to_array("scatter", "x", x);
  Indices where("scatter", indices);
  const Operand given = to_operand("scatter", "values", values);
  CallScope scope;
  put_along_axis(target, where.on(target.device()), given, axis);
}

ArrayObject scatter_py(const ArrayObject& x, IndicesArg indices, OperandArg values, int64_t axis, ArrayArg out) {
  const Array& source = to_array("scatter", "x", x);
  Indices where("scatter", indices);
  const Operand given = to_operand("scatter", "values", values);
  return with_out("scatter", out,
                  [&](const Array* target) { return scatter(source, where.on(source.device()), given, axis, target); });
}

nb::typed<nb::tuple, Array, nb::ellipsis> nonzero_py(const ArrayObject& x) {
  const Array& source = to_array("nonzero", "x", x);
  std::vector<Array> axes = in_scope([&] { return nonzero(source); });
  nb::list list;
  for (Array& axis : axes) list.append(wrap(std::move(axis)));
  return nb::tuple(list);
}

ArrayObject argwhere_py(const ArrayObject& x) {
  const Array& source = to_array("argwhere", "x", x);
  return wrap(in_scope([&] { return argwhere(source); }));
}

ArrayObject compress_py(IndicesArg condition, const ArrayObject& x, IntArg axis) {
  const Array& source = to_array("compress", "x", x);
  Indices where("compress", condition);
  const std::optional<int64_t> along = to_optional_int("compress", "axis", axis);
  return wrap(in_scope([&] { return compress(where.on(source.device()), source, along); }));
}

}  // namespace

nb::object getitem(nb::handle self, nb::handle key) {
  const Array& x = to_array("getitem", "self", self);
  Key items("getitem", key);
  return wrap(in_scope([&] { return get_item(x, items.finish(x.device())); }));
}

void setitem(nb::handle self, nb::handle key, nb::handle value) {
  const Array& x = to_array("setitem", "self", self);
  Key items("setitem", key);
  const Operand given = to_operand("setitem", "value", value);
  CallScope scope;
  set_item(x, items.finish(x.device()), given);
}

}  // namespace gpukit::python

namespace gpukit {

void bind_indexing(nb::module_& m) {
  using namespace python;
  m.def("take", &take_py, "x"_a, "indices"_a, "axis"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
        "Slices of x along axis at the indices; without an axis x is flattened.\n\n"
        "Negative indices count from the end. A bad index reads as 0 and raises IndexError at the next wait for the "
        "device.");
  for (const char* name : {"take_along_axis", "gather"})
    m.def(name, &take_along_axis_py, "x"_a, "indices"_a, "axis"_a = -1, nb::kw_only(), "out"_a = nb::none(),
          "out[i, j, ...] = x[..., indices[i, j, ...], ...] along axis; other axes broadcast.");
  m.def("put_along_axis", &put_along_axis_py, "x"_a, "indices"_a, "values"_a, "axis"_a = -1,
        "x[..., indices[i, j, ...], ...] = values[i, j, ...] along axis, in place.\n\n"
        "Of several values for one element the last in index order stays, on every device.");
  m.def("scatter", &scatter_py, "x"_a, "indices"_a, "values"_a, "axis"_a = -1, nb::kw_only(), "out"_a = nb::none(),
        "A copy of x with values put along axis (see put_along_axis). out may be x itself.");
  m.def("nonzero", &nonzero_py, "x"_a,
        "Coordinates of the non-zero elements, one int64 array per axis. Waits for the device; raises inside a graph "
        "capture.");
  m.def("argwhere", &argwhere_py, "x"_a,
        "Coordinates of the non-zero elements as int64 [count, x.ndim]. Waits for the device; raises inside a graph "
        "capture.");
  m.def("compress", &compress_py, "condition"_a, "x"_a, "axis"_a = nb::none(),
        "The slices of x along axis where condition is not zero. Waits for the device; raises inside a graph capture.");
}

}  // namespace gpukit
