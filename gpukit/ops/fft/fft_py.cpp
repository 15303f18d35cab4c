#include "gpukit/ops/fft/fft.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using namespace python;

using One = Array (*)(const Array&, fft::Length, int64_t, fft::Norm, const Array*);
using Several = Array (*)(const Array&, const fft::Sizes&, const fft::Sizes&, fft::Norm, const Array*);

template <One kFunction>
void bind_one(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& x, IntArg n, IntArg axis, StringArg norm, ArrayArg out) {
        const Array& values = to_array(op, "x", x);
        const fft::Length length = to_optional_int(op, "n", n);
        const int64_t along = to_int(op, "axis", axis);
        const fft::Norm scale = fft::norm_from_name(op, to_text(op, "norm", norm));
        return with_out(op, out, [&](const Array* target) { return kFunction(values, length, along, scale, target); });
      },
      "x"_a, nb::kw_only(), "n"_a = nb::none(), "axis"_a = -1, "norm"_a = "backward", "out"_a = nb::none(), doc);
}

fft::Sizes to_sizes(const char* op, const char* argument, nb::handle value) {
  if (value.is_none()) return {};
  return to_dims(op, value, argument);
}

template <Several kFunction>
void bind_several(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& x, AxisArg s, AxisArg axes, StringArg norm, ArrayArg out) {
        const Array& values = to_array(op, "x", x);
        const fft::Sizes sizes = to_sizes(op, "s", s), named = to_sizes(op, "axes", axes);
        const fft::Norm scale = fft::norm_from_name(op, to_text(op, "norm", norm));
        return with_out(op, out, [&](const Array* target) { return kFunction(values, sizes, named, scale, target); });
      },
      "x"_a, nb::kw_only(), "s"_a = nb::none(), "axes"_a = nb::none(), "norm"_a = "backward", "out"_a = nb::none(),
      doc);
}

using Frequencies = Array (*)(int64_t, double, DType, std::optional<Device>);
template <Frequencies kFunction>
void bind_frequencies(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](IntArg n, double d, DTypeArg dtype, DeviceArg device) {
        const int64_t count = to_int(op, "n", n);
        const DType kind = to_optional_dtype(dtype).value_or(DType::float32);
        const Device where = to_device(device);
        return wrap(in_scope([&] { return kFunction(count, d, kind, where); }));
      },
      "n"_a, nb::kw_only(), "d"_a = 1.0, "dtype"_a = nb::none(), "device"_a = nb::none(), doc);
}

using Shift = Array (*)(const Array&, const fft::Sizes&, const Array*);
template <Shift kFunction>
void bind_shift(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& x, AxisArg axes, ArrayArg out) {
        const Array& values = to_array(op, "x", x);
        const fft::Sizes named = to_sizes(op, "axes", axes);
        return with_out(op, out, [&](const Array* target) { return kFunction(values, named, target); });
      },
      "x"_a, nb::kw_only(), "axes"_a = nb::none(), "out"_a = nb::none(), doc);
}

}  // namespace

void bind_fft(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("fft", "Fourier transforms of any length: the array API's fft extension.");
  bind_one<fft::fft>(m, "fft", "Complex transform along one axis. n cuts the axis or pads it with zeros.");
  bind_one<fft::ifft>(m, "ifft", "The inverse of fft.");
  bind_one<fft::rfft>(m, "rfft", "Transform of real values: the n // 2 + 1 frequencies from 0 up.");
  bind_one<fft::irfft>(m, "irfft", "The inverse of rfft: n real values, 2 * (m - 1) when n is not given.");
  bind_one<fft::hfft>(m, "hfft", "The real spectrum of a signal whose negative half mirrors x.");
  bind_one<fft::ihfft>(m, "ihfft", "The inverse of hfft.");
  bind_several<fft::fftn>(m, "fftn", "Complex transform along several axes, all when not given.");
  bind_several<fft::ifftn>(m, "ifftn", "The inverse of fftn.");
  bind_several<fft::rfftn>(m, "rfftn", "Transform of real values along several axes; the last one named is halved.");
  bind_several<fft::irfftn>(m, "irfftn", "The inverse of rfftn.");
  bind_frequencies<fft::fftfreq>(m, "fftfreq", "The frequencies of fft's results for samples d apart.");
  bind_frequencies<fft::rfftfreq>(m, "rfftfreq", "The frequencies of rfft's results for samples d apart.");
  bind_shift<fft::fftshift>(m, "fftshift", "Moves frequency 0 to the middle of the axes, all when not given.");
  bind_shift<fft::ifftshift>(m, "ifftshift", "Undoes fftshift.");
}

}  // namespace gpukit
