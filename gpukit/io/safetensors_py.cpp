#include "gpukit/io/safetensors.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/error.h"
#include "gpukit/io/model_path.h"
#include "gpukit/python/path.h"

namespace gpukit {
namespace {

using namespace python;
using io::TensorFile;

/// The numbers of llm.Dtype, in their order.
struct NumberedDType {
  const char* attribute;
  DType dtype;
};
constexpr NumberedDType kNumbers[] = {
    {"Float32", DType::float32},
    {"Float16", DType::float16},
    {"BFloat16", DType::bfloat16},
    {"Float64", DType::float64},
    {"Float8E4M3", DType::float8_e4m3},
    {"Float8E5M2", DType::float8_e5m2},
    {"Int32", DType::int32},
    {"Int64", DType::int64},
    {"Int16", DType::int16},
    {"Int8", DType::int8},
    {"UInt8", DType::uint8},
    {"Bool", DType::boolean},
    {"UInt16", DType::uint16},
    {"UInt32", DType::uint32},
    {"UInt64", DType::uint64},
    {"Complex64", DType::complex64},
};

DType from_number(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(std::size(kNumbers)))
    throw ArgumentError("Dtype", "number", "be 0 to " + std::to_string(std::size(kNumbers) - 1),
                        std::to_string(number));
  return kNumbers[number].dtype;
}

int64_t to_number(DType dtype) {
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    if (kNumbers[i].dtype == dtype) return static_cast<int64_t>(i);
  throw DTypeError("Dtype", "dtype", "be one of SafeTensors", name(dtype));
}

struct Dtype {};  // a namespace of constants

/// What Python sees of a tensor: any fields, as 0.2 had it.
struct PyTensorInfo {
  std::string name;
  int64_t dtype = 0;
  std::vector<int64_t> shape;
  int64_t offset = 0, size_bytes = 0;

  int64_t numel() const {
    int64_t count = 1;
    for (const int64_t extent : shape) count = checked_product("TensorInfo", count, extent);
    return count;
  }
};

std::string repr(const PyTensorInfo& info) {
  std::string shape;
  for (const int64_t extent : info.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
  return "TensorInfo(name='" + info.name + "', dtype=" + name(from_number(info.dtype)) + ", shape=[" + shape +
         "], offset=" + std::to_string(info.offset) + ", size_bytes=" + std::to_string(info.size_bytes) + ")";
}

/// A file, or with `sharded` an index.
TensorFile open(const char* op, nb::handle path, bool sharded) {
  const std::string where = to_path(op, path);
  TensorFile file = in_scope([&] { return TensorFile::open(where); });
  if (file.is_sharded() != sharded)
    throw ArgumentError(op, "path", sharded ? "lead to an index of several files" : "lead to one file, not to an index",
                        file.path());
  return file;
}

struct Sharded : TensorFile {
  using TensorFile::TensorFile;
  explicit Sharded(TensorFile file) : TensorFile(std::move(file)) {}
};

nb::typed<nb::list, nb::str> names(const TensorFile& self) {
  nb::list all;
  for (const std::string& name : self.names()) all.append(nb::str(name.data(), name.size()));
  return nb::typed<nb::list, nb::str>(all);
}

void bind_info(nb::module_& m) {
  nb::class_<Dtype> dtype(m, "Dtype", "The numbers of element types.");
  for (size_t i = 0; i < std::size(kNumbers); ++i) dtype.attr(kNumbers[i].attribute) = i;
  dtype
      .def_static(
          "element_size", [](int64_t number) { return itemsize(from_number(number)); }, "dtype"_a,
          "Bytes of one element.")
      .def_static(
          "name", [](int64_t number) { return std::string(name(from_number(number))); }, "dtype"_a,
          "float32, float8_e4m3, ...");

  nb::class_<PyTensorInfo>(m, "TensorInfo", "What a file says of a tensor.")
      .def(nb::init<std::string, int64_t, std::vector<int64_t>, int64_t, int64_t>(), "name"_a, "dtype"_a, "shape"_a,
           "offset"_a, "size_bytes"_a)
      .def_ro("name", &PyTensorInfo::name)
      .def_ro("dtype", &PyTensorInfo::dtype, "A number of Dtype.")
      .def_ro("shape", &PyTensorInfo::shape)
      .def_ro("offset", &PyTensorInfo::offset, "Of its first byte in the file.")
      .def_ro("size_bytes", &PyTensorInfo::size_bytes)
      .def_prop_ro("numel", &PyTensorInfo::numel)
      .def_prop_ro(
          "dtype_name", [](const PyTensorInfo& self) { return std::string(name(from_number(self.dtype))); },
          "float32, ...")
      .def("__repr__", &repr);
}

void bind_files(nb::module_& m) {
  nb::class_<TensorFile> file(m, "SafeTensorsFile",
                              "The tensors of a .safetensors file, read-only. Their bytes are read when asked for.");
  file.def(
          "__init__",
          [](TensorFile* self, PathArg path) { new (self) TensorFile(open("SafeTensorsFile", path, false)); }, "path"_a)
      .def_prop_ro("path", &TensorFile::path)
      .def_prop_ro("tensor_names", &names)
      .def_prop_ro("num_tensors", [](const TensorFile& self) { return self.names().size(); })
      .def_prop_ro("file_size", &TensorFile::file_bytes, "Bytes; behind an index of the files opened so far.")
      .def_prop_ro(
          "metadata",
          [](const TensorFile& self) {
            nb::dict all;
            for (const auto& [key, text] : self.metadata()) all[nb::str(key.data(), key.size())] = text;
            return nb::typed<nb::dict, nb::str, nb::str>(all);
          },
          "The texts written beside the tensors.")
      .def(
          "tensor_info",
          [](const TensorFile& self, const std::string& name) {
            const io::TensorInfo& info = in_scope([&]() -> const io::TensorInfo& { return self.info(name); });
            return PyTensorInfo{
                info.name, to_number(info.dtype), {info.shape.begin(), info.shape.end()}, info.offset, info.bytes};
          },
          "name"_a)
      .def(
          "tensor_bytes",
          [](const TensorFile& self, const std::string& name) {
            const std::vector<std::byte> data = in_scope([&] { return self.bytes(name); });
            return nb::bytes(data.data(), data.size());
          },
          "name"_a)
      .def(
          "tensor_as_f32", [](const TensorFile& self, const std::string& name) -> ShownObject<"numpy.ndarray"> {
            Array flat = in_scope([&] {
              const Array values = self.load(name, {}, DType::float32);
              return values.reshape_view({values.size()});
            });
            return ShownObject<"numpy.ndarray">(wrap(std::move(flat)).attr("to_numpy")());
          },
          "name"_a, "A float32 copy with one axis.")
      .def(
          "tensor_data_ptr",
          [](const TensorFile& self, const std::string& name) {
            const auto data = in_scope([&] { return self.kept_bytes(name); });
            return std::pair(reinterpret_cast<uintptr_t>(data.data()), data.size());
          },
          "name"_a, "(address, size) of a copy of the bytes, which lives as long as this object.")
      .def(
          "load",
          [](const TensorFile& self, const std::string& name, DeviceArg device, DTypeArg dtype) {
            const Device where = to_device(device);
            const std::optional<DType> cast = to_optional_dtype(dtype);
            return wrap(in_scope([&] { return self.load(name, where, cast); }));
          },
          "name"_a, "device"_a = nb::none(), "dtype"_a = nb::none(), "The tensor as an array, cast where asked.")
      .def("__len__", [](const TensorFile& self) { return self.names().size(); })
      .def("__contains__",
           [](const TensorFile& self, AnyArg name) {
             return nb::isinstance<nb::str>(name) && self.contains(to_text("SafeTensorsFile", "name", name));
           })
      .def(
          "__iter__", [](const TensorFile& self) { return nb::iter(names(self)); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"));

  nb::class_<Sharded, TensorFile>(m, "ShardedSafeTensorsFile",
                                  "The tensors of several files with an index. A file is opened when it is needed.")
      .def(
          "__init__",
          [](Sharded* self, PathArg path) { new (self) Sharded(open("ShardedSafeTensorsFile", path, true)); },
          "index_json_path"_a);
}

}  // namespace

void bind_safetensors(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_io", "The functions of pygpukit.io; internal.");
  bind_info(m);
  bind_files(m);
  m.def(
      "load_safetensors", [](PathArg path) -> ShownObject<"SafeTensorsFile"> {
        const std::string where = to_path("load_safetensors", path);
        TensorFile file = in_scope([&] { return TensorFile::open(where); });
        if (file.is_sharded()) return ShownObject<"SafeTensorsFile">(nb::cast(Sharded(std::move(file))));
        return ShownObject<"SafeTensorsFile">(nb::cast(std::move(file)));
      },
      "path"_a,
      "A file, an index of several, a folder, or the name of a model in the Hugging Face cache of this disk.");
  m.def(
      "save_safetensors",
      [](PathArg path, nb::typed<nb::dict, nb::str, Array> tensors, Shown<"dict[str, str] | None"> metadata) {
        const std::string where = to_path("save_safetensors", path);
        std::vector<std::pair<std::string, Array>> arrays;
        for (const auto [name, value] : tensors)
          arrays.emplace_back(to_text("save_safetensors", "tensors", name),
                              to_array("save_safetensors", "tensors", value));
        io::TextPairs texts;
        if (!metadata.is_none())
          for (const auto [key, text] : nb::cast<nb::dict>(metadata))
            texts.emplace_back(to_text("save_safetensors", "metadata", key),
                               to_text("save_safetensors", "metadata", text));
        in_scope([&] { return io::save_safetensors(where, arrays, texts), 0; });
      },
      "path"_a, "tensors"_a, "metadata"_a = nb::none(), "Writes arrays by name. All or nothing.");
  m.def(
      "find_model",
      [](PathArg name, Shown<"pygpukit.typing.PathLike | None"> cache_dir) {
        const std::string text = to_path("find_model", name);
        const std::string cache = cache_dir.is_none() ? std::string() : to_path("find_model", cache_dir);
        return in_scope([&] { return io::find_model(text, cache); });
      },
      "name"_a, "cache_dir"_a = nb::none(),
      "The path of a model: `name` itself where it exists, else its folder in the Hugging Face cache of this disk.");
}

}  // namespace gpukit
