#include "gpukit/models/asr/whisper_step.h"

#include <algorithm>
#include <bit>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/sampling/sampling.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer.h"
#include "gpukit/runtime/waiter.h"

namespace gpukit::asr {
namespace {

constexpr const char* kOp = "transcribe";
constexpr size_t kSlots = 2;  // a step runs while the host looks at the one before it

/// The parts of the block that goes up in one copy: seeds, texts, last keys, temperatures, top k.
struct Control {
  Array block;
  int64_t rows;
  static int64_t words(int64_t rows) { return (2 + kNumTextFields + 3) * rows; }
  Array part(int64_t first, int64_t count) const { return block.narrow(0, first * rows, count * rows); }
  Array seeds() const { return part(0, 2).bitcast(DType::uint64); }
  Array texts() const { return part(2, kNumTextFields).reshape_view({kNumTextFields, rows}); }
  Array field(int64_t i) const { return part(2 + i, 1); }
  Array last_keys() const { return part(2 + kNumTextFields, 1); }
  Array temperatures() const { return part(3 + kNumTextFields, 1).bitcast(DType::float32); }
  Array top_k() const { return part(4 + kNumTextFields, 1); }
};

/// Bits of the tokens that may not be said, before the first token and after.
Array mask_of(const StepOptions& options, int64_t vocab, Device device) {
  const int64_t words = (vocab + 31) / 32;
  std::vector<uint32_t> bits(static_cast<size_t>(2 * words), 0);
  const auto set = [&](const std::vector<int64_t>& ids, int64_t row) {
    for (const int64_t id : ids) {
      if (id < 0 || id >= vocab) throw OutOfRangeError("suppressed tokens", id, vocab);
      bits[static_cast<size_t>(row * words + id / 32)] |= 1u << (id % 32);
    }
  };
  set(options.never, 0);
  set(options.never, 1);
  set(options.never_first, 0);
  return from_host(bits.data(), {2, words}, DType::int32, device);
}

}  // namespace

WhisperStep::WhisperStep(const WhisperDecoder& decoder, StepOptions options)
    : decoder_(decoder), options_(std::move(options)), capacity_(decoder.num_sequences()) {
  const WhisperWeights& w = decoder.weights();
  pass_ = DecoderPass::allocate(w, capacity_, capacity_);
  control_ = Array::empty({Control::words(capacity_)}, DType::int32, w.device);
  suppressed_ = mask_of(options_, decoder.vocab_size(), w.device);
  drawn_ = Array::empty({result_words(capacity_)}, DType::int32, w.device);
  if (!options_.graph) return;
  const auto bytes = static_cast<size_t>(result_words(capacity_)) * sizeof(int32_t);
  ring_ = std::make_unique<runtime::PinnedRing>(runtime::open_device(w.device).context, bytes, kSlots);
  for (size_t i = 0; i < kSlots; ++i) slots_.push_back(ring_->acquire());
}

WhisperStep::~WhisperStep() = default;

void WhisperStep::upload(std::span<const TextRow> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  if (n > capacity_) throw ArgumentError(kOp, "rows", "be sequences of the decoder", std::to_string(n));
  std::vector<int32_t> words(static_cast<size_t>(Control::words(n)));
  int32_t* at = words.data();
  for (const TextRow& row : rows) {
    decoder_.check(row.token);
    *at++ = static_cast<int32_t>(static_cast<uint32_t>(row.seed));
    *at++ = static_cast<int32_t>(static_cast<uint32_t>(row.seed >> 32));
  }
  const auto put = [&](auto&& value) {
    for (const TextRow& row : rows) *at++ = value(row);
  };
  put([](const TextRow& r) { return r.token.id; });
  put([](const TextRow& r) { return r.token.position; });
  put([](const TextRow& r) { return r.token.sequence; });
  put([](const TextRow& r) { return r.token.window; });
  put([](const TextRow& r) { return r.length; });
  put([](const TextRow& r) { return r.kinds; });
  put([](const TextRow& r) { return r.latest; });
  put([](const TextRow& r) { return r.limit; });
  const auto last_key = static_cast<int32_t>(decoder_.weights().config.max_source_positions - 1);
  put([&](const TextRow&) { return last_key; });
  put([&](const TextRow&) { return std::bit_cast<int32_t>(temperature_); });
  put([&](const TextRow&) { return top_k_; });
  runtime::copy_from_host(write(control_), words.data(), words.size() * sizeof(int32_t));
}

void WhisperStep::choose_next(const Array& logits, int64_t rows) {
  const Control control{control_, rows};
  whisper_mask(logits, control.texts(), suppressed_, options_.rules);
  SamplingParams params;
  params.temperature = 0.0f;
  if (options_.draws) {
    params.temperature = control.temperatures();
    params.top_k = control.top_k();
    params.seed = PerRow<uint64_t>(control.seeds());
    params.position = control.field(4);
  }
  const Array tokens = drawn_.narrow(0, 0, rows);
  SamplingReport report;
  report.logprobs = drawn_.narrow(0, rows, rows).bitcast(DType::float32);
  if (const int64_t top = options_.top; top > 0) {
    report.top_ids = drawn_.narrow(0, 2 * rows, top * rows).reshape_view({rows, top});
    report.top_logprobs =
        drawn_.narrow(0, (2 + top) * rows, top * rows).bitcast(DType::float32).reshape_view({rows, top});
  }
  sample(logits, params, &tokens, report);
}

void WhisperStep::read_and_choose(int64_t rows) {
  const Control control{control_, rows};
  DecoderPass pass = pass_.first(rows);
  pass.ids = control.field(0);
  pass.positions = control.field(1);
  pass.sequences = control.field(2);
  pass.windows = control.field(3);
  pass.last_keys = control.last_keys();
  decoder_.run(pass);
  choose_next(pass.logits, rows);
  whisper_advance(control.texts(), drawn_.narrow(0, 0, rows), options_.rules);
}

void WhisperStep::replay() {
  if (graph_ == nullptr) {
    auto graph = std::make_unique<runtime::Graph>(decoder_.weights().device);
    runtime::ScopedCapture capture(*graph);
    read_and_choose(capacity_);
    capture.end();
    graph_ = std::move(graph);
  }
  graph_->replay();
}

Choice WhisperStep::unpack(const int32_t* words, int64_t rows) const {
  const int64_t top = options_.top;
  Choice choice;
  const auto number = [](int32_t word) { return std::bit_cast<float>(word); };
  choice.tokens.assign(words, words + rows);
  std::transform(words + rows, words + 2 * rows, std::back_inserter(choice.logprobs), number);
  choice.top_ids.assign(words + 2 * rows, words + (2 + top) * rows);
  std::transform(words + (2 + top) * rows, words + (2 + 2 * top) * rows, std::back_inserter(choice.top_logprobs),
                 number);
  return choice;
}

Choice WhisperStep::results(int64_t rows) {
  std::vector<int32_t> words(static_cast<size_t>(result_words(rows)));
  to_host(words.data(), drawn_.narrow(0, 0, result_words(rows)), kOp);
  return unpack(words.data(), rows);
}

Choice WhisperStep::choose(const Array& logits, std::span<const TextRow> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  upload(rows);
  choose_next(logits, n);
  return results(n);
}

Choice WhisperStep::run(std::span<const TextRow> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  upload(rows);
  if (options_.graph && n == capacity_)
    replay();
  else
    read_and_choose(n);
  return results(n);
}

void WhisperStep::start(std::span<const TextRow> rows) {
  issued_.clear();  // what nobody took is over before what comes next
  upload(rows);
}

void WhisperStep::issue() {
  replay();
  const auto bytes = static_cast<size_t>(result_words(capacity_)) * sizeof(int32_t);
  const auto& stream = runtime::borrow_stream(decoder_.weights().device);
  runtime::PinnedRing::Slot& slot = slots_[next_slot_];
  runtime::copy_to_host_async(slot.data(), read(drawn_), bytes, stream);
  slot.mark(stream);
  issued_.push_back(next_slot_);
  next_slot_ = (next_slot_ + 1) % kSlots;
}

Choice WhisperStep::take() {
  runtime::PinnedRing::Slot& slot = slots_[issued_.front()];
  issued_.pop_front();
  runtime::wait_for_device([&] { return slot.idle(); }, [&] { slot.wait(); });
  return unpack(reinterpret_cast<const int32_t*>(slot.data()), capacity_);
}

}  // namespace gpukit::asr
