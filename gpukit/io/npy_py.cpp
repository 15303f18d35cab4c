#include "gpukit/io/npy.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/python/path.h"

namespace gpukit {
namespace {

using namespace python;
using io::NpzFile;

/// As NumPy does: the suffix is added where the name has another one.
std::string with_suffix(const char* op, nb::handle path, std::string_view suffix) {
  std::string where = to_path(op, path);
  if (!where.ends_with(suffix)) where += suffix;
  return where;
}

AnyObject load_py(PathArg file, DeviceArg device) {
  const std::string path = to_path("load", file);
  const Device where = to_device(device);
  if (in_scope([&] { return io::is_archive(path); })) return nb::cast(in_scope([&] { return NpzFile::open(path); }));
  return wrap(in_scope([&] { return io::load_npy(path, where); }));
}

template <bool kPacked>
void savez_py(PathArg file, const nb::args& arrays, const nb::kwargs& named) {
  const std::string path = with_suffix("savez", file, ".npz");
  std::vector<std::pair<std::string, Array>> all;
  for (size_t i = 0; i < arrays.size(); ++i)
    all.emplace_back("arr_" + std::to_string(i), to_array("savez", "arrays", arrays[i]));
  for (const auto& [name, value] : named)
    all.emplace_back(to_text("savez", "name", name), to_array("savez", "arrays", value));
  in_scope([&] { return io::save_npz(path, all, kPacked), 0; });
}

}  // namespace

void bind_npy(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_npy", "NumPy's files; internal.");
  nb::class_<NpzFile>(m, "NpzFile", "The arrays of an .npz file by name, each read when asked for.")
      .def_prop_ro("files", &NpzFile::names, "The names.")
      .def("keys", &NpzFile::names, "The names.")
      .def("__len__", [](const NpzFile& self) { return self.names().size(); })
      .def(
          "__iter__", [](const NpzFile& self) -> nb::iterator { return nb::iter(nb::cast(self.names())); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def(
          "__contains__",
          [](const NpzFile& self, const std::string& name) {
            for (const std::string& own : self.names())
              if (own == name) return true;
            return false;
          },
          "name"_a)
      .def(
          "__getitem__",
          [](const NpzFile& self, StringArg name) {
            const std::string wanted = to_text("load", "name", name);
            const Device where = to_device(nb::none());
            return wrap(in_scope([&] { return self.load(wanted, where); }));
          },
          "name"_a, "The array on the default device.")
      .def(
          "load",
          [](const NpzFile& self, StringArg name, DeviceArg device) {
            const std::string wanted = to_text("load", "name", name);
            const Device where = to_device(device);
            return wrap(in_scope([&] { return self.load(wanted, where); }));
          },
          "name"_a, nb::kw_only(), "device"_a = nb::none(), "The array on a device.");
  m.def("load", &load_py, "file"_a, nb::kw_only(), "device"_a = nb::none(),
        "The array of an .npy file, or an NpzFile for an archive of several. Pickled, structured and text arrays are "
        "refused: nothing in a file is ever run.");
  m.def(
      "save",
      [](PathArg file, const ArrayObject& arr) {
        const std::string path = with_suffix("save", file, ".npy");
        const Array& x = to_array("save", "arr", arr);
        in_scope([&] { return io::save_npy(path, x), 0; });
      },
      "file"_a, "arr"_a, "Writes an array as NumPy's .npy, all or nothing. The suffix is added where it is missing.");
  m.def("savez", &savez_py<false>, "file"_a, "arrays"_a, "named"_a,
        nb::sig("def savez(file: pygpukit.typing.PathLike, *arrays: pygpukit._core.GPUArray, "
                "**named: pygpukit._core.GPUArray) -> None"),
        "Writes arrays as NumPy's .npz, uncompressed, all or nothing; those without a name are arr_0, arr_1, ...");
  m.def("savez_compressed", &savez_py<true>, "file"_a, "arrays"_a, "named"_a,
        nb::sig("def savez_compressed(file: pygpukit.typing.PathLike, *arrays: pygpukit._core.GPUArray, "
                "**named: pygpukit._core.GPUArray) -> None"),
        "savez with each array deflated, where that makes it shorter.");
}

}  // namespace gpukit
