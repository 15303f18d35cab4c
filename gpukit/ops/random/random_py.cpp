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

python::ArrayObject uniform(Generator* generator, python::ShapeArg shape, python::NumberArg low, python::NumberArg high,
                            python::DTypeArg dtype, python::IntArg seed, python::DeviceArg device,
                            python::ArrayArg out) {
  constexpr const char* kOp = "random.uniform";
  const Request request = make_request(kOp, generator, shape, dtype, seed, device, out);
  const double from = to_real(kOp, "low", low), to = to_real(kOp, "high", high);
  return python::with_out(kOp, out, [&](const Array* target) { return random::uniform(request, from, to, target); });
}

python::ArrayObject normal(Generator* generator, python::ShapeArg shape, python::NumberArg mean, python::NumberArg std,
                           python::DTypeArg dtype, python::IntArg seed, python::DeviceArg device,
                           python::ArrayArg out) {
  constexpr const char* kOp = "random.normal";
  const Request request = make_request(kOp, generator, shape, dtype, seed, device, out);
  const double center = to_real(kOp, "mean", mean), width = to_real(kOp, "std", std);
  return python::with_out(kOp, out,
                          [&](const Array* target) { return random::normal(request, center, width, target); });
}

python::ArrayObject randint(Generator* generator, python::NumberArg low, python::NumberArg high, python::ShapeArg shape,
                            python::DTypeArg dtype, python::IntArg seed, python::DeviceArg device,
                            python::ArrayArg out) {
  constexpr const char* kOp = "random.randint";
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
    "graph capture may not advance: give seed= and out= there.";
constexpr const char* kNormalDoc =
    "Normal reals with the given mean and standard deviation. seed and out as for uniform.";
constexpr const char* kRandintDoc =
    "Integers in [low, high), or in [0, low) without high; no value is favoured by more than (high - low) / 2^64. seed "
    "and out as "
    "for uniform.";

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
      [](python::ShapeArg shape, python::NumberArg low, python::NumberArg high, python::DTypeArg dtype,
         python::IntArg seed, python::DeviceArg device,
         python::ArrayArg out) { return uniform(nullptr, shape, low, high, dtype, seed, device, out); },
      "shape"_a = nb::none(), "low"_a = 0.0, "high"_a = 1.0, "dtype"_a = nb::none(), "seed"_a = nb::none(),
      "device"_a = nb::none(), "out"_a = nb::none(), kUniformDoc);
  r.def(
      "normal",
      [](python::ShapeArg shape, python::NumberArg mean, python::NumberArg std, python::DTypeArg dtype,
         python::IntArg seed, python::DeviceArg device,
         python::ArrayArg out) { return normal(nullptr, shape, mean, std, dtype, seed, device, out); },
      "shape"_a = nb::none(), "mean"_a = 0.0, "std"_a = 1.0, "dtype"_a = nb::none(), "seed"_a = nb::none(),
      "device"_a = nb::none(), "out"_a = nb::none(), kNormalDoc);
  r.def(
      "randint",
      [](python::NumberArg low, python::NumberArg high, python::ShapeArg shape, python::DTypeArg dtype,
         python::IntArg seed, python::DeviceArg device,
         python::ArrayArg out) { return randint(nullptr, low, high, shape, dtype, seed, device, out); },
      "low"_a, "high"_a = nb::none(), "shape"_a = nb::none(), "dtype"_a = nb::none(), "seed"_a = nb::none(),
      "device"_a = nb::none(), "out"_a = nb::none(), kRandintDoc);

  nb::class_<Generator>(r, "Generator", "A random state of its own: each draw takes the next offset of its seed.")
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
          [](Generator& self, python::ShapeArg shape, python::NumberArg low, python::NumberArg high,
             python::DTypeArg dtype, python::DeviceArg device,
             python::ArrayArg out) { return uniform(&self, shape, low, high, dtype, nb::none(), device, out); },
          "shape"_a = nb::none(), "low"_a = 0.0, "high"_a = 1.0, "dtype"_a = nb::none(), "device"_a = nb::none(),
          "out"_a = nb::none(), kUniformDoc)
      .def(
          "normal",
          [](Generator& self, python::ShapeArg shape, python::NumberArg mean, python::NumberArg std,
             python::DTypeArg dtype, python::DeviceArg device,
             python::ArrayArg out) { return normal(&self, shape, mean, std, dtype, nb::none(), device, out); },
          "shape"_a = nb::none(), "mean"_a = 0.0, "std"_a = 1.0, "dtype"_a = nb::none(), "device"_a = nb::none(),
          "out"_a = nb::none(), kNormalDoc)
      .def(
          "randint",
          [](Generator& self, python::NumberArg low, python::NumberArg high, python::ShapeArg shape,
             python::DTypeArg dtype, python::DeviceArg device,
             python::ArrayArg out) { return randint(&self, low, high, shape, dtype, nb::none(), device, out); },
          "low"_a, "high"_a = nb::none(), "shape"_a = nb::none(), "dtype"_a = nb::none(), "device"_a = nb::none(),
          "out"_a = nb::none(), kRandintDoc);
}

}  // namespace gpukit
