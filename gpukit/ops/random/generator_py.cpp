// The methods of random.Generator that NumPy's Generator has, and default_rng.
#include "gpukit/ops/random/generator_py.h"

#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/random/distributions.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using namespace python;
using random::Generator;
using random::Request;
using Class = nb::class_<Generator>;

Request request_of(const char* op, Generator& self, nb::handle size, nb::handle dtype, nb::handle device,
                   nb::handle out) {
  Request request;
  request.generator = &self;
  if (!size.is_none())
    request.shape = to_dims(op, size, "size");
  else if (const Array* target = to_optional_array(op, "out", out))
    request.shape = target->shape();
  request.dtype = to_optional_dtype(dtype);
  if (!device.is_none()) request.device = to_device(device);
  return request;
}

double real(const char* op, const char* argument, nb::handle value) {
  const Scalar s = to_scalar(op, argument, value);
  if (s.kind == ScalarKind::complex) throw ArgumentError(op, argument, "be a real number", "a complex one");
  return s.real;
}

using NoNumber = Array (*)(const Request&, const Array*);
template <NoNumber kFunction>
void bind_none(Class& c, const char* method, const char* op, const char* doc) {
  c.def(
      method,
      [op](Generator& self, ShapeArg size, DTypeArg dtype, ArrayArg out, DeviceArg device) {
        const Request request = request_of(op, self, size, dtype, device, out);
        return with_out(op, out, [&](const Array* target) { return kFunction(request, target); });
      },
      "size"_a = nb::none(), "dtype"_a = nb::none(), "out"_a = nb::none(), nb::kw_only(), "device"_a = nb::none(), doc);
}

using OneNumber = Array (*)(const Request&, double, const Array*);
template <OneNumber kFunction, typename Argument>
void bind_one(Class& c, const char* method, const char* op, const Argument& argument, const char* name,
              const char* doc) {
  c.def(
      method,
      [op, name](Generator& self, NumberArg value, ShapeArg size, DTypeArg dtype, ArrayArg out, DeviceArg device) {
        const Request request = request_of(op, self, size, dtype, device, out);
        const double number = real(op, name, value);
        return with_out(op, out, [&](const Array* target) { return kFunction(request, number, target); });
      },
      argument, "size"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(), "out"_a = nb::none(),
      "device"_a = nb::none(), doc);
}

using TwoNumbers = Array (*)(const Request&, double, double, const Array*);
template <TwoNumbers kFunction, typename First, typename Second>
void bind_two(Class& c, const char* method, const char* op, const First& first, const Second& second,
              std::pair<const char*, const char*> names, const char* doc) {
  c.def(
      method,
      [op, names](Generator& self, NumberArg one, NumberArg two, ShapeArg size, DTypeArg dtype, ArrayArg out,
                  DeviceArg device) {
        const Request request = request_of(op, self, size, dtype, device, out);
        const double a = real(op, names.first, one), b = real(op, names.second, two);
        return with_out(op, out, [&](const Array* target) { return kFunction(request, a, b, target); });
      },
      first, second, "size"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(), "out"_a = nb::none(),
      "device"_a = nb::none(), doc);
}

Array unit(const Request& request, const Array* out) { return random::uniform(request, 0, 1, out); }
Array standard_normal(const Request& request, const Array* out) { return random::normal(request, 0, 1, out); }
Array standard_exponential(const Request& request, const Array* out) { return random::exponential(request, 1, out); }
Array standard_gamma(const Request& request, double shape, const Array* out) {
  return random::gamma(request, shape, 1, out);
}

ArrayObject integers(Generator& self, NumberArg low, NumberArg high, ShapeArg size, DTypeArg dtype, bool endpoint,
                     ArrayArg out, DeviceArg device) {
  constexpr const char* kOp = "random.integers";
  const Request request = request_of(kOp, self, size, dtype, device, out);
  const bool one = high.is_none();
  nb::object end = nb::borrow(one ? low : high);
  if (endpoint) end = nb::steal(PyNumber_Add(end.ptr(), nb::int_(1).ptr()));
  if (!end.is_valid()) nb::raise_python_error();
  const Scalar from = one ? Scalar(0) : to_scalar(kOp, "low", low), to = to_scalar(kOp, one ? "low" : "high", end);
  return with_out(kOp, out, [&](const Array* target) { return random::randint(request, from, to, target); });
}

/// A GPUArray as it is, other sequences as new ones, nothing for an integer.
nb::object elements_of(nb::handle value, nb::handle dtype = nb::none(), nb::handle device = nb::none()) {
  if (try_array(value) != nullptr) return nb::borrow(value);
  if (is_one_int(value)) return nb::object();
  return nb::module_::import_("pygpukit._core").attr("asarray")(value, dtype, device);
}

ArrayObject permutation(Generator& self, nb::handle x, IntArg axis) {
  constexpr const char* kOp = "random.permutation";
  Request request;
  request.generator = &self;
  const nb::object elements = elements_of(x);
  if (!elements.is_valid()) {
    const int64_t n = to_int(kOp, "x", x);
    return wrap(in_scope([&] { return random::permutation(request, n); }));
  }
  const Array* values = try_array(elements);
  const int64_t along = to_int(kOp, "axis", axis);
  return wrap(in_scope([&] { return random::permutation(request, *values, along); }));
}

void shuffle(Generator& self, const ArrayObject& x, IntArg axis) {
  constexpr const char* kOp = "random.shuffle";
  Request request;
  request.generator = &self;
  const Array& values = to_array(kOp, "x", x);
  const int64_t along = to_int(kOp, "axis", axis);
  in_scope([&] { return random::shuffle(request, values, along), 0; });
}

ArrayObject choice(Generator& self, nb::handle a, ShapeArg size, bool replace, nb::handle p, IntArg axis) {
  constexpr const char* kOp = "random.choice";
  Request request = request_of(kOp, self, size, nb::none(), nb::none(), nb::none());
  const nb::object elements = elements_of(a);
  const Array* values = elements.is_valid() ? try_array(elements) : nullptr;
  const nb::object device = values != nullptr ? nb::cast(values->device()) : nb::none();
  const nb::object given = p.is_none() ? nb::none() : elements_of(p, nb::str("float64"), device);
  const Array* chances = given.is_none() ? nullptr : &to_array(kOp, "p", given.is_valid() ? given : nb::borrow(p));
  if (values != nullptr) request.device = values->device();
  if (values == nullptr) {
    const int64_t n = to_int(kOp, "a", a);
    return wrap(in_scope([&] { return random::choice(request, n, replace, chances); }));
  }
  const int64_t along = to_int(kOp, "axis", axis);
  return wrap(in_scope([&] {
    if (values->ndim() == 0) throw ShapeError(kOp, "a", "be an integer or have at least one axis", "a 0-d array");
    const Array indices = random::choice(request, values->shape(static_cast<int>(along)), replace, chances);
    return take(*values, indices, along);
  }));
}

}  // namespace

void bind_generator_methods(Class& c) {
  bind_none<&unit>(c, "random", "random.random", "Reals in [0, 1), float32 unless dtype is given.");
  bind_none<&standard_normal>(c, "standard_normal", "random.standard_normal",
                              "Normal numbers of mean 0 and deviation 1.");
  bind_none<&standard_exponential>(c, "standard_exponential", "random.standard_exponential",
                                   "Exponential numbers of scale 1.");
  bind_one<&standard_gamma>(c, "standard_gamma", "random.standard_gamma", "shape"_a, "shape",
                            "Gamma numbers of scale 1.");
  bind_one<&random::exponential>(c, "exponential", "random.exponential", "scale"_a = 1.0, "scale",
                                 "Exponential numbers of mean scale. All of these methods give the same bits for the "
                                 "same state on every device.");
  bind_two<&random::gamma>(c, "gamma", "random.gamma", "shape"_a, "scale"_a = 1.0, {"shape", "scale"},
                           "Gamma numbers.");
  bind_two<&random::beta>(c, "beta", "random.beta", "a"_a, "b"_a, {"a", "b"}, "Beta numbers.");
  bind_one<&random::poisson>(c, "poisson", "random.poisson", "lam"_a = 1.0, "lam",
                             "Poisson numbers of mean lam, int64 unless dtype is given.");
  bind_one<&random::geometric>(c, "geometric", "random.geometric", "p"_a, "p",
                               "Trials up to the first success of chance p: 1, 2, ...");
  c.def(
      "binomial",
      [](Generator& self, IntArg n, NumberArg p, ShapeArg size, DTypeArg dtype, ArrayArg out, DeviceArg device) {
        constexpr const char* kOp = "random.binomial";
        const Request request = request_of(kOp, self, size, dtype, device, out);
        const int64_t trials = to_int(kOp, "n", n);
        const double chance = real(kOp, "p", p);
        return with_out(kOp, out,
                        [&](const Array* target) { return random::binomial(request, trials, chance, target); });
      },
      "n"_a, "p"_a, "size"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(), "out"_a = nb::none(),
      "device"_a = nb::none(), "Successes of n trials of chance p.");
  c.def("integers", &integers, "low"_a, "high"_a = nb::none(), "size"_a = nb::none(), "dtype"_a = nb::none(),
        "endpoint"_a = false, nb::kw_only(), "out"_a = nb::none(), "device"_a = nb::none(),
        "Integers in [low, high), or [0, low) without high; endpoint includes high.");
  c.def("permutation", &permutation, "x"_a, "axis"_a = 0,
        nb::sig("def permutation(self, x: pygpukit.typing.Elements, axis: typing.SupportsIndex = 0) -> "
                "pygpukit._core.GPUArray"),
        "0 ... x - 1, or the slices of x along axis, in a random order.");
  c.def("shuffle", &shuffle, "x"_a, "axis"_a = 0, "The slices of x along axis brought into a random order, in place.");
  c.def(
      "choice", &choice, "a"_a, "size"_a = nb::none(), "replace"_a = true, "p"_a = nb::none(), "axis"_a = 0,
      nb::sig("def choice(self, a: pygpukit.typing.Elements, size: pygpukit.typing.ShapeLike | None = None, replace: "
              "bool = True, "
              "p: pygpukit.typing.Elements | None = None, axis: typing.SupportsIndex = 0) -> pygpukit._core.GPUArray"),
      "Elements of a, or of 0 ... a - 1, at random: equally likely, or with the chances p, which are divided by their "
      "sum. With p it waits for the device.");
  c.def(
      "jumped",
      [](const Generator& self, IntArg jumps) {
        const random::State state = random::jumped(self.state(), to_uint64("random.jumped", "jumps", jumps));
        auto other = std::make_unique<Generator>();
        other->set_state(state);
        return other;
      },
      "jumps"_a = 1, "A new generator, 2^40 offsets further on in the same sequence for each jump.");
  c.def(
      "spawn",
      [](Generator& self, IntArg n_children) {
        std::vector<std::unique_ptr<Generator>> children;
        for (const uint64_t seed : random::spawn(self, to_int("random.spawn", "n_children", n_children)))
          children.push_back(std::make_unique<Generator>(seed));
        return children;
      },
      "n_children"_a, "Independent generators, others at each call.");
}

void bind_generator(nb::module_& m) {
  nb::module_ r = m.def_submodule("random", "Random numbers: counter-based, the same bits on every device.");
  r.def(
      "default_rng",
      [](nb::handle seed) -> nb::object {
        if (nb::isinstance<Generator>(seed)) return nb::borrow(seed);
        return nb::type<Generator>()(seed.is_none() ? nb::object(nb::int_(0)) : nb::borrow(seed));
      },
      "seed"_a = nb::none(),
      nb::sig("def default_rng(seed: Generator | typing.SupportsIndex | None = None) -> Generator"),
      "A Generator of that seed, 0 when not given: the same program, the same numbers. A Generator is given back.");
  r.def(
      "permutation", [](nb::handle x, IntArg axis) { return permutation(random::default_generator(), x, axis); }, "x"_a,
      "axis"_a = 0,
      nb::sig(
          "def permutation(x: pygpukit.typing.Elements, axis: typing.SupportsIndex = 0) -> pygpukit._core.GPUArray"),
      "Generator.permutation of the default generator.");
  r.def(
      "shuffle", [](const ArrayObject& x, IntArg axis) { shuffle(random::default_generator(), x, axis); }, "x"_a,
      "axis"_a = 0, "Generator.shuffle of the default generator.");
  r.def(
      "choice",
      [](nb::handle a, ShapeArg size, bool replace, nb::handle p, IntArg axis) {
        return choice(random::default_generator(), a, size, replace, p, axis);
      },
      "a"_a, "size"_a = nb::none(), "replace"_a = true, "p"_a = nb::none(), "axis"_a = 0,
      nb::sig("def choice(a: pygpukit.typing.Elements, size: pygpukit.typing.ShapeLike | None = None, replace: bool = "
              "True, "
              "p: pygpukit.typing.Elements | None = None, axis: typing.SupportsIndex = 0) -> pygpukit._core.GPUArray"),
      "Generator.choice of the default generator.");
}

}  // namespace gpukit
