#include "gpukit/ops/sampling/sampling.h"

#include <string>
#include <vector>

#include "gpukit/base/fork.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/sampling/sampling_impl.h"
#include "gpukit/ops/sampling/sampling_step.cuh"
#include "gpukit/runtime/fault.h"

namespace gpukit {
namespace {

constexpr const char* kOp = "sample";

/// Checks arguments against the logits, brings them into the layout the backends read, and results back.
class Call {
 public:
  Call(const Array& logits, const Array* out) {
    if (logits.ndim() != 1 && logits.ndim() != 2)
      throw ShapeError(kOp, "logits", "be [rows, vocab] or [vocab]", logits.shape().str());
    if (logits.dtype() != DType::float16 && logits.dtype() != DType::bfloat16 && logits.dtype() != DType::float32)
      unsupported_dtype(kOp, "logits", logits.dtype(), "have dtype float16, bfloat16 or float32");
    work_.logits = logits.ndim() == 1 ? logits.expand_dims(0) : logits;
    rows_ = work_.logits.shape()[0];
    vocab_ = work_.logits.shape()[1];
    if (vocab_ < 1 || vocab_ > sampling::kMaxVocab)
      throw ShapeError(kOp, "logits", "have 1 to " + std::to_string(sampling::kMaxVocab) + " columns",
                       logits.shape().str());
    result_ = result(kOp, out, logits.ndim() == 1 ? Dims{} : Dims{rows_}, DType::int32, logits.device());
  }

  void set_numbers(const SamplingParams& p) {
    SamplingSpace& s = work_.space;
    s = {};
    s.vocab = vocab_;
    s.logits_row = work_.logits.strides()[0];
    s.logits_step = work_.logits.strides()[1];
    s.fault_op = runtime::fault_code(kOp);
    set("temperature", p.temperature, DType::float32, &work_.temperature, &s.temperature);
    set("top_k", p.top_k, DType::int32, &work_.top_k, &s.top_k);
    set("top_p", p.top_p, DType::float32, &work_.top_p, &s.top_p);
    set("min_p", p.min_p, DType::float32, &work_.min_p, &s.min_p);
    set("repetition", p.repetition, DType::float32, &work_.repetition, &s.repetition);
    set("frequency", p.frequency, DType::float32, &work_.frequency, &s.frequency);
    set("presence", p.presence, DType::float32, &work_.presence, &s.presence);
  }

  void set_draws(const SamplingParams& p) {
    SamplingSpace& s = work_.space;
    int64_t position = 0;
    set("position", p.position, DType::int32, &work_.position, &position);
    s.position = static_cast<uint64_t>(position);
    work_.uniform = numbers("uniform", p.uniform, DType::float32);
    const bool greedy = !work_.temperature.defined() && !(s.temperature >= sampling::kGreedyBelow);
    if (p.seed) {
      set("seed", *p.seed, DType::uint64, &work_.seed, &s.seed);
    } else if (!work_.uniform.defined() && !greedy) {
      if (work_.position.defined() || position != 0)
        throw ArgumentError(kOp, "position", "stand beside a seed", "no seed");
      const random::State state = sampling_generator().take(kOp);
      s.seed = state.seed;
      s.position = state.offset;
    }
    s.one_seed = work_.seed.defined() ? 0 : 1;
  }

  void set_history(const SamplingParams& p) {
    if (!p.history.defined()) {
      if (p.history_lengths.defined() || p.prompt_lengths.defined())
        throw ArgumentError(kOp, "history", "be there beside lengths of it", "None");
      return;
    }
    SamplingSpace& s = work_.space;
    work_.history = lists("history", p.history, DType::int32);
    s.history_row = work_.history.strides()[0];
    s.history_count = work_.history.shape()[1];
    work_.history_lengths = numbers("history_lengths", p.history_lengths, DType::int32);
    work_.prompt_lengths = numbers("prompt_lengths", p.prompt_lengths, DType::int32);
  }

  void set_bias(const SamplingParams& p) {
    if (p.bias_ids.defined() != p.bias_values.defined())
      throw ArgumentError(kOp, p.bias_ids.defined() ? "bias_values" : "bias_ids", "be there beside the other", "None");
    if (!p.bias_ids.defined()) return;
    SamplingSpace& s = work_.space;
    work_.bias_ids = lists("bias_ids", p.bias_ids, DType::int32);
    work_.bias_values = lists("bias_values", p.bias_values, DType::float32);
    check_shape(kOp, "bias_values", p.bias_values, p.bias_ids.shape());
    if (work_.bias_values.strides()[0] != work_.bias_ids.strides()[0]) {
      work_.bias_ids = contiguous(work_.bias_ids, temporaries_);
      work_.bias_values = contiguous(work_.bias_values, temporaries_);
    }
    s.bias_row = work_.bias_ids.strides()[0];
    s.bias_count = work_.bias_ids.shape()[1];
  }

  void set_allowed(const Array& allowed) {
    if (!allowed.defined()) return;
    SamplingSpace& s = work_.space;
    check_place("allowed", allowed);
    s.allowed_bits = allowed.dtype() != DType::boolean ? 1 : 0;
    if (s.allowed_bits != 0 && allowed.dtype() != DType::int32 && allowed.dtype() != DType::uint32)
      unsupported_dtype(kOp, "allowed", allowed.dtype(), "have dtype bool, or int32 or uint32 for bits");
    const int64_t columns = s.allowed_bits != 0 ? (vocab_ + 31) / 32 : vocab_;
    if (allowed.ndim() == 1)
      check_shape(kOp, "allowed", allowed, {columns});
    else
      check_shape(kOp, "allowed", allowed, {rows_, columns});
    work_.allowed = allowed.broadcast_to({rows_, columns});
    s.allowed_row = work_.allowed.strides()[0];
    s.allowed_step = work_.allowed.strides()[1];
  }

  void set_report(const SamplingReport& report) {
    if (report.top_ids.defined() != report.top_logprobs.defined())
      throw ArgumentError(kOp, report.top_ids.defined() ? "top_logprobs" : "top_ids", "be there beside the other",
                          "None");
    if (report.logprobs.defined()) check_result("logprobs", report.logprobs, result_.shape(), DType::float32);
    if (!report.top_ids.defined()) return;
    const int64_t n = report.top_ids.ndim() == 0 ? 0 : report.top_ids.shape(-1);
    if (n < 1 || n > kMaxTop || n > vocab_)
      throw ShapeError(kOp, "top_ids", "have 1 to " + std::to_string(vocab_ < kMaxTop ? vocab_ : kMaxTop) + " columns",
                       report.top_ids.shape().str());
    Dims shape = result_.shape();
    shape.push_back(n);
    check_result("top_ids", report.top_ids, shape, DType::int32);
    check_result("top_logprobs", report.top_logprobs, shape, DType::float32);
    work_.space.top_n = static_cast<int32_t>(n);
  }

  Array run(const SamplingReport& report) {
    if (result_.size() == 0) return result_;
    work_.out = written(result_);
    if (report.logprobs.defined()) work_.logprobs = written(report.logprobs);
    if (report.top_ids.defined()) {
      work_.top_ids = written(report.top_ids);
      work_.top_logprobs = written(report.top_logprobs);
    }
    switch (result_.device().kind) {
      case DeviceKind::cpu: cpu::sample(work_); break;
      case DeviceKind::cuda: cuda::sample(work_); break;
    }
    give(result_, work_.out);
    give(report.logprobs, work_.logprobs);
    give(report.top_ids, work_.top_ids);
    give(report.top_logprobs, work_.top_logprobs);
    return result_;
  }

 private:
  void check_place(const char* argument, const Array& x) const {
    if (x.device() != result_.device())
      throw DeviceError(std::string(kOp) + ": " + argument + " is on " + str(x.device()) + ", logits is on " +
                        str(result_.device()) + "; move one with x.to(device)");
  }

  template <typename T, typename Value>
  void set(const char* argument, const PerRow<T>& given, DType dtype, Array* array, Value* value) {
    *value = given.value;
    *array = numbers(argument, given.rows, dtype);
  }

  Array numbers(const char* argument, const Array& x, DType dtype) {
    if (!x.defined()) return x;
    check_place(argument, x);
    check_dtype(kOp, argument, x, dtype);
    check_shape(kOp, argument, x, {rows_});
    return contiguous(x, temporaries_);
  }

  Array lists(const char* argument, const Array& x, DType dtype) {
    check_place(argument, x);
    check_dtype(kOp, argument, x, dtype);
    check_ndim(kOp, argument, x, 2);
    check_shape(kOp, argument, x, {rows_, x.shape()[1]});
    return x.strides()[1] == 1 || x.shape()[1] < 2 ? x : contiguous(x, temporaries_);
  }

  void check_result(const char* argument, const Array& x, const Dims& shape, DType dtype) {
    check_place(argument, x);
    check_dtype(kOp, argument, x, dtype);
    check_shape(kOp, argument, x, shape);
    if (has_internal_overlap(x))
      throw ArgumentError(std::string(kOp) + ": " + argument +
                          " reaches some of its memory twice and cannot be written");
    for (const Array* other : written_)
      if (x.size() > 0 && may_share_memory(x, *other))
        throw ArgumentError(std::string(kOp) + ": " + argument + " and another result share memory");
    if (x.size() > 0 && may_share_memory(x, result_))
      throw ArgumentError(std::string(kOp) + ": " + argument + " and out share memory");
    written_.push_back(&x);
  }

  bool meets_input(const Array& x) const {
    const SamplingWork& w = work_;
    for (const Array* input : {&w.logits, &w.temperature, &w.top_k, &w.top_p, &w.min_p, &w.repetition, &w.frequency,
                               &w.presence, &w.history, &w.history_lengths, &w.prompt_lengths, &w.bias_ids,
                               &w.bias_values, &w.allowed, &w.seed, &w.position, &w.uniform})
      if (input->defined() && input->size() > 0 && may_share_memory(x, *input)) return true;
    return false;
  }

  Array written(const Array& x) { return x.is_contiguous() && !meets_input(x) ? x : temporaries_.empty_like(x); }

  void give(const Array& to, const Array& from) {
    if (to.defined() && !begin_together(to, from)) copy_into(to, from);
  }

  Temporaries temporaries_{kOp};
  SamplingWork work_;
  Array result_;
  std::vector<const Array*> written_;
  int64_t rows_ = 0, vocab_ = 0;
};

}  // namespace

random::Generator& sampling_generator() {
  static random::Generator* const leaked = new random::Generator;
  return *leaked;
}

namespace {
[[maybe_unused]] const bool g_made_at_load = made_at_load<sampling_generator>();
}  // namespace

Array sample(const Array& logits, const SamplingParams& params, const Array* out, const SamplingReport& report) {
  Call call(logits, out);
  call.set_numbers(params);
  call.set_history(params);
  call.set_bias(params);
  call.set_allowed(params.allowed);
  call.set_report(report);
  call.set_draws(params);
  return call.run(report);
}

}  // namespace gpukit
