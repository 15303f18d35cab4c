#include "gpukit/ops/recurrent/lstm.h"

#include <nanobind/stl/string.h>

#include <optional>

#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;
using Arrays3 = nb::typed<nb::tuple, Array, Array, Array>;
using OutArg = nb::typed<nb::handle, Arrays3>;

Array to_optional(const char* op, const char* argument, nb::handle value) {
  const Array* array = to_optional_array(op, argument, value);
  return array == nullptr ? Array() : *array;
}

std::optional<LstmResult> to_result(const char* op, nb::handle out) {
  if (out.is_none()) return std::nullopt;
  if (!nb::isinstance<nb::tuple>(out) || nb::len(out) != 3)
    throw ArgumentError(op, "out", "be a tuple (out, h_n, c_n)", nb::cast<std::string>(nb::str(out.type())));
  return LstmResult{to_array(op, "out", out[0]), to_array(op, "out", out[1]), to_array(op, "out", out[2])};
}

MatmulPrecision to_precision(BoolArg use_tf32) {
  if (use_tf32.is_none()) return MatmulPrecision::automatic;
  const int truth = PyObject_IsTrue(use_tf32.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0 ? MatmulPrecision::tf32 : MatmulPrecision::exact;
}

template <typename F>
Arrays3 run(const char* op, nb::handle out, F&& f) {
  const std::optional<LstmResult> given = to_result(op, out);
  LstmResult r = in_scope([&] { return f(given.has_value() ? &*given : nullptr); });
  if (given.has_value()) return nb::borrow<Arrays3>(out);
  return Arrays3(nb::make_tuple(wrap(std::move(r.out)), wrap(std::move(r.h_n)), wrap(std::move(r.c_n))));
}

}  // namespace

void bind_lstm(nb::module_& m) {
  m.def(
      "lstm_forward",
      [](const ArrayObject& x, const ArrayObject& w_ih, const ArrayObject& w_hh, ArrayArg b_ih, ArrayArg b_hh,
         ArrayArg h0, ArrayArg c0, bool reverse, BoolArg use_tf32, OutArg out) {
        constexpr const char* kOp = "lstm_forward";
        const Array& input = to_array(kOp, "x", x);
        const LstmWeights w{to_array(kOp, "W_ih", w_ih), to_array(kOp, "W_hh", w_hh), to_optional(kOp, "b_ih", b_ih),
                            to_optional(kOp, "b_hh", b_hh)};
        const Array h = to_optional(kOp, "h0", h0), c = to_optional(kOp, "c0", c0);
        const MatmulPrecision precision = to_precision(use_tf32);
        return run(kOp, out, [&](const LstmResult* r) { return lstm_forward(input, w, h, c, reverse, r, precision); });
      },
      "x"_a, "W_ih"_a, "W_hh"_a, "b_ih"_a = nb::none(), "b_hh"_a = nb::none(), "h0"_a = nb::none(), "c0"_a = nb::none(),
      "reverse"_a = false, nb::kw_only(), "use_tf32"_a = nb::none(), "out"_a = nb::none(),
      "One LSTM layer over x [batch, steps, inputs]: (out [batch, steps, hidden], h_n, c_n). Gates stand in the order "
      "i, f, g, o. `reverse` goes from the last step to the first. use_tf32=True permits TF32 in the product of x by "
      "W_ih; None is what PYGPUKIT_ALLOW_TF32 says. `out` is a tuple of all three; its states may be h0, c0.");
  m.def(
      "lstm_bidirectional",
      [](const ArrayObject& x, const ArrayObject& w_ih_fwd, const ArrayObject& w_hh_fwd, ArrayArg b_ih_fwd,
         ArrayArg b_hh_fwd, const ArrayObject& w_ih_bwd, const ArrayObject& w_hh_bwd, ArrayArg b_ih_bwd,
         ArrayArg b_hh_bwd, ArrayArg h0, ArrayArg c0, BoolArg use_tf32, OutArg out) {
        constexpr const char* kOp = "lstm_bidirectional";
        const Array& input = to_array(kOp, "x", x);
        const LstmWeights f{to_array(kOp, "W_ih_fwd", w_ih_fwd), to_array(kOp, "W_hh_fwd", w_hh_fwd),
                            to_optional(kOp, "b_ih_fwd", b_ih_fwd), to_optional(kOp, "b_hh_fwd", b_hh_fwd)};
        const LstmWeights b{to_array(kOp, "W_ih_bwd", w_ih_bwd), to_array(kOp, "W_hh_bwd", w_hh_bwd),
                            to_optional(kOp, "b_ih_bwd", b_ih_bwd), to_optional(kOp, "b_hh_bwd", b_hh_bwd)};
        const Array h = to_optional(kOp, "h0", h0), c = to_optional(kOp, "c0", c0);
        const MatmulPrecision precision = to_precision(use_tf32);
        return run(kOp, out, [&](const LstmResult* r) { return lstm_bidirectional(input, f, b, h, c, r, precision); });
      },
      "x"_a, "W_ih_fwd"_a, "W_hh_fwd"_a, "b_ih_fwd"_a.none(), "b_hh_fwd"_a.none(), "W_ih_bwd"_a, "W_hh_bwd"_a,
      "b_ih_bwd"_a.none(), "b_hh_bwd"_a.none(), nb::kw_only(), "h0"_a = nb::none(), "c0"_a = nb::none(),
      "use_tf32"_a = nb::none(), "out"_a = nb::none(),
      "lstm_forward and its reverse side by side: (out [batch, steps, 2 hidden], h_n and c_n [2, batch, hidden]).");
}

}  // namespace gpukit
