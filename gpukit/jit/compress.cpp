#include "gpukit/jit/compress.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "gpukit/jit/range_coder.h"

namespace gpukit::jit {
namespace {

constexpr int kChain = 32;          // candidates looked at per position
constexpr size_t kGoodMatch = 256;  // long enough to be taken as it is
constexpr size_t kWindow = 2048;    // positions whose parse is chosen together
constexpr int kHashBits = 18;
constexpr size_t kLong = 24;
constexpr int kReps = 4;

/// Everything that adapts. Encoder and decoder walk through the same states.
struct Model {
  Prob is_match[2][16];
  Prob is_rep[2];
  Tree<2> rep_index;
  Number match_length[2];  // after a new distance, after an old one
  Number distance[2];      // for short and for long matches
  std::vector<Tree<8>> literals;
  std::vector<Tree<8>> changed;  // after a match, by the byte that ended it
  bool binary;

  explicit Model(bool is_binary) : literals(256), changed(256), binary(is_binary) {}
  /// Right after a match the byte differs from the one that would have continued it, often by little. Elsewhere machine
  /// code goes by the place in the 16-byte instruction, and text by the letter before.
  Tree<8>& literal(std::string_view before, size_t position, int after_match, size_t last_distance) {
    if (after_match != 0) return changed[static_cast<uint8_t>(before[position - last_distance])];
    const uint8_t previous = position == 0 ? 0 : static_cast<uint8_t>(before[position - 1]);
    return binary ? literals[(position & 15) << 4 | previous >> 4] : literals[previous];
  }
};

struct Match {
  size_t length = 0, distance = 0;  // length 0: a literal
  int rep = -1;                     // one of the last distances
};

using Reps = std::array<size_t, kReps>;

void use_distance(Reps& reps, const Match& match) {
  const int from = match.rep >= 0 ? match.rep : kReps - 1;
  for (int i = from; i > 0; --i) reps[i] = reps[i - 1];
  reps[0] = match.distance;
}

/// Positions by the hash of their first four bytes, in chains, and by that of their first kLong bytes, the last one
/// only: the chain finds what is near, the other what is long.
class Finder {
 public:
  explicit Finder(std::string_view data)
      : data_(data), head_(size_t{1} << kHashBits, -1), long_(size_t{1} << kHashBits, -1), before_(data.size(), -1) {}

  void insert(size_t position) {
    if (position + 4 > data_.size()) return;
    int32_t& head = head_[hash(position)];
    before_[position] = head;
    head = static_cast<int32_t>(position);
    if (position + kLong <= data_.size()) long_[hash_long(position)] = static_cast<int32_t>(position);
  }

  /// Matches at `position`, each longer than the one before it.
  void find(size_t position, std::vector<Match>* found) const {
    found->clear();
    if (position + 4 > data_.size()) return;
    int tries = kChain;
    size_t best = 2;
    auto consider = [&](int32_t at) {
      const size_t length = at < 0 ? 0 : common(static_cast<size_t>(at), position);
      if (length > best) found->push_back({best = length, position - static_cast<size_t>(at), -1});
    };
    for (int32_t at = head_[hash(position)]; at >= 0 && tries > 0 && best < kGoodMatch; --tries) {
      consider(at);
      at = before_[static_cast<size_t>(at)];
    }
    if (position + kLong <= data_.size()) consider(long_[hash_long(position)]);
  }

  size_t common(size_t a, size_t b) const {
    size_t n = 0;
    while (b + n < data_.size() && data_[a + n] == data_[b + n]) ++n;
    return n;
  }

 private:
  size_t hash(size_t p) const {
    uint32_t v = 0;
    for (size_t i = 0; i < 4; ++i) v |= uint32_t{static_cast<uint8_t>(data_[p + i])} << (8 * i);
    return v * 2654435761u >> (32 - kHashBits);
  }
  size_t hash_long(size_t p) const {
    uint64_t v = 0;
    for (size_t i = 0; i < kLong; ++i) v = (v ^ static_cast<uint8_t>(data_[p + i])) * 0x100000001b3u;
    return v * 0x9e3779b97f4a7c15u >> (64 - kHashBits);
  }
  std::string_view data_;
  std::vector<int32_t> head_, long_, before_;
};

/// Chooses the cheapest way through a window by the prices the model has at its start.
class Parser {
 public:
  Parser(std::string_view data, Model& model) : data_(data), model_(model), finder_(data), nodes_(kWindow + 1) {}

  /// The steps from `position`: literals and matches, at least one.
  const std::vector<Match>& parse(size_t position, const Reps& reps, int after_match) {
    read_prices();
    const size_t window = std::min(kWindow, data_.size() - position);
    for (size_t i = 1; i <= window; ++i) nodes_[i].cost = ~0u;
    nodes_[0] = {0, 0, {}, reps, after_match};
    size_t end = window;
    Match tail;
    for (size_t i = 0; i < window; ++i) {
      tail = visit(position, i, window);
      finder_.insert(position + i);
      if (tail.length == 0) continue;
      end = i;
      break;
    }
    steps_.clear();
    if (tail.length != 0) steps_.push_back(tail);
    for (size_t i = end; i > 0; i = nodes_[i].previous) steps_.push_back(nodes_[i].step);
    std::reverse(steps_.begin(), steps_.end());
    // visit() has put in what it saw; the rest of a long match follows.
    for (size_t i = 1; i < tail.length; ++i) finder_.insert(position + end + i);
    return steps_;
  }

 private:
  struct Node {
    uint32_t cost;
    size_t previous;
    Match step;  // that led here
    Reps reps;
    int after_match;
  };

  void read_prices() {
    for (int i = 0; i < 2; ++i) {
      length_[i].read(model_.match_length[i]);
      distance_[i].read(model_.distance[i]);
    }
  }

  void relax(size_t from, const Match& step, uint32_t cost) {
    const size_t to = from + std::max<size_t>(step.length, 1);
    Node& node = nodes_[to];
    if (cost >= node.cost) return;
    node.cost = cost;
    node.previous = from;
    node.step = step;
    node.reps = nodes_[from].reps;
    node.after_match = step.length != 0 ? 1 : 0;
    if (step.length != 0) use_distance(node.reps, step);
  }

  /// Offers every step from node `i`. A match that is long enough ends the window: it is given back.
  Match visit(size_t base, size_t i, size_t window) {
    const Node& node = nodes_[i];
    const size_t position = base + i;
    const Prob& is_match = model_.is_match[node.after_match][position & 15];
    const uint32_t literal =
        price(model_.literal(data_, position, node.after_match, node.reps[0]), static_cast<uint8_t>(data_[position]));
    relax(i, {}, node.cost + price(is_match, 0) + literal);

    const uint32_t start = node.cost + price(is_match, 1);
    const uint32_t rep_start = start + price(model_.is_rep[node.after_match], 1);
    for (int r = 0; r < kReps; ++r) {
      const size_t distance = node.reps[static_cast<size_t>(r)];
      if (distance == 0 || distance > position) continue;
      const size_t length = finder_.common(position - distance, position);
      if (length >= kGoodMatch) return {length, distance, r};
      const uint32_t cost = rep_start + price(model_.rep_index, static_cast<uint32_t>(r));
      for (size_t n = 2; n <= std::min(length, window - i); ++n) {
        relax(i, {n, distance, r}, cost + length_[1].of(static_cast<uint32_t>(n - 1)));
      }
    }
    finder_.find(position, &found_);
    if (!found_.empty() && found_.back().length >= kGoodMatch) return found_.back();
    const uint32_t new_start = start + price(model_.is_rep[node.after_match], 0);
    size_t n = 3;
    for (const Match& match : found_) {
      for (; n <= std::min(match.length, window - i); ++n) {
        const uint32_t cost = new_start + length_[0].of(static_cast<uint32_t>(n - 1)) +
                              distance_[n < 8 ? 0 : 1].of(static_cast<uint32_t>(match.distance));
        relax(i, {n, match.distance, -1}, cost);
      }
    }
    return {};
  }

  std::string_view data_;
  Model& model_;
  Finder finder_;
  std::vector<Node> nodes_;
  std::vector<Match> found_, steps_;
  NumberPrices length_[2], distance_[2];
};

bool looks_binary(std::string_view data) {
  const auto zeros = static_cast<size_t>(std::count(data.begin(), data.end(), '\0'));
  return zeros > data.size() / 16;
}

}  // namespace

std::string compress(std::string_view data) {
  const bool binary = looks_binary(data);
  Model model(binary);
  Parser parser(data, model);
  Encoder out;
  Reps reps = {};
  int after_match = 0;
  for (size_t position = 0; position < data.size();) {
    for (const Match& step : parser.parse(position, reps, after_match)) {
      out.bit(model.is_match[after_match][position & 15], step.length != 0 ? 1 : 0);
      if (step.length == 0) {
        put(out, model.literal(data, position, after_match, reps[0]), static_cast<uint8_t>(data[position]));
        after_match = 0;
        ++position;
        continue;
      }
      const int rep = step.rep >= 0 ? 1 : 0;
      out.bit(model.is_rep[after_match], rep);
      if (rep != 0) put(out, model.rep_index, static_cast<uint32_t>(step.rep));
      put(out, model.match_length[rep], static_cast<uint32_t>(step.length - 1));
      if (rep == 0) put(out, model.distance[step.length < 8 ? 0 : 1], static_cast<uint32_t>(step.distance));
      use_distance(reps, step);
      position += step.length;
      after_match = 1;
    }
  }
  return (binary ? '\1' : '\0') + out.finish();
}

std::optional<std::string> decompress(std::string_view packed, size_t size) {
  if (packed.empty() || static_cast<uint8_t>(packed[0]) > 1) return {};
  Model model(packed[0] == 1);
  Decoder in(packed.substr(1));
  std::string data;
  data.reserve(size);
  Reps reps = {};
  int after_match = 0;
  while (data.size() < size) {
    const size_t position = data.size();
    if (in.bit(model.is_match[after_match][position & 15]) == 0) {
      data += static_cast<char>(get(in, model.literal(data, position, after_match, reps[0])));
      after_match = 0;
      continue;
    }
    Match match;
    const int rep = in.bit(model.is_rep[after_match]);
    if (rep != 0) match.rep = static_cast<int>(get(in, model.rep_index));
    match.length = size_t{get(in, model.match_length[rep])} + 1;
    match.distance =
        rep != 0 ? reps[static_cast<size_t>(match.rep)] : get(in, model.distance[match.length < 8 ? 0 : 1]);
    if (match.distance == 0 || match.distance > position || match.length > size - position) return {};
    use_distance(reps, match);
    // A distance shorter than the match repeats itself.
    data.resize(position + match.length);
    char* to = data.data() + position;
    const char* from = to - match.distance;
    if (match.distance >= match.length) {
      std::memcpy(to, from, match.length);
    } else {
      for (size_t i = 0; i < match.length; ++i) to[i] = from[i];
    }
    after_match = 1;
  }
  return data;
}

}  // namespace gpukit::jit
