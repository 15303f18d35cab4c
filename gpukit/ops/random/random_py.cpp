#include <nanobind/stl/string.h>

#include "gpukit/ops/random/generator_py.h"
#include "gpukit/ops/random/random.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using random::Generator;
using random::Request;

/// Any integer, taken modulo 2^64.
uint64_t to_seed(const char* op, nb::handle value) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) nb::raise_python_error();
    PyErr_Clear();
    throw nb::type_error(
        (std::string(op) + ": seed must be an integer, got " + nb::type_name(value.type()).c_str()).c_str());
  }
  return PyLong_AsUnsignedLongLongMask(number.ptr());
}

Request make_request(const char* op, Generator* generator, python::ShapeArg shape, python::DTypeArg dtype,
                     python::IntArg seed, python::DeviceArg device, python::ArrayArg out) {
  Request request;
  request.generator = generator;
  if (!seed.is_none()) request.state = random::State{to_seed(op, seed), 0};
  if (!shape.is_none())
    request.shape = python::to_dims(op, shape);
  else if (const Array* target = python::to_optional_array(op, "out", out))
    request.shape = target->shape();
  request.dtype = python::to_optional_dtype(dtype);
  if (!device.is_none()) request.device = python::to_device(device);
  return request;
}

double to_real(const char* op, const char* argument, nb::handle value) {
  const Scalar s = python::to_scalar(op, argument, value);
  if (s.kind == ScalarKind::complex) throw ArgumentError(op, argument, "be a real number", "a complex one");
  return s.real;
}

/// What one call of uniform or normal was given, in the order of our own slots.
struct Drawn {
  static constexpr int kSlots = 7;
  nb::handle slot[kSlots];  // shape, first, second, dtype, seed, device, out; null: not given
  nb::handle get(int at) const { return slot[at].is_valid() ? slot[at] : nb::handle(Py_None); }
};

/// The names of one distribution: ours and NumPy's for its two numbers.
struct Names {
  const char* op;
  const char* first;
  const char* second;
  const char* numpy_first;
  const char* numpy_second;
  bool takes_seed;
};

constexpr Names kUniform{"random.uniform", "low", "high", "low", "high", true};
constexpr Names kNormal{"random.normal", "mean", "std", "loc", "scale", true};
constexpr Names kUniformOf{"random.Generator.uniform", "low", "high", "low", "high", false};
constexpr Names kNormalOf{"random.Generator.normal", "mean", "std", "loc", "scale", false};

bool is_number(nb::handle value) { return PyNumber_Check(value.ptr()) != 0 && !PySequence_Check(value.ptr()); }
bool is_integer(nb::handle value) { return PyIndex_Check(value.ptr()) != 0 && is_number(value); }

[[noreturn]] void refuse(const Names& names, const std::string& text) {
  throw nb::type_error((std::string(names.op) + ": " + text).c_str());
}

/// Whether positional arguments can only be NumPy's (low, high, size). Throws TypeError for what can be either order.
bool is_numpy_order(const Names& names, const nb::args& given, bool second_named) {
  const size_t count = given.size();
  if (count == 0 || !is_number(given[0])) return false;
  if (!is_integer(given[0])) return true;
  if (count > 3 || count == 1 || second_named) return false;
  const bool real_third = count == 3 && is_number(given[2]) && !is_integer(given[2]);
  if (count == 3 && !real_third) return true;
  if (real_third && !given[0].equal(nb::int_(0))) return false;
  refuse(names, "is the first number a shape or " + std::string(names.numpy_first) + "? Write " + names.numpy_first +
                    "=, " + names.numpy_second + "= and size=");
}

/// Our slots (shape, first, second, ...), NumPy's keywords beside them, and NumPy's order of positional arguments.
Drawn arrange(const Names& names, const nb::args& given, const nb::kwargs& named) {
  const char* const slots[Drawn::kSlots] = {"shape", names.first, names.second, "dtype", "seed", "device", "out"};
  Drawn drawn;
  nb::handle size, first, second;
  bool numpy_names = false;
  for (auto [key, value] : named) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "size") {
      size = value;
    } else if (name == names.numpy_first) {
      first = value;
      numpy_names |= std::string_view(names.first) != name;
    } else if (name == names.numpy_second) {
      second = value;
      numpy_names |= std::string_view(names.second) != name;
    } else {
      int at = 0;
      while (at < Drawn::kSlots && name != slots[at]) ++at;
      if (at == Drawn::kSlots || (at == 4 && !names.takes_seed))
        refuse(names, "got an unexpected keyword '" + name + "'; it takes shape, " + names.first + ", " + names.second +
                          ", size, dtype, " + (names.takes_seed ? "seed, " : "") + "device, out");
      drawn.slot[at] = value;
    }
  }
  const auto put = [&](int at, nb::handle value) {
    if (drawn.slot[at].is_valid()) refuse(names, "got several values for " + std::string(slots[at]));
    drawn.slot[at] = value;
  };
  if (first.is_valid()) put(1, first);
  if (second.is_valid()) put(2, second);
  if (size.is_valid()) put(0, size);
  const bool sized = (size.is_valid() && !size.is_none()) || numpy_names;
  if (sized || is_numpy_order(names, given, drawn.slot[2].is_valid())) {
    if (!given.empty() && !is_number(given[0])) refuse(names, "got both a shape and size=, which are the same");
    if (given.size() > 3) refuse(names, "takes at most 3 positional arguments beside size=");
    constexpr int kOrder[] = {1, 2, 0};
    int at = drawn.slot[1].is_valid() && !given.empty() ? 1 : 0;
    for (nb::handle value : given) {
      if (at == 3) refuse(names, "got more numbers than it takes");
      put(kOrder[at++], value);
    }
    return drawn;
  }
  int at = 0;
  for (nb::handle value : given) {
    if (at == 4 && !names.takes_seed) ++at;
    if (at == Drawn::kSlots) refuse(names, "takes at most " + std::to_string(names.takes_seed ? 7 : 6) + " arguments");
    put(at++, value);
  }
  return drawn;
}

double number_or(const char* op, const char* argument, nb::handle value, double otherwise) {
  return value.is_valid() ? to_real(op, argument, value) : otherwise;
}

template <Array (*F)(const Request&, double, double, const Array*)>
python::ArrayObject draw(Generator* generator, const Names& names, const nb::args& given, const nb::kwargs& named,
                         double first, double second) {
  const Drawn drawn = arrange(names, given, named);
  const Request request =
      make_request(names.op, generator, drawn.get(0), drawn.get(3), drawn.get(4), drawn.get(5), drawn.get(6));
  const double from = number_or(names.op, names.first, drawn.slot[1], first);
  const double to = number_or(names.op, names.second, drawn.slot[2], second);
  return python::with_out(names.op, drawn.get(6), [&](const Array* out) { return F(request, from, to, out); });
}

python::ArrayObject randint(Generator* generator, python::NumberArg low, python::NumberArg high, python::ShapeArg shape,
                            python::DTypeArg dtype, python::IntArg seed, python::DeviceArg device, python::ArrayArg out,
                            python::ShapeArg size) {
  constexpr const char* kOp = "random.randint";
  if (!size.is_none()) {
    if (!shape.is_none()) throw nb::type_error("random.randint: got both shape and size, which are the same");
    shape = size;
  }
  const Request request = make_request(kOp, generator, shape, dtype, seed, device, out);
  const bool one = high.is_none();
  const Scalar from = one ? Scalar(0) : python::to_scalar(kOp, "low", low);
  const Scalar to = python::to_scalar(kOp, "high", one ? low : high);
  return python::with_out(kOp, out, [&](const Array* target) { return random::randint(request, from, to, target); });
}

nb::typed<nb::tuple, uint64_t, uint64_t> get_state(const Generator& generator) {
  const random::State state = generator.state();
  return nb::make_tuple(state.seed, state.offset);
}

void set_state(Generator& generator, python::Shown<"tuple[int, int]"> value) {
  nb::tuple pair;
  if (!nb::try_cast(value, pair) || pair.size() != 2)
    throw nb::type_error("random.set_state: state must be the pair that get_state gave");
  generator.set_state({to_seed("random.set_state", pair[0]), to_seed("random.set_state", pair[1])});
}

constexpr const char* kUniformDoc =
    "Reals in [low, high). The same seed gives the same bits on every device. seed=None draws from the generator's "
    "state, which a "
    "graph capture may not advance: give seed= and out= there. NumPy's (low, high, size) is taken where the numbers "
    "cannot "
    "mean a shape first; size= says it for sure.";
constexpr const char* kNormalDoc =
    "Normal reals with the given mean and standard deviation, which NumPy names loc and scale. seed, out and size as "
    "for "
    "uniform.";
constexpr const char* kRandintDoc =
    "Integers in [low, high), or in [0, low) without high; no value is favoured by more than (high - low) / 2^64. seed "
    "and out as for uniform; size is shape.";

}  // namespace

void bind_random(nb::module_& m) {
  nb::module_ r = m.def_submodule("random", "Random numbers: counter-based, the same bits on every device.");

  r.def(
      "seed", [](python::IntArg seed) { random::default_generator().seed(to_seed("random.seed", seed)); }, "seed"_a,
      "Starts the default generator over. It starts with seed 0.");
  r.def(
      "get_state", [] { return get_state(random::default_generator()); }, "The default generator's (seed, offset).");
  r.def(
      "set_state", [](python::Shown<"tuple[int, int]"> state) { set_state(random::default_generator(), state); },
      "state"_a, "Puts a get_state() back.");
  r.def(
      "uniform",
      [](nb::args given, nb::kwargs named) {
        return draw<&random::uniform>(nullptr, kUniform, given, named, 0.0, 1.0);
      },
      nb::sig("def uniform(shape: pygpukit.typing.ShapeLike | None = None, low: pygpukit.typing.Number = 0.0, "
              "high: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, "
              "seed: typing.SupportsIndex | None = None, device: pygpukit.typing.DeviceLike | None = None, "
              "out: pygpukit._core.GPUArray | None = None, *, size: pygpukit.typing.ShapeLike | None = None) -> "
              "pygpukit._core.GPUArray"),
      kUniformDoc);
  r.def(
      "normal",
      [](nb::args given, nb::kwargs named) { return draw<&random::normal>(nullptr, kNormal, given, named, 0.0, 1.0); },
      nb::sig("def normal(shape: pygpukit.typing.ShapeLike | None = None, mean: pygpukit.typing.Number = 0.0, "
              "std: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, "
              "seed: typing.SupportsIndex | None = None, device: pygpukit.typing.DeviceLike | None = None, "
              "out: pygpukit._core.GPUArray | None = None, *, loc: pygpukit.typing.Number = 0.0, "
              "scale: pygpukit.typing.Number = 1.0, size: pygpukit.typing.ShapeLike | None = None) -> "
              "pygpukit._core.GPUArray"),
      kNormalDoc);
  r.def(
      "randint",
      [](python::NumberArg low, python::NumberArg high, python::ShapeArg shape, python::DTypeArg dtype,
         python::IntArg seed, python::DeviceArg device, python::ArrayArg out,
         python::ShapeArg size) { return randint(nullptr, low, high, shape, dtype, seed, device, out, size); },
      "low"_a, "high"_a = nb::none(), "shape"_a = nb::none(), "dtype"_a = nb::none(), "seed"_a = nb::none(),
      "device"_a = nb::none(), "out"_a = nb::none(), nb::kw_only(), "size"_a = nb::none(), kRandintDoc);

  nb::class_<Generator> generator(r, "Generator",
                                  "A random state of its own: each draw takes the next offset of its seed.");
  bind_generator_methods(generator);
  generator
      .def(
          "__init__",
          [](Generator* self, python::IntArg seed) { new (self) Generator(to_seed("random.Generator", seed)); },
          "seed"_a = 0)
      .def(
          "seed", [](Generator& self, python::IntArg seed) { self.seed(to_seed("random.seed", seed)); }, "seed"_a,
          "Starts over.")
      .def("get_state", &get_state, "(seed, offset)")
      .def("set_state", &set_state, "state"_a, "Puts a get_state() back.")
      .def(
          "uniform",
          [](Generator& self, nb::args given, nb::kwargs named) {
            return draw<&random::uniform>(&self, kUniformOf, given, named, 0.0, 1.0);
          },
          nb::sig(
              "def uniform(self, shape: pygpukit.typing.ShapeLike | None = None, low: pygpukit.typing.Number = 0.0, "
              "high: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, "
              "device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, "
              "size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray"),
          kUniformDoc)
      .def(
          "normal",
          [](Generator& self, nb::args given, nb::kwargs named) {
            return draw<&random::normal>(&self, kNormalOf, given, named, 0.0, 1.0);
          },
          nb::sig(
              "def normal(self, shape: pygpukit.typing.ShapeLike | None = None, mean: pygpukit.typing.Number = 0.0, "
              "std: pygpukit.typing.Number = 1.0, dtype: pygpukit.typing.DTypeLike | None = None, "
              "device: pygpukit.typing.DeviceLike | None = None, out: pygpukit._core.GPUArray | None = None, *, "
              "loc: pygpukit.typing.Number = 0.0, scale: pygpukit.typing.Number = 1.0, "
              "size: pygpukit.typing.ShapeLike | None = None) -> pygpukit._core.GPUArray"),
          kNormalDoc)
      .def(
          "randint",
          [](Generator& self, python::NumberArg low, python::NumberArg high, python::ShapeArg shape,
             python::DTypeArg dtype, python::DeviceArg device, python::ArrayArg out,
             python::ShapeArg size) { return randint(&self, low, high, shape, dtype, nb::none(), device, out, size); },
          "low"_a, "high"_a = nb::none(), "shape"_a = nb::none(), "dtype"_a = nb::none(), "device"_a = nb::none(),
          "out"_a = nb::none(), nb::kw_only(), "size"_a = nb::none(), kRandintDoc);
}

}  // namespace gpukit
