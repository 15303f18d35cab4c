#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "gpukit/base/fork.h"
#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/matmul/cpu/matmul_loops.h"
#include "gpukit/ops/matmul/cpu/matmul_row.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {
namespace {

/// Chosen by a test; else the best.
std::atomic<MatmulLevel> g_level{MatmulLevel::avx512};
std::atomic<bool> g_low_memory{false};

/// One call: out = a @ b over all batches. The output is cut into tasks of some rows by some columns. A task packs its
/// rows of a, slice by slice of k, and passes strips of b by them; its sums are continued from slice to slice.
template <typename T, typename Out>
class Product {
 public:
  Product(const MatmulProblem& problem, const Block<T>& block, Out* out, const T* a, const T* b)
      : s_(problem), block_(block), out_(out), a_(a), b_(b) {}

  /// The result does not depend on the number of threads that are expected to help.
  void run(int threads) const {
    const Tile task = choose_task(threads);
    const int64_t across = ceil_div(s_.n, task.columns), tasks = ceil_div(s_.m, task.rows) * across;
    const int64_t grain = std::max<int64_t>(1, static_cast<int64_t>(least_work() / work_of(task)));
    parallel_for(s_.batches * tasks, grain, [&](int64_t begin, int64_t end) {
      alignas(64) std::byte small[Scratch::bytes(kSmallDepth)];
      std::byte* large = large_scratch();
      const Scratch scratch = large != nullptr ? Scratch{large, kLargeDepth} : Scratch{small, kSmallDepth};
      for (int64_t i = begin; i < end; ++i) {
        const MatmulOffsets at = batch_offsets(s_, i / tasks);
        const int64_t row = i % tasks / across * task.rows, column = i % tasks % across * task.columns;
        run_task(scratch, {out_ + at.out, a_ + at.a, b_ + at.b}, row, column,
                 {std::min(task.rows, s_.m - row), std::min(task.columns, s_.n - column)});
      }
    });
  }

 private:
  using Sum = typename Sums<T>::type;
  using Packed = typename Sums<T>::Packed;
  static_assert(sizeof(Sum) == sizeof(Packed));
  static constexpr bool kSubtracts = std::is_same_v<Sum, Out> && !std::is_integral_v<Sum>;

  static constexpr double kTaskWork = 1 << 20;     // multiply-adds that are worth another thread
  static constexpr double kFewRowsWork = 1 << 15;  // elements of b that are, where reading them is the work
  static constexpr int64_t kStepsInPlace = 16, kStepsOfRow = 4096;

  struct Matrices {
    Out* out;
    const T *a, *b;
  };
  struct Tile {
    int64_t rows, columns;
  };

  bool few_rows() const { return s_.m <= block_.rows; }
  double least_work() const { return few_rows() ? kFewRowsWork : kTaskWork; }

  /// Multiply-adds of one task, or what few rows read. k may be as long as an array that is one element seen again and
  /// again.
  double work_of(const Tile& task) const {
    const int64_t rows = few_rows() ? 1 : task.rows;
    return static_cast<double>(rows * task.columns) * static_cast<double>(std::max<int64_t>(s_.k, 1));
  }

  /// The output of one task: large, for what is packed to be used often, but with some tasks for each thread.
  Tile choose_task(int threads) const {
    constexpr int64_t kMostColumns = 1024, kLeast = 64;
    const int64_t wanted = threads == 1 || few_rows() ? threads : 4 * threads;
    int64_t down = ceil_div(s_.m, rows_of(kLargeDepth)), across = ceil_div(s_.n, kMostColumns);
    for (;;) {
      const Tile task = {round_up(ceil_div(s_.m, down), block_.rows), round_up(ceil_div(s_.n, across), block_.columns)};
      if (s_.batches * down * across >= wanted || work_of(task) <= least_work() ||
          std::max(task.rows, task.columns) <= kLeast)
        return task;
      (task.rows > task.columns ? down : across) *= 2;
    }
  }

  void run_task(const Scratch& scratch, const Matrices& x, int64_t first_row, int64_t first_column,
                const Tile& task) const {
    if constexpr (RowProduct<T>::kServes)
      if (s_.m == 1 && s_.b_n == 1 && s_.subtracts == 0)
        return run_row(x.out + first_column * s_.out_n, x.a, x.b + first_column, task.columns);
    const int64_t rows = rows_of(scratch.depth);
    const int64_t columns = sums_in_place() ? task.columns : scratch.depth / block_.columns * block_.columns;
    for (int64_t i = 0; i < task.rows; i += rows)
      for (int64_t j = 0; j < task.columns; j += columns) {
        const int64_t row = first_row + i, column = first_column + j;
        run_tile(scratch, {x.out + row * s_.out_m + column * s_.out_n, x.a + row * s_.a_m, x.b + column * s_.b_n},
                 {std::min(rows, task.rows - i), std::min(columns, task.columns - j)});
      }
  }

  void run_row(Out* out, const T* a, const T* b, int64_t columns) const {
    using Row = RowProduct<T>;
    for (int64_t first = 0; first < columns; first += Row::kColumns) {
      const int64_t width = std::min(Row::kColumns, columns - first);
      alignas(64) Sum sums[Row::kColumns] = {};
      for (int64_t k = 0; k < s_.k; k += kStepsOfRow) {
        run_wide<Row>(sums, a + k * s_.a_k, s_.a_k, b + first + k * s_.b_k, s_.b_k, width,
                      std::min(kStepsOfRow, s_.k - k));
        if (!work_wanted()) return;
      }
      store_row(out + first * s_.out_n, sums, width);
    }
  }

  void run_tile(const Scratch& scratch, const Matrices& x, const Tile& tile) const {
    Packed* const a = scratch.tile<Packed>();
    Sum* const sums = sums_in_place() ? reinterpret_cast<Sum*>(x.out) : scratch.sums<Sum>();
    const int64_t stride = sums_in_place() ? s_.out_m : round_up(tile.columns, block_.columns);
    // Few steps at a time where b is read in place: whole rows of it pass, which memory likes.
    const int64_t slice = reads_in_place(tile.rows) ? kStepsInPlace : scratch.depth * Sums<T>::kSteps;
    if (s_.subtracts != 0 && !sums_in_place())
      for (int64_t row = 0; row < tile.rows; ++row) load_row(sums + row * stride, x.out + row * s_.out_m, tile.columns);
    int64_t k = 0;
    do {
      const int64_t depth = std::min(slice, s_.k - k);
      block_.pack_rows(a, x.a + k * s_.a_k, tile.rows, s_.a_m, depth, s_.a_k);
      if (s_.subtracts != 0) negate(a, round_up(tile.rows, block_.rows) * packed_steps<T>(depth));
      for (int64_t column = 0; column < tile.columns; column += block_.columns)
        run_strip(sums + column, stride, a, x.b + k * s_.b_k + column * s_.b_n, scratch.strip<Packed>(), depth,
                  k == 0 && s_.subtracts == 0, {tile.rows, std::min<int64_t>(block_.columns, tile.columns - column)});
      k += depth;
    } while (k < s_.k && work_wanted());
    if (sums_in_place()) return;
    for (int64_t row = 0; row < tile.rows; ++row) store_row(x.out + row * s_.out_m, sums + row * stride, tile.columns);
  }

  /// One strip of columns, `depth` elements of k. `packed` is room for the strip.
  void run_strip(Sum* sums, int64_t stride, const Packed* a, const T* b, Packed* packed, int64_t depth, bool fresh,
                 const Tile& tile) const {
    const int64_t steps = packed_steps<T>(depth);
    const Packed* strip = packed;
    int64_t strip_stride = block_.columns;
    if (reads_in_place(tile.rows) && tile.columns == block_.columns) {
      if constexpr (std::is_same_v<T, Packed>) strip = b;
      strip_stride = s_.b_k;
    } else {
      block_.pack_columns(packed, b, tile.columns, s_.b_n, depth, s_.b_k);
    }
    for (int64_t row = 0; row < tile.rows; row += block_.rows, a += block_.rows * steps, sums += block_.rows * stride) {
      const int64_t rows = std::min<int64_t>(block_.rows, tile.rows - row);
      const auto accumulate = block_.accumulate[rows - 1];
      if (!sums_in_place() || tile.columns == block_.columns) {
        accumulate(sums, stride, a, strip, strip_stride, steps, fresh);
        continue;
      }
      // The block is wider than what is left of the output.
      alignas(64) Sum edge[kMaxBlockRows * kMaxBlockColumns];
      const auto each_row = [&](auto&& f) {
        for (int64_t r = 0; r < rows; ++r) f(sums + r * stride, edge + r * block_.columns);
      };
      if (!fresh) each_row([&](const Sum* from, Sum* to) { std::copy_n(from, tile.columns, to); });
      accumulate(edge, block_.columns, a, strip, strip_stride, steps, fresh);
      each_row([&](Sum* to, const Sum* from) { std::copy_n(from, tile.columns, to); });
    }
  }

  /// What is taken from the output is the product of -a and b.
  static void negate(Packed* a, int64_t size) {
    if constexpr (kSubtracts)
      for (int64_t i = 0; i < size; ++i) a[i] = -a[i];
  }
  void load_row(Sum* sums, const Out* out, int64_t columns) const {
    if constexpr (kSubtracts)
      for (int64_t column = 0; column < columns; ++column) sums[column] = out[column * s_.out_n];
  }

  void store_row(Out* out, const Sum* sums, int64_t columns) const {
    if (s_.out_n == 1)
      for (int64_t column = 0; column < columns; ++column) out[column] = Sums<T>::template store<Out>(sums[column]);
    else
      for (int64_t column = 0; column < columns; ++column)
        out[column * s_.out_n] = Sums<T>::template store<Out>(sums[column]);
  }

  /// Rows of a tile of that depth, in whole blocks.
  int64_t rows_of(int64_t depth) const {
    return 4 * depth / static_cast<int64_t>(sizeof(Sum)) / block_.rows * block_.rows;
  }
  /// Sums live in the output between slices of k where it can hold them.
  bool sums_in_place() const { return std::is_same_v<Out, Sum> && s_.out_n == 1; }
  /// Packing b pays when more than one block of rows reads it, or when it is not what the inner loop reads.
  bool reads_in_place(int64_t rows) const { return std::is_same_v<T, Packed> && s_.b_n == 1 && rows <= block_.rows; }

  const MatmulProblem& s_;
  const Block<T>& block_;
  Out* out_;
  const T *a_, *b_;
};

/// Columns are padded to whole registers and rows are not; sums can stay in an output whose columns lie together.
bool better_transposed(const MatmulProblem& s, int columns) {
  const int64_t area = s.m * round_up(s.n, columns), transposed = s.n * round_up(s.m, columns);
  return transposed != area ? transposed < area : s.out_n != 1 && s.out_m == 1;
}

template <typename T, typename Out>
void submit_as(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem) {
  runtime::run_host("matmul", out.device(), {write(out), read(a), read(b)},
                    [problem, block = choose_block<T>(matmul_level()), threads = num_threads()](void* const* p) {
                      const Product<T, Out> product(problem, block, static_cast<Out*>(p[0]),
                                                    static_cast<const T*>(p[1]), static_cast<const T*>(p[2]));
                      product.run(threads);
                    });
}

/// `Turned`: how elements are read where the transposed product is the quicker one.
template <typename T, typename Out, typename Turned = T>
void submit(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem) {
  if (better_transposed(problem, choose_block<T>(matmul_level()).columns))
    submit_as<Turned, Out>(out, b, a, transposed(problem));
  else
    submit_as<T, Out>(out, a, b, problem);
}

}  // namespace

std::byte* large_scratch() noexcept {
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(64)); }
  };
  thread_local std::unique_ptr<std::byte, Free> kept;
  if (g_low_memory.load(std::memory_order_relaxed)) return nullptr;
  if (kept == nullptr)
    kept.reset(
        static_cast<std::byte*>(::operator new(Scratch::bytes(kLargeDepth), std::align_val_t(64), std::nothrow)));
  return kept.get();
}

MatmulLevel best_matmul_level() {
#ifdef GPUKIT_X86_LEVELS
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  static const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? MatmulLevel::avx512 : avx2 ? MatmulLevel::avx2 : MatmulLevel::plain;
#else
  return MatmulLevel::plain;
#endif
}

namespace {
[[maybe_unused]] const bool g_made_at_load = made_at_load<best_matmul_level>();
}  // namespace

MatmulLevel matmul_level() { return std::min(g_level.load(std::memory_order_relaxed), best_matmul_level()); }
void set_matmul_level(MatmulLevel level) { g_level.store(level, std::memory_order_relaxed); }
void set_matmul_low_memory(bool low) { g_low_memory.store(low, std::memory_order_relaxed); }

void matmul(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem) {
  const bool wide = out.dtype() != a.dtype();
  visit_arithmetic(a.dtype(), [&]<typename T>() {
    if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
      // Wrapping around makes no difference between signed and unsigned.
      using Unsigned = std::make_unsigned_t<T>;
      submit<Unsigned, Unsigned>(out, a, b, problem);
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      submit<T, T, Swapped<typename T::value_type>>(out, a, b, problem);
    } else if (!wide) {
      submit<T, T>(out, a, b, problem);
    } else if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
      submit<T, float>(out, a, b, problem);
    } else if constexpr (std::is_same_v<T, int8_t>) {
      submit<T, uint32_t>(out, a, b, problem);
    }
  });
}

void multiply_floats(DType input, DType result, const MatmulProblem& problem, void* out, const void* a, const void* b) {
  const auto run = [&]<typename T, typename Out>(T, Out) {
    Product<T, Out>(problem, choose_block<T>(matmul_level()), static_cast<Out*>(out), static_cast<const T*>(a),
                    static_cast<const T*>(b))
        .run(num_threads());
  };
  visit_floating(input, [&]<typename T>() {
    if (result == input)
      run(T{}, T{});
    else
      run(T{}, compute_t<T>{});
  });
}

}  // namespace gpukit::cpu
