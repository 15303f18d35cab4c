#include "gpukit/models/asr/whisper_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/number_text.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/softmax/softmax.h"

namespace gpukit::asr {
namespace {

/// A seed for each text of a window.
uint64_t mix(uint64_t seed, uint64_t stream, uint64_t draw) {
  uint64_t x = seed;
  for (const uint64_t part : {stream, draw}) {
    x += part + 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
  }
  return x;
}

/// One text under way.
struct Text {
  std::vector<int32_t> tokens;
  double logprob = 0;
  bool ended = false;
};

/// The texts of one window.
class Group {
 public:
  Group(const SearchJob& job, int64_t number, const WhisperTokens& tokens, const SearchOptions& options, int64_t limit)
      : job_(job), number_(number), limit_(limit), tokens_(tokens), options_(options) {
    texts_.resize(static_cast<size_t>(options.group()));
  }

  int32_t sequence(size_t text) const {
    return static_cast<int32_t>(number_ * options_.group()) + static_cast<int32_t>(text);
  }
  size_t size() const { return texts_.size(); }
  bool over() const { return over_; }
  bool running(size_t text) const { return !over_ && !texts_[text].ended; }
  /// Of which the first tokens are chosen apart: beams begin as one text.
  size_t num_first() const { return is_beam_search() ? 1 : texts_.size(); }
  /// What stands last, to be read next.
  TextRow row(size_t text) const {
    const std::vector<int32_t>& t = texts_[text].tokens;
    const size_t n = t.size();
    TextRow row;
    row.token = {n > 0 ? t.back() : job_.prompt.back(), static_cast<int32_t>(job_.prompt.size() + n) - 1,
                 sequence(text), static_cast<int32_t>(job_.window)};
    row.length = static_cast<int32_t>(n);
    const bool last = n == 0 || tokens_.is_timestamp(t[n - 1]), before = n < 2 || tokens_.is_timestamp(t[n - 2]);
    row.kinds = (last ? 1 : 0) | (before ? 2 : 0);
    for (size_t i = n; i-- > 0 && row.latest < 0;)
      if (tokens_.is_timestamp(t[i])) row.latest = t[i];
    row.limit = static_cast<int32_t>(limit_);
    row.seed = mix(options_.seed, job_.stream, text);
    return row;
  }

  /// `row(i)`: where the choice for text i stands.
  template <typename Row>
  void advance(WhisperDecoder& decoder, const Choice& choice, Row&& row) {
    if (is_beam_search()) return advance_beams(decoder, choice, row);
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!running(i)) continue;
      const size_t at = row(i);
      take(texts_[i], choice.tokens[at], static_cast<double>(choice.logprobs[at]));
    }
    over_ = std::all_of(texts_.begin(), texts_.end(), [](const Text& t) { return t.ended; }) || is_full();
  }

  SearchResult best() const {
    const std::vector<Text>& all = finished_.empty() ? texts_ : finished_;
    const Text* best = nullptr;
    for (const Text& text : all)
      if (best == nullptr || score(text) > score(*best)) best = &text;
    return {best->tokens, best->logprob / static_cast<double>(best->tokens.size() + 1), 0, best->ended};
  }

 private:
  bool is_beam_search() const { return options_.temperature <= 0 && options_.beam_size > 1; }

  /// Texts under way are equally long: none may grow.
  bool is_full() const {
    size_t longest = 0;
    for (const Text& text : texts_)
      if (!text.ended) longest = std::max(longest, text.tokens.size());
    return static_cast<int64_t>(job_.prompt.size() + longest) >= limit_;
  }

  double score(const Text& text) const {
    const double length = static_cast<double>(std::max<size_t>(text.tokens.size(), 1));
    return text.logprob / (options_.length_penalty < 0 ? length : std::pow((5 + length) / 6, options_.length_penalty));
  }

  int32_t end() const { return static_cast<int32_t>(tokens_.end_of_text); }

  void take(Text& text, int32_t token, double logprob) {
    if (token < 0) throw Error("transcribe: the model gave no number for any token that may come next (NaN)");
    text.logprob += logprob;
    if (token == end())
      text.ended = true;
    else
      text.tokens.push_back(token);
  }

  struct Candidate {
    size_t parent;
    int32_t token;
    double logprob;  // of the whole text
  };

  template <typename Row>
  void advance_beams(WhisperDecoder& decoder, const Choice& choice, Row&& row) {
    const size_t beams = texts_.size();
    std::vector<Candidate> candidates;
    const size_t parents = texts_[0].tokens.empty() ? 1 : beams;  // at first all are the same
    const size_t top = choice.top_ids.size() / choice.tokens.size();
    for (size_t p = 0; p < parents; ++p) {
      const size_t at = row(p);
      if (choice.tokens[at] < 0) take(texts_[p], choice.tokens[at], 0);
      for (size_t i = at * top; i < (at + 1) * top; ++i)
        if (choice.top_logprobs[i] > -std::numeric_limits<float>::infinity())
          candidates.push_back({p, choice.top_ids[i], texts_[p].logprob + static_cast<double>(choice.top_logprobs[i])});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.logprob > b.logprob; });
    std::vector<Candidate> kept;
    const auto limit = static_cast<size_t>(
        std::max<int64_t>(1, std::llround(static_cast<double>(options_.beam_size) * options_.patience)));
    for (const Candidate& c : candidates) {
      if (kept.size() == beams) break;
      if (c.token != end()) {
        kept.push_back(c);
      } else if (finished_.size() < limit) {
        finished_.push_back(texts_[c.parent]);
        take(finished_.back(), c.token, c.logprob - finished_.back().logprob);
      }
    }
    over_ = finished_.size() >= limit || kept.empty();
    if (over_) return;
    keep(decoder, kept);
    over_ = is_full();
  }

  /// A parent's first child takes its place, with the keys that lie there; others take places that have no child.
  void keep(WhisperDecoder& decoder, const std::vector<Candidate>& kept) {
    std::vector<Text> next(texts_.size());
    std::vector<bool> taken(texts_.size(), false);
    std::vector<const Candidate*> others;
    const auto place = [&](size_t at, const Candidate& c) {
      next[at] = texts_[c.parent];
      take(next[at], c.token, c.logprob - next[at].logprob);
      taken[at] = true;
    };
    for (const Candidate& c : kept) {
      if (taken[c.parent])
        others.push_back(&c);
      else
        place(c.parent, c);
    }
    size_t at = 0;
    for (const Candidate* c : others) {
      while (taken[at]) ++at;
      decoder.copy_sequence(sequence(c->parent), sequence(at),
                            static_cast<int64_t>(job_.prompt.size() + texts_[c->parent].tokens.size()));
      place(at, *c);
    }
    // Fewer texts than places are possible only where almost everything is forbidden.
    for (size_t i = 0; i < next.size(); ++i)
      if (!taken[i])
        next[i] = {texts_[i].tokens.empty() ? std::vector<int32_t>{end()} : texts_[i].tokens,
                   -std::numeric_limits<double>::infinity(), false};
    texts_ = std::move(next);
  }

  const SearchJob& job_;
  const int64_t number_, limit_;
  const WhisperTokens& tokens_;
  const SearchOptions& options_;
  std::vector<Text> texts_, finished_;
  bool over_ = false;
};

}  // namespace

void SearchOptions::check() const {
  const auto need = [](bool holds, const char* name, const char* needed, double given) {
    if (!holds) throw ArgumentError("transcribe", name, needed, number_text(given));
  };
  need(temperature >= 0 && std::isfinite(temperature), "temperature", "be finite and not negative", temperature);
  need(beam_size >= 1 && beam_size <= 64, "beam_size", "be 1 to 64", static_cast<double>(beam_size));
  need(best_of >= 1 && best_of <= 64, "best_of", "be 1 to 64", static_cast<double>(best_of));
  need(patience > 0 && std::isfinite(patience), "patience", "be positive", patience);
  need(std::isfinite(length_penalty), "length_penalty", "be finite", length_penalty);
  need(top_k >= 0, "top_k", "not be negative", static_cast<double>(top_k));
  need(max_length >= 1, "max_length", "be positive", static_cast<double>(max_length));
}

WhisperStep& WhisperSearch::step_for(const SearchOptions& search) {
  const WhisperTokens& t = files_.tokens;
  StepOptions o;
  o.rules = {t.end_of_text, t.no_timestamps, t.timestamp_begin, files_.max_initial_timestamp, search.timestamps};
  if (search.suppress) o.never = files_.config.suppress_tokens;
  for (int64_t id = t.start; id < t.no_timestamps; ++id) o.never.push_back(id);  // these stand in prompts only
  if (search.suppress) o.never_first = files_.config.begin_suppress_tokens;
  o.draws = search.temperature > 0;
  if (!o.draws && search.beam_size > 1) o.top = std::min(search.beam_size + 1, decoder_.vocab_size());
  o.graph = search.graphs.value_or(decoder_.weights().device.kind == DeviceKind::cuda);
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const auto& s) { return s->options() == o; });
  WhisperStep& step =
      found != steps_.end() ? **found : *steps_.emplace_back(std::make_unique<WhisperStep>(decoder_, std::move(o)));
  step.set_draws(search.temperature, search.top_k);
  return step;
}

namespace {

/// Reads all prompts in one pass. Logits of each one's start token, and at its end for every text that begins there.
std::pair<Array, Array> read_prompts(WhisperDecoder& decoder, int64_t start, std::span<const SearchJob> jobs,
                                     const std::vector<Group>& groups) {
  std::vector<DecoderToken> tokens;
  std::vector<int32_t> starts, ends;
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<int32_t>& prompt = jobs[g].prompt;
    const auto found = std::find(prompt.begin(), prompt.end(), static_cast<int32_t>(start));
    starts.push_back(static_cast<int32_t>(tokens.size()) +
                     static_cast<int32_t>(found == prompt.end() ? 0 : found - prompt.begin()));
    for (size_t i = 0; i < prompt.size(); ++i)
      tokens.push_back(
          {prompt[i], static_cast<int32_t>(i), groups[g].sequence(0), static_cast<int32_t>(jobs[g].window)});
    ends.insert(ends.end(), groups[g].num_first(), static_cast<int32_t>(tokens.size() - 1));
  }
  const auto num_starts = static_cast<int64_t>(starts.size()), num_ends = static_cast<int64_t>(ends.size());
  starts.insert(starts.end(), ends.begin(), ends.end());
  const Array logits = decoder.read(tokens, starts);
  return {logits.narrow(0, 0, num_starts), logits.narrow(0, num_starts, num_ends)};
}

/// Steps that the host steers: it says what each text reads.
void search_by_host(WhisperDecoder& decoder, WhisperStep& step, std::vector<Group>& groups) {
  const auto capacity = static_cast<size_t>(decoder.num_sequences());
  std::vector<size_t> at(capacity);  // rows of the texts under way, by sequence
  for (;;) {
    std::vector<TextRow> rows;
    if (step.options().graph) rows.resize(capacity);
    bool any = false;
    for (const Group& group : groups)
      for (size_t i = 0; i < group.size(); ++i) {
        if (!group.running(i)) continue;
        const auto sequence = static_cast<size_t>(group.sequence(i));
        at[sequence] = step.options().graph ? sequence : rows.size();
        if (!step.options().graph) rows.emplace_back();
        rows[at[sequence]] = group.row(i);
        any = true;
      }
    if (!any) return;
    const Choice choice = step.run(rows);
    for (Group& group : groups)
      if (!group.over())
        group.advance(decoder, choice, [&](size_t i) { return at[static_cast<size_t>(group.sequence(i))]; });
  }
}

/// Steps that go on by themselves; one runs while the host looks at the tokens of the one before it.
void search_by_graph(WhisperDecoder& decoder, WhisperStep& step, std::vector<Group>& groups) {
  std::vector<TextRow> rows(static_cast<size_t>(decoder.num_sequences()));
  const auto any = [&] { return std::any_of(groups.begin(), groups.end(), [](const Group& g) { return !g.over(); }); };
  for (const Group& group : groups)
    for (size_t i = 0; i < group.size(); ++i)
      if (group.running(i)) rows[static_cast<size_t>(group.sequence(i))] = group.row(i);
  if (!any()) return;
  step.start(rows);
  step.issue();
  while (any()) {
    step.issue();
    const Choice choice = step.take();
    for (Group& group : groups)
      if (!group.over())
        group.advance(decoder, choice, [&](size_t i) { return static_cast<size_t>(group.sequence(i)); });
  }
}

}  // namespace

std::vector<SearchResult> WhisperSearch::run(std::span<const SearchJob> jobs, const SearchOptions& options) {
  options.check();
  const int64_t limit = std::min(options.max_length, files_.config.max_target_positions);
  if (static_cast<int64_t>(jobs.size()) * options.group() > decoder_.num_sequences())
    throw ArgumentError("transcribe", "jobs", "have sequences of the decoder", std::to_string(jobs.size()));
  std::vector<Group> groups;
  for (const SearchJob& job : jobs) {
    if (job.prompt.empty() || static_cast<int64_t>(job.prompt.size()) >= limit)
      throw ArgumentError("transcribe", "prompt", "leave room for text",
                          std::to_string(job.prompt.size()) + " of " + std::to_string(limit) + " tokens");
    groups.emplace_back(job, static_cast<int64_t>(groups.size()), files_.tokens, options, limit);
  }
  if (groups.empty()) return {};
  WhisperStep& step = step_for(options);
  const auto [at_start, at_end] = read_prompts(decoder_, files_.tokens.start, jobs, groups);
  const Array silent = softmax(astype(at_start, DType::float32)).narrow(1, files_.tokens.no_speech, 1);
  std::vector<float> no_speech(groups.size());
  to_host(no_speech.data(), contiguous(silent), "transcribe");

  std::vector<TextRow> rows;
  std::vector<size_t> first;
  for (size_t g = 0; g < groups.size(); ++g) {
    first.push_back(rows.size());
    for (size_t i = 0; i < groups[g].num_first(); ++i) rows.push_back(groups[g].row(i));
    for (size_t i = 1; i < groups[g].size(); ++i)
      decoder_.copy_sequence(groups[g].sequence(0), groups[g].sequence(i), static_cast<int64_t>(jobs[g].prompt.size()));
  }
  const Choice choice = step.choose(at_end, rows);
  for (size_t g = 0; g < groups.size(); ++g)
    groups[g].advance(decoder_, choice, [&](size_t i) { return first[g] + i; });
  if (step.options().graph && step.options().top == 0)
    search_by_graph(decoder_, step, groups);
  else
    search_by_host(decoder_, step, groups);

  std::vector<SearchResult> results;
  for (size_t g = 0; g < groups.size(); ++g) {
    results.push_back(groups[g].best());
    results.back().no_speech = static_cast<double>(no_speech[g]);
  }
  return results;
}

std::vector<std::vector<float>> detect_languages(WhisperDecoder& decoder, const WhisperFiles& files, int64_t windows) {
  std::vector<DecoderToken> tokens;
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < windows; ++i) {
    tokens.push_back({static_cast<int32_t>(files.tokens.start), 0, static_cast<int32_t>(i), i});
    rows.push_back(i);
  }
  const auto count = static_cast<int64_t>(files.tokens.languages.size());
  const Array logits = decoder.read(tokens, rows).narrow(1, files.tokens.languages.front().second, count);
  const Array likely = softmax(astype(logits, DType::float32));
  std::vector<float> values(static_cast<size_t>(likely.size()));
  to_host(values.data(), likely, "detect_language");
  std::vector<std::vector<float>> all;
  for (auto at = values.begin(); at != values.end(); at += count) all.emplace_back(at, at + count);
  return all;
}

}  // namespace gpukit::asr
