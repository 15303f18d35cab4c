#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/linalg/products.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit {

namespace {

constexpr const char* kOp = "einsum";
constexpr size_t kMaxOperands = 64;
constexpr size_t kMaxPlanned = 10;  // 3^10 splits are looked at
constexpr int kNumLabels = 128;

/// An axis has a letter, or a digit when it stands for "...": '0' is the last of those.
struct Term {
  Array array;
  std::string labels;
};

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

[[noreturn]] void bad_expression(const std::string& needed, std::string_view given) {
  throw ArgumentError(kOp, "subscripts", needed, "'" + std::string(given) + "'");
}

/// The labels of one operand, or of the output, with its "..." put in digits. `rank`: of the operand.
std::string expand_labels(std::string_view text, int rank, std::string_view whole) {
  std::string labels;
  const size_t dots = text.find("...");
  const int named = static_cast<int>(text.size()) - (dots == std::string_view::npos ? 0 : 3);
  if (rank < named || (rank > named && dots == std::string_view::npos))
    throw ShapeError(kOp, "an operand", "have " + std::to_string(named) + " dimensions for '" + std::string(text) + "'",
                     std::to_string(rank));
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i == dots) {
      for (int k = rank - named; k-- > 0;) labels.push_back(static_cast<char>('0' + k));
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else {
      bad_expression("consist of letters, commas, '...' and one '->'", whole);
    }
  }
  return labels;
}

struct Expression {
  std::vector<std::string> inputs;
  std::string output;
};

Expression parse(std::string_view subscripts, std::span<const Array> operands) {
  std::string text;
  for (char c : subscripts)
    if (c != ' ') text.push_back(c);
  const size_t arrow = text.find("->");
  std::string_view left = std::string_view(text).substr(0, arrow);
  Expression parsed;
  int dotted = 0;  // axes that "..." stands for
  for (size_t i = 0; i < operands.size(); ++i) {
    const size_t comma = left.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == operands.size()))
      bad_expression("name " + std::to_string(operands.size()) + " operands", text);
    parsed.inputs.push_back(expand_labels(left.substr(0, comma), operands[i].ndim(), text));
    for (char c : parsed.inputs.back())
      if (c <= '9') dotted = std::max(dotted, c - '0' + 1);
    if (comma != std::string_view::npos) left.remove_prefix(comma + 1);
  }
  if (arrow != std::string::npos) {
    const std::string_view right = std::string_view(text).substr(arrow + 2);
    const bool dots = right.find("...") != std::string_view::npos;
    if (dotted > 0 && !dots) bad_expression("have '...' in the output: an operand has axes for it", text);
    parsed.output = expand_labels(right, static_cast<int>(right.size()) - (dots ? 3 : 0) + dotted, text);
  } else {
    int seen[kNumLabels] = {};
    for (const std::string& labels : parsed.inputs)
      for (char c : labels) ++seen[static_cast<int>(c)];
    for (int k = dotted; k-- > 0;) parsed.output.push_back(static_cast<char>('0' + k));
    for (char c = 'A'; c <= 'z'; ++c)
      if (seen[static_cast<int>(c)] == 1) parsed.output.push_back(c);
  }
  for (size_t i = 0; i < parsed.output.size(); ++i) {
    const char c = parsed.output[i];
    if (parsed.output.find(c, i + 1) != std::string::npos) bad_expression("name each label once in the output", text);
    const auto names = [c](const std::string& labels) { return has(labels, c); };
    if (c > '9' && std::none_of(parsed.inputs.begin(), parsed.inputs.end(), names))
      bad_expression("name labels of an operand in the output", text);
  }
  return parsed;
}

/// Repeated labels become diagonals.
Term without_repeats(const Array& x, const std::string& labels) {
  Term term;
  Dims shape, strides;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const char label = labels[static_cast<size_t>(axis)];
    const size_t at = term.labels.find(label);
    if (at == std::string::npos) {
      term.labels.push_back(label);
      shape.push_back(x.shape()[axis]);
      strides.push_back(x.strides()[axis]);
      continue;
    }
    const int same = static_cast<int>(at);
    if (shape[same] != x.shape()[axis])
      throw ShapeError(std::string(kOp) + ": the axes named '" + label + "' of one operand have sizes " +
                       std::to_string(shape[same]) + " and " + std::to_string(x.shape()[axis]));
    strides[same] += x.strides()[axis];
  }
  term.array = Array(x.storage(), x.dtype(), shape, strides, x.offset_bytes());
  return term;
}

/// Drops the axes of size 1: a factor that does not depend on the label.
void drop_ones(Term& term) {
  for (int axis = term.array.ndim() - 1; axis >= 0; --axis)
    if (term.array.shape()[axis] == 1) {
      term.array = term.array.squeeze(axis);
      term.labels.erase(static_cast<size_t>(axis), 1);
    }
}

/// `x`, whose axes are `labels`, as a view with its axes in the order `wanted`.
Array in_order(const Array& x, const std::string& labels, const std::string& wanted) {
  Dims axes;
  for (char label : wanted) axes.push_back(static_cast<int64_t>(labels.find(label)));
  return x.permute(axes);
}

int64_t product_of(const std::string& labels, const int64_t* sizes) {
  int64_t product = 1;
  for (char c : labels) product *= sizes[static_cast<int>(c)];
  return product;
}

/// The labels of two factors, by what becomes of them.
struct Roles {
  std::string batch, left, right, summed;
  std::string result() const { return batch + left + right; }
};

template <typename Keep>
Roles roles_of(const std::string& a, const std::string& b, const Keep& keep) {
  Roles roles;
  for (char c : a) {
    if (!has(b, c))
      roles.left.push_back(c);
    else
      (keep(c) ? roles.batch : roles.summed).push_back(c);
  }
  for (char c : b)
    if (!has(a, c)) roles.right.push_back(c);
  return roles;
}

class Contraction {
 public:
  Contraction(const Expression& expression, std::span<const Array> operands, DType dtype)
      : output_(expression.output), dtype_(dtype), temporaries_(kOp) {
    std::fill_n(sizes_, kNumLabels, int64_t{1});
    for (size_t i = 0; i < operands.size(); ++i) {
      Term term = without_repeats(operands[i], expression.inputs[i]);
      for (int axis = 0; axis < term.array.ndim(); ++axis)
        note_size(term.labels[static_cast<size_t>(axis)], term.array.shape()[axis]);
      drop_ones(term);
      term.array = astype(term.array, dtype, temporaries_);
      terms_.push_back(term);
    }
  }

  Dims shape() const {
    Dims shape;
    for (char c : output_) shape.push_back(sizes_[static_cast<int>(c)]);
    return shape;
  }

  /// `target` has shape() and shares no memory with an operand.
  void run(const Array& target) {
    std::string labels = output_;
    Term out{target, labels};
    drop_ones(out);
    for (size_t i = 0; i < terms_.size(); ++i) sum_alone(terms_[i], terms_.size() == 1 ? &out : nullptr);
    if (terms_.size() == 1) return;
    while (terms_.size() > kMaxPlanned) contract_cheapest_pair();
    const std::vector<Split> plan = best_plan();
    contract(plan, plan.size() - 1, &out);
  }

 private:
  void note_size(char label, int64_t size) {
    int64_t& known = sizes_[static_cast<int>(label)];
    if (known != 1 && size != 1 && known != size)
      throw ShapeError(std::string(kOp) + ": axes named alike must have one size, got " + std::to_string(known) +
                       " and " + std::to_string(size) +
                       (label > '9' ? std::string(" for '") + label + "'" : " in '...'"));
    if (size != 1) known = size;
  }

  bool kept(char label, const Term* a, const Term* b) const {
    if (has(output_, label)) return true;
    return std::any_of(terms_.begin(), terms_.end(),
                       [&](const Term& t) { return &t != a && &t != b && has(t.labels, label); });
  }

  /// Sums over the labels that only this term has; into `out` when it is the only term.
  void sum_alone(Term& term, const Term* out) {
    Dims axes;
    std::string left;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (kept(term.labels[i], &term, nullptr))
        left.push_back(term.labels[i]);
      else
        axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) {
      if (out != nullptr) copy_into(in_order(out->array, out->labels, left), term.array);
      return;
    }
    Array to;
    if (out != nullptr) {
      to = in_order(out->array, out->labels, left);
    } else {
      Dims shape;
      for (char c : left) shape.push_back(sizes_[static_cast<int>(c)]);
      to = temporaries_.empty(shape, dtype_, term.array.device());
    }
    if (dtype_ == DType::boolean)
      any(term.array, axes, false, &to);
    else
      sum(term.array, axes, false, dtype_, &to);
    term = {to, left};
  }

  /// x as [batch..., rows, columns], the latter two merged.
  Array as_matrices(const Term& x, const Roles& roles, const std::string& rows, const std::string& columns) {
    const Array ordered = in_order(x.array, x.labels, roles.batch + rows + columns);
    Dims shape;
    // More batch axes than a matrix product takes are merged.
    const bool merge = roles.batch.size() > static_cast<size_t>(kMaxRank - 2);
    if (merge) shape.push_back(product_of(roles.batch, sizes_));
    for (char c : merge ? std::string() : roles.batch) shape.push_back(sizes_[static_cast<int>(c)]);
    shape.push_back(product_of(rows, sizes_));
    shape.push_back(product_of(columns, sizes_));
    return reshape(ordered, shape, temporaries_);
  }

  /// x with axes of size 1 for those labels of `wanted` it has not.
  Array spread(const Term& x, const std::string& wanted) const {
    std::string own;
    for (char c : wanted)
      if (has(x.labels, c)) own.push_back(c);
    Array view = in_order(x.array, x.labels, own);
    for (size_t i = 0; i < wanted.size(); ++i)
      if (!has(own, wanted[i])) view = view.expand_dims(static_cast<int>(i));
    return view;
  }

  template <typename Keep>
  Term pair(const Term& a, const Term& b, const Keep& keep, const Term* out) {
    const Roles roles = roles_of(a.labels, b.labels, keep);
    const std::string labels = roles.result();
    if (labels.size() > static_cast<size_t>(kMaxRank))
      throw ShapeError(kOp, "an intermediate product", "have at most 8 dimensions", std::to_string(labels.size()));
    Dims shape;
    for (char c : labels) shape.push_back(sizes_[static_cast<int>(c)]);
    Array to = out != nullptr ? in_order(out->array, out->labels, labels)
                              : temporaries_.empty(shape, dtype_, a.array.device());
    if (roles.summed.empty()) {
      multiply(spread(a, labels), spread(b, labels), &to);
      return {to, labels};
    }
    const Array left = as_matrices(a, roles, roles.left, roles.summed);
    const Array right = as_matrices(b, roles, roles.summed, roles.right);
    Dims product(std::span<const int64_t>(left.shape().data(), static_cast<size_t>(left.ndim() - 1)));
    product.push_back(right.shape()[right.ndim() - 1]);
    const MatmulOptions options{.out_dtype = dtype_};
    if (to.can_view(product)) {
      const Array matrices = to.reshape_view(product);
      matmul(left, right, &matrices, options);
    } else {
      const Array matrices = temporaries_.empty(product, dtype_, to.device());
      matmul(left, right, &matrices, options);
      copy_into(to, matrices.reshape_view(shape));
    }
    return {to, labels};
  }

  void contract_cheapest_pair() {
    size_t best_a = 0, best_b = 1;
    double best = -1;
    for (size_t i = 0; i < terms_.size(); ++i)
      for (size_t j = i + 1; j < terms_.size(); ++j) {
        double cost = 1;
        for (char c : terms_[i].labels) cost *= static_cast<double>(sizes_[static_cast<int>(c)]);
        for (char c : terms_[j].labels)
          if (!has(terms_[i].labels, c)) cost *= static_cast<double>(sizes_[static_cast<int>(c)]);
        if (best < 0 || cost < best) best = cost, best_a = i, best_b = j;
      }
    const Term *a = &terms_[best_a], *b = &terms_[best_b];
    Term made = pair(
        *a, *b, [&](char c) { return kept(c, a, b); }, nullptr);
    terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(best_b));
    terms_[best_a] = made;
  }

  /// How the product of a set of terms (bits) is made: from the product of `part` and that of the rest.
  struct Split {
    double cost = 0;
    size_t part = 0;
    std::string labels;  // of the product
  };

  /// The labels of a set's product: those of its terms that the output or a term outside of it has.
  std::string labels_of(size_t set) const {
    std::string labels;
    for (size_t i = 0; i < terms_.size(); ++i)
      if ((set >> i & 1) != 0)
        for (char c : terms_[i].labels)
          if (!has(labels, c) && kept_outside(c, set)) labels.push_back(c);
    return labels;
  }
  bool kept_outside(char label, size_t set) const {
    if (has(output_, label)) return true;
    for (size_t i = 0; i < terms_.size(); ++i)
      if ((set >> i & 1) == 0 && has(terms_[i].labels, label)) return true;
    return false;
  }

  std::vector<Split> best_plan() const {
    const size_t all = (size_t{1} << terms_.size()) - 1;
    std::vector<Split> plan(all + 1);
    for (size_t set = 1; set <= all; ++set) {
      plan[set].labels = labels_of(set);
      if (std::has_single_bit(set)) continue;
      plan[set].cost = -1;
      // Each split once: the part with the lowest term of the set.
      const size_t lowest = set & (~set + 1);
      for (size_t part = (set - 1) & set; part != 0; part = (part - 1) & set) {
        if ((part & lowest) == 0) continue;
        const Split &a = plan[part], &b = plan[set ^ part];
        double cost = 1;
        for (char c : a.labels) cost *= static_cast<double>(sizes_[static_cast<int>(c)]);
        for (char c : b.labels)
          if (!has(a.labels, c)) cost *= static_cast<double>(sizes_[static_cast<int>(c)]);
        cost += a.cost + b.cost;
        if (plan[set].cost < 0 || cost < plan[set].cost) {
          plan[set].cost = cost;
          plan[set].part = part;
        }
      }
    }
    return plan;
  }

  Term contract(const std::vector<Split>& plan, size_t set, const Term* out) {
    if (std::has_single_bit(set)) return terms_[static_cast<size_t>(std::countr_zero(set))];
    const size_t part = plan[set].part;
    const Term a = contract(plan, part, nullptr), b = contract(plan, set ^ part, nullptr);
    return pair(
        a, b, [&](char c) { return kept_outside(c, set); }, out);
  }

  std::string output_;
  DType dtype_;
  int64_t sizes_[kNumLabels];
  std::vector<Term> terms_;
  Temporaries temporaries_;
};

}  // namespace

Array einsum(std::string_view subscripts, std::span<const Array> operands, const Array* out) {
  if (operands.empty() || operands.size() > kMaxOperands)
    throw ArgumentError(kOp, "operands", "be 1 to 64 arrays", std::to_string(operands.size()));
  DType dtype = operands[0].dtype();
  for (const Array& x : operands) {
    check_same_device(kOp, operands[0], x);
    check_arithmetic(kOp, "an operand", x);
    dtype = promote(kOp, dtype, x.dtype());
  }
  Contraction contraction(parse(subscripts, operands), operands, dtype);
  const Array target = result(kOp, out, contraction.shape(), dtype, operands[0].device());
  if (target.size() == 0) return target;
  const bool shares = out != nullptr && std::any_of(operands.begin(), operands.end(),
                                                    [&](const Array& x) { return may_share_memory(*out, x); });
  if (!shares) {
    contraction.run(target);
    return target;
  }
  Temporaries temporaries(kOp);
  const Array fresh = temporaries.empty_like(target);
  contraction.run(fresh);
  copy_into(target, fresh);
  return target;
}

}  // namespace gpukit
