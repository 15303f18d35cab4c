#include "gpukit/models/asr/whisper_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "gpukit/base/error.h"

namespace gpukit::asr {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// log of the sum of exponentials; -inf when nothing is possible.
double log_sum(std::span<const float> logits) {
  const float top = logits.empty() ? kNever : *std::max_element(logits.begin(), logits.end());
  if (top == kNever) return kNever;
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - top);
  return top + std::log(sum);
}

/// A number in [0, 1) that follows from its arguments alone.
double uniform(uint64_t seed, uint64_t stream, uint64_t draw, uint64_t step) {
  uint64_t x = seed;
  for (const uint64_t part : {stream, draw, step}) {
    x += part + 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
  }
  return static_cast<double>(x >> 11) * 0x1p-53;
}

/// Equal ones at the border all stay.
void keep_top(std::span<float> logits, size_t count) {
  if (count >= logits.size()) return;
  std::vector<float> sorted(logits.begin(), logits.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count - 1), sorted.end(),
                   std::greater<>());
  for (float& l : logits)
    if (l < sorted[count - 1]) l = kNever;
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
  Group(const SearchJob& job, int64_t number, const WhisperTokens& tokens, const SearchRules& rules,
        const SearchOptions& options, int64_t limit)
      : job_(job),
        number_(number),
        limit_(limit),
        end_(static_cast<int32_t>(tokens.end_of_text)),
        rules_(rules),
        options_(options) {
    texts_.resize(static_cast<size_t>(options.group()));
  }

  int32_t sequence(size_t text) const {
    return static_cast<int32_t>(number_ * options_.group()) + static_cast<int32_t>(text);
  }
  size_t size() const { return texts_.size(); }
  bool over() const { return over_; }
  bool running(size_t text) const { return !over_ && !texts_[text].ended; }
  /// The token that was chosen last, to be read next.
  DecoderToken last(size_t text) const {
    const auto& tokens = texts_[text].tokens;
    return {tokens.back(), static_cast<int32_t>(job_.prompt.size() + tokens.size() - 1), sequence(text),
            static_cast<int32_t>(job_.window)};
  }

  /// `logits(i)`: of text i; before the first token all have those of text 0.
  template <typename Logits>
  void advance(WhisperDecoder& decoder, Logits&& logits) {
    if (options_.temperature <= 0 && options_.beam_size > 1) return advance_beams(decoder, logits);
    for (size_t i = 0; i < texts_.size(); ++i)
      if (running(i)) draw(i, logits(i));
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

  void take(Text& text, int32_t token, double logprob) {
    text.logprob += logprob;
    if (token == end_)
      text.ended = true;
    else
      text.tokens.push_back(token);
  }

  void draw(size_t i, std::span<float> logits) {
    Text& text = texts_[i];
    rules_.apply(logits, text.tokens);
    size_t chosen = static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    const double total = log_sum(logits);
    if (options_.temperature > 0) {
      const double top = logits[chosen];
      const auto weight = [&](float l) { return std::exp((static_cast<double>(l) - top) / options_.temperature); };
      if (options_.top_k > 0) keep_top(logits, static_cast<size_t>(options_.top_k));
      double sum = 0;
      for (const float l : logits) sum += weight(l);
      double left = sum * uniform(options_.seed, job_.stream, i, text.tokens.size());
      for (size_t id = 0; id < logits.size(); ++id) {
        const double w = weight(logits[id]);
        if (w == 0) continue;
        chosen = id;
        if ((left -= w) < 0) break;
      }
    }
    take(text, static_cast<int32_t>(chosen), logits[chosen] - total);
  }

  struct Candidate {
    size_t parent;
    int32_t token;
    double logprob;  // of the whole text
  };

  template <typename Logits>
  void advance_beams(WhisperDecoder& decoder, Logits&& logits) {
    const size_t beams = texts_.size();
    std::vector<Candidate> candidates;
    const size_t parents = texts_[0].tokens.empty() ? 1 : beams;  // at first all are the same
    std::vector<int32_t> ids;
    for (size_t p = 0; p < parents; ++p) {
      const std::span<float> l = logits(p);
      rules_.apply(l, texts_[p].tokens);
      const double total = log_sum(l);
      ids.resize(l.size());
      std::iota(ids.begin(), ids.end(), 0);
      const auto better = [&](int32_t a, int32_t b) {
        const float x = l[static_cast<size_t>(a)], y = l[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
      };
      const auto count = static_cast<std::ptrdiff_t>(std::min(beams + 1, ids.size()));
      std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), better);
      for (std::ptrdiff_t i = 0; i < count; ++i) {
        const int32_t id = ids[static_cast<size_t>(i)];
        if (l[static_cast<size_t>(id)] != kNever)
          candidates.push_back({p, id, texts_[p].logprob + l[static_cast<size_t>(id)] - total});
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.logprob > b.logprob; });
    std::vector<Candidate> kept;
    const auto limit = static_cast<size_t>(
        std::max<int64_t>(1, std::llround(static_cast<double>(options_.beam_size) * options_.patience)));
    for (const Candidate& c : candidates) {
      if (kept.size() == beams) break;
      if (c.token != end_) {
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
        next[i] = {texts_[i].tokens.empty() ? std::vector<int32_t>{end_} : texts_[i].tokens, kNever, false};
    texts_ = std::move(next);
  }

  const SearchJob& job_;
  const int64_t number_, limit_;
  const int32_t end_;
  const SearchRules& rules_;
  const SearchOptions& options_;
  std::vector<Text> texts_, finished_;
  bool over_ = false;
};

}  // namespace

void SearchOptions::check() const {
  const auto need = [](bool holds, const char* name, const char* needed, double given) {
    if (!holds) throw ArgumentError("transcribe", name, needed, std::to_string(given));
  };
  need(temperature >= 0 && std::isfinite(temperature), "temperature", "be finite and not negative", temperature);
  need(beam_size >= 1 && beam_size <= 64, "beam_size", "be 1 to 64", static_cast<double>(beam_size));
  need(best_of >= 1 && best_of <= 64, "best_of", "be 1 to 64", static_cast<double>(best_of));
  need(patience > 0 && std::isfinite(patience), "patience", "be positive", patience);
  need(std::isfinite(length_penalty), "length_penalty", "be finite", length_penalty);
  need(top_k >= 0, "top_k", "not be negative", static_cast<double>(top_k));
  need(max_length >= 1, "max_length", "be positive", static_cast<double>(max_length));
}

SearchRules::SearchRules(const WhisperFiles& files, const SearchOptions& options)
    : tokens_(files.tokens), max_initial_timestamp_(files.max_initial_timestamp), timestamps_(options.timestamps) {
  const WhisperTokens& t = files.tokens;
  if (options.suppress) never_ = files.config.suppress_tokens;
  for (int64_t id = t.start; id < t.no_timestamps; ++id) never_.push_back(id);  // these stand in prompts only
  if (options.suppress) never_first_ = files.config.begin_suppress_tokens;
}

void SearchRules::apply(std::span<float> logits, std::span<const int32_t> text) const {
  for (const int64_t id : never_) logits[static_cast<size_t>(id)] = kNever;
  if (text.empty())
    for (const int64_t id : never_first_) logits[static_cast<size_t>(id)] = kNever;
  if (timestamps_) apply_timestamps(logits, text);
}

void SearchRules::apply_timestamps(std::span<float> logits, std::span<const int32_t> text) const {
  const auto begin = static_cast<size_t>(tokens_.timestamp_begin),
             end_of_text = static_cast<size_t>(tokens_.end_of_text);
  const auto forbid = [&](size_t first, size_t last) {
    for (size_t i = first; i < std::min(last, logits.size()); ++i) logits[i] = kNever;
  };
  forbid(static_cast<size_t>(tokens_.no_timestamps), begin);
  // They come in pairs, but for the one that ends the text.
  const size_t n = text.size();
  const bool last = n >= 1 && tokens_.is_timestamp(text[n - 1]);
  const bool before_last = n < 2 || tokens_.is_timestamp(text[n - 2]);
  if (last && before_last) forbid(begin, logits.size());
  if (last && !before_last) forbid(0, end_of_text);
  // They do not go back, and no segment is empty.
  for (size_t i = n; i-- > 0;) {
    if (!tokens_.is_timestamp(text[i])) continue;
    forbid(begin, static_cast<size_t>(text[i]) + (last && !before_last ? 0 : 1));
    break;
  }
  if (n == 0) {
    forbid(0, begin);
    forbid(begin + static_cast<size_t>(max_initial_timestamp_) + 1, logits.size());
  }
  // Where all timestamps together are likelier than any text, it is one of them.
  const float top_text = *std::max_element(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(begin));
  if (log_sum(logits.subspan(begin)) > top_text) forbid(0, begin);
}

std::vector<SearchResult> search(WhisperDecoder& decoder, const WhisperFiles& files, std::span<const SearchJob> jobs,
                                 const SearchOptions& options) {
  options.check();
  const int64_t limit = std::min(options.max_length, files.config.max_target_positions);
  if (static_cast<int64_t>(jobs.size()) * options.group() > decoder.num_sequences())
    throw ArgumentError("transcribe", "jobs", "have sequences of the decoder", std::to_string(jobs.size()));
  const SearchRules rules(files, options);
  const auto vocab = static_cast<size_t>(decoder.vocab_size());

  // All prompts in one pass: logits at each one's start token and at its end.
  std::vector<Group> groups;
  std::vector<DecoderToken> tokens;
  std::vector<int32_t> rows;
  size_t longest = 0;
  for (const SearchJob& job : jobs) {
    if (job.prompt.empty() || static_cast<int64_t>(job.prompt.size()) >= limit)
      throw ArgumentError("transcribe", "prompt", "leave room for text",
                          std::to_string(job.prompt.size()) + " of " + std::to_string(limit) + " tokens");
    const Group& group =
        groups.emplace_back(job, static_cast<int64_t>(groups.size()), files.tokens, rules, options, limit);
    const auto start = std::find(job.prompt.begin(), job.prompt.end(), static_cast<int32_t>(files.tokens.start));
    const size_t at = start == job.prompt.end() ? 0 : static_cast<size_t>(start - job.prompt.begin());
    rows.push_back(static_cast<int32_t>(tokens.size() + at));
    for (size_t i = 0; i < job.prompt.size(); ++i)
      tokens.push_back({job.prompt[i], static_cast<int32_t>(i), group.sequence(0), static_cast<int32_t>(job.window)});
    rows.push_back(static_cast<int32_t>(tokens.size() - 1));
    longest = std::max(longest, job.prompt.size());
  }
  const std::span<const float> first = decoder.forward(tokens, rows);
  const auto row_of = [&](std::span<const float> logits, size_t row) { return logits.subspan(row * vocab, vocab); };

  std::vector<double> no_speech;
  std::vector<float> scratch(vocab);
  const auto scratch_of = [&](std::span<const float> logits, size_t row) {
    const auto source = row_of(logits, row);
    std::copy(source.begin(), source.end(), scratch.begin());
    return std::span<float>(scratch);
  };
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto at_start = row_of(first, 2 * g);
    no_speech.push_back(std::exp(at_start[static_cast<size_t>(files.tokens.no_speech)] - log_sum(at_start)));
    for (size_t i = 1; i < groups[g].size(); ++i)
      decoder.copy_sequence(groups[g].sequence(0), groups[g].sequence(i), static_cast<int64_t>(jobs[g].prompt.size()));
    groups[g].advance(decoder, [&](size_t) { return scratch_of(first, 2 * g + 1); });
  }

  const auto num_sequences = static_cast<size_t>(decoder.num_sequences());
  std::vector<size_t> row(num_sequences);  // of the texts under way, by sequence
  for (;;) {
    std::vector<DecoderToken> step;
    for (const Group& group : groups)
      for (size_t i = 0; i < group.size(); ++i)
        if (group.running(i)) {
          row[static_cast<size_t>(group.sequence(i))] = step.size();
          step.push_back(group.last(i));
        }
    if (step.empty()) break;
    if (decoder.wants_full_steps()) step.resize(num_sequences);
    rows.resize(step.size());
    std::iota(rows.begin(), rows.end(), 0);
    const std::span<const float> logits = decoder.forward(step, rows);
    for (Group& group : groups)
      if (!group.over())
        group.advance(decoder,
                      [&](size_t i) { return scratch_of(logits, row[static_cast<size_t>(group.sequence(i))]); });
  }

  std::vector<SearchResult> results;
  for (size_t g = 0; g < groups.size(); ++g) {
    results.push_back(groups[g].best());
    results.back().no_speech = no_speech[g];
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
  const std::span<const float> logits = decoder.forward(tokens, rows);
  std::vector<std::vector<float>> all;
  for (int64_t i = 0; i < windows; ++i) {
    const auto begin = logits.begin() + i * decoder.vocab_size() + files.tokens.languages.front().second;
    const std::span<const float> languages(begin, files.tokens.languages.size());
    const double total = log_sum(languages);
    auto& probabilities = all.emplace_back();
    for (const float l : languages) probabilities.push_back(static_cast<float>(std::exp(l - total)));
  }
  return all;
}

}  // namespace gpukit::asr
