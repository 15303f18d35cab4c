// Products by cuBLASLt: what it is asked, once, with which memory, and when it is not used. On the CPU device, by a
// library made for the tests; on a GPU by the one that is installed.
#include "gpukit/ops/matmul/vendor/cublaslt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/matmul/vendor/cublaslt_state.h"
#include "gpukit/ops/matmul/vendor/cublaslt_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/stream_group.h"
#include "tests/support/fake_cublaslt.h"
#include "tests/support/fake_driver.h"
#include "tests/support/testing.h"

namespace gpukit::cuda {
namespace {

using testing::FakeCublasLt;
using testing::FakeDriver;
using testing::kCpu;
using testing::make_array;
using testing::random_values;
using testing::to_doubles;

constexpr const char* kHeuristic = "cublasLtMatmulAlgoGetHeuristic";

/// a and b [m, k] and [k, n], or stacks of them.
MatmulProblem problem_of(const Array& out, const Array& a, const Array& b) {
  const int r = out.ndim();
  MatmulProblem s = {};
  s.m = out.shape(-2);
  s.n = out.shape(-1);
  s.k = a.shape(-1);
  s.a_m = a.strides()[r - 2];
  s.a_k = a.strides()[r - 1];
  s.b_k = b.strides()[r - 2];
  s.b_n = b.strides()[r - 1];
  s.out_m = out.strides()[r - 2];
  s.out_n = out.strides()[r - 1];
  s.batches = r == 3 ? out.shape(0) : 1;
  s.batch_rank = r - 2;
  if (r == 3) {
    s.batch_shape[0] = out.shape(0);
    s.batch_a[0] = a.strides()[0];
    s.batch_b[0] = b.strides()[0];
    s.batch_out[0] = out.strides()[0];
  }
  return s;
}

std::vector<double> product_of(const Array& a, const Array& b) {
  const std::vector<double> left = to_doubles(a), right = to_doubles(b);
  const int64_t m = a.shape(-2), k = a.shape(-1), n = b.shape(-1), batches = a.ndim() == 3 ? a.shape(0) : 1;
  std::vector<double> result(static_cast<size_t>(batches * m * n));
  for (int64_t t = 0; t < batches; ++t)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          result[static_cast<size_t>((t * m + i) * n + j)] +=
              left[static_cast<size_t>((t * m + i) * k + l)] * right[static_cast<size_t>((t * k + l) * n + j)];
  return result;
}

Array random_array(const Dims& shape, DType dtype, uint64_t seed) {
  const bool integer = dtype == DType::int8;
  return make_array(random_values(static_cast<size_t>(shape.product()), seed, integer ? -100 : -1, integer ? 100 : 1),
                    shape, dtype, kCpu);
}

class Vendor : public ::testing::Test {
 protected:
  ~Vendor() override { reset_vendor(); }

  static void multiply(const Array& out, const Array& a, const Array& b) {
    cuda::matmul(out, a, b, problem_of(out, a, b), {.kernel = MatmulKernel::cublaslt});
  }
  static std::string refusal(const Array& out, const Array& a, const Array& b) {
    try {
      multiply(out, a, b);
    } catch (const UnsupportedError& error) {
      return error.what();
    }
    return "served";
  }

  FakeDriver driver;
  FakeCublasLt lt;
};

TEST_F(Vendor, EveryTypeAndLayout) {
  struct Case {
    DType input, out;
    int compute;
  };
  uint64_t seed = 1;
  for (const Case& c : {Case{DType::float16, DType::float16, 68}, Case{DType::bfloat16, DType::bfloat16, 68},
                        Case{DType::bfloat16, DType::float32, 68}, Case{DType::float32, DType::float32, 68},
                        Case{DType::float64, DType::float64, 70}, Case{DType::int8, DType::int32, 72}}) {
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const bool turn_out : {false, true})
          for (const auto& [m, n, k] : {std::array{5, 7, 3}, std::array{1, 6, 4}, std::array{4, 1, 1}}) {
            const Array a =
                transpose_a ? random_array({k, m}, c.input, seed++).transpose() : random_array({m, k}, c.input, seed++);
            const Array b =
                transpose_b ? random_array({n, k}, c.input, seed++).transpose() : random_array({k, n}, c.input, seed++);
            const Array out =
                turn_out ? Array::empty({n, m}, c.out, kCpu).transpose() : Array::empty({m, n}, c.out, kCpu);
            multiply(out, a, b);
            EXPECT_TRUE(testing::all_close(out, product_of(a, b), 2 * testing::epsilon(c.out), 1e-6))
                << name(c.input) << " " << transpose_a << transpose_b << turn_out << " " << m << "x" << n << "x" << k;
            EXPECT_EQ(lt.last_asked().compute, c.compute);
          }
  }
  EXPECT_EQ(lt.last_asked().alignment, 16);
  EXPECT_EQ(lt.last_asked().workspace_bytes, VendorState::kWorkspaceBytes);
}

TEST_F(Vendor, TF32OnlyWhenAsked) {
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  const MatmulProblem problem = problem_of(out, a, a);
  cuda::matmul(out, a, a, problem, {.kernel = MatmulKernel::cublaslt});
  EXPECT_EQ(lt.last_asked().compute, 68);
  cuda::matmul(out, a, a, problem, {.precision = MatmulPrecision::tf32, .kernel = MatmulKernel::cublaslt});
  EXPECT_EQ(lt.last_asked().compute, 77);
}

TEST_F(Vendor, Batches) {
  const Array a = random_array({3, 4, 5}, DType::float32, 1), b = random_array({3, 5, 8}, DType::float32, 2);
  const Array out = Array::empty({3, 4, 8}, DType::float32, kCpu);
  multiply(out, a, b);
  EXPECT_TRUE(testing::all_close(out, product_of(a, b), 1e-6, 1e-6));
  const Array one = random_array({1, 5, 8}, DType::float32, 3).broadcast_to({3, 5, 8});
  multiply(out, a, one);
  EXPECT_TRUE(testing::all_close(out, product_of(a, one), 1e-6, 1e-6));
}

TEST_F(Vendor, ScaledProducts) {
  const Array a = random_array({6, 16}, DType::float8_e4m3, 1), b = random_array({4, 16}, DType::float8_e4m3, 2);
  const Array rows_a = random_array({6, 1}, DType::float32, 3), rows_b = random_array({4, 1}, DType::float32, 4);
  const Array one_a = make_array(std::vector<double>{0.5}, {}, DType::float32, kCpu),
              one_b = make_array(std::vector<double>{0.25}, {}, DType::float32, kCpu);
  for (const bool rows : {false, true}) {
    ScaledProduct p;
    p.a = {a, rows ? rows_a : one_a};
    p.b = {b, rows ? rows_b : one_b};
    p.out = Array::empty({6, 4}, DType::bfloat16, kCpu);
    ScaledProblem& s = p.problem;
    s = {};
    s.m = 6;
    s.n = 4;
    s.k = 16;
    s.a.code = s.b.code = Code::float8_e4m3;
    s.out = Code::bfloat16;
    s.a.row = s.b.row = 16;
    s.a.k = s.b.k = 1;
    s.a.has_scale = s.b.has_scale = 1;
    s.a.scale.row = s.b.scale.row = rows ? 1 : 0;
    s.out_m = 4;
    s.out_n = 1;
    s.alpha = 2.0f;
    p.kernel = MatmulKernel::cublaslt;
    cuda::scaled_matmul(p);
    std::vector<double> expected = product_of(a, b.transpose());
    const std::vector<double> left = to_doubles(p.a.scale), right = to_doubles(p.b.scale);
    for (size_t i = 0; i < 6; ++i)
      for (size_t j = 0; j < 4; ++j) expected[i * 4 + j] *= 2 * left[rows ? i : 0] * right[rows ? j : 0];
    EXPECT_TRUE(testing::all_close(p.out, expected, 0.005, 1e-6)) << rows;
    p.bias = make_array(std::vector<double>(4), {4}, DType::bfloat16, kCpu);
    EXPECT_THROW(cuda::scaled_matmul(p), UnsupportedError);
    // Scales of rows are new in 12.9: older libraries do not know the attribute.
    p.bias = {};
    reset_vendor();
    lt.refuse_attribute(31);
    if (rows)
      EXPECT_THROW(cuda::scaled_matmul(p), UnsupportedError);
    else
      EXPECT_NO_THROW(cuda::scaled_matmul(p));
    lt.refuse_attribute(-1);
    reset_vendor();
  }
}

TEST_F(Vendor, OneHeuristicCallAProblem) {
  const Array a = random_array({4, 8}, DType::bfloat16, 1), b = random_array({8, 8}, DType::bfloat16, 2);
  const Array out = Array::empty({4, 8}, DType::bfloat16, kCpu);
  for (int i = 0; i < 5; ++i) multiply(out, a, b);
  EXPECT_EQ(lt.count(kHeuristic), 1);
  EXPECT_EQ(lt.count("cublasLtCreate"), 1);
  multiply(out, a, b.transpose());
  multiply(out, a, b);
  multiply(out.narrow(0, 0, 2), a.narrow(0, 0, 2), b);
  EXPECT_EQ(lt.count(kHeuristic), 3);
  // One that has no algorithm is not asked about again.
  lt.set_algorithms(0);
  const Array small = out.narrow(0, 0, 1), row = a.narrow(0, 0, 1);
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(refusal(small, row, b).find("cuBLASLt 13.1.0 has no algorithm"), std::string::npos);
  EXPECT_EQ(lt.count(kHeuristic), 4);
}

TEST_F(Vendor, PlansForTheMultiprocessorsOfTheSession) {
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  multiply(out, a, a);
  EXPECT_EQ(lt.last_asked().sm_count, 0);  // all of them
  driver::set_host_sms(32);
  {
    const driver::SmSplit split(runtime::open_device(kCpu).context);
    const int group = 0;
    const auto green = std::make_shared<driver::GreenContext>(split, std::span(&group, 1));
    const auto stream = std::make_shared<driver::Stream>(split.context(), 0, green);
    const runtime::Session session = runtime::current_session().with_stream(stream);
    const runtime::SessionGuard guard(session);
    multiply(out, a, a);
    EXPECT_EQ(lt.last_asked().sm_count, 8);
    EXPECT_EQ(lt.count(kHeuristic), 2);
    reset_vendor();
  }
  driver::set_host_sms(0);
}

TEST_F(Vendor, RefusalsOfTheHeuristicAreNoErrors) {
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  for (const int status : {7, 8, 15}) {
    lt.fail(kHeuristic, status);
    EXPECT_NE(refusal(out, a, a).find("has no algorithm"), std::string::npos) << status;
    reset_vendor();
  }
}

TEST_F(Vendor, NothingIsLeftBehind) {
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  multiply(out, a, a);
  lt.fail(kHeuristic, 14);
  EXPECT_THROW(multiply(out, a, a.transpose()), driver::CublasLtError);
  lt.fail(kHeuristic, 0);
  lt.fail("cublasLtMatrixLayoutSetAttribute", 7);
  const Array stack = random_array({2, 4, 4}, DType::float32, 1);
  EXPECT_THROW(multiply(Array::empty_like(stack), stack, stack), driver::CublasLtError);
  reset_vendor();
  EXPECT_EQ(lt.live(), 0);
}

TEST_F(Vendor, WorkspaceIsOneAStream) {
  lt.set_workspace(4096);
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  multiply(out, a, a);
  multiply(out, a, a.transpose());
  const auto second = runtime::new_stream(kCpu, 0);
  {
    const runtime::Session session = runtime::current_session().with_stream(second);
    const runtime::SessionGuard guard(session);
    multiply(out, a, a);
  }
  multiply(out, a, a);
  const std::vector<const void*> used = lt.workspaces();
  ASSERT_EQ(used.size(), 4u);
  EXPECT_NE(used[0], nullptr);
  EXPECT_EQ(used[0], used[1]);
  EXPECT_EQ(used[0], used[3]);
  EXPECT_NE(used[0], used[2]);
}

TEST_F(Vendor, NoMemoryForAWorkspaceRaises) {
  lt.set_workspace(size_t{32} << 20);
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  driver::set_host_memory_limit(size_t{8} << 20);
  try {
    multiply(out, a, a);
    ADD_FAILURE() << "served";
  } catch (const OutOfMemoryError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("matmul: needs a workspace of 33554432 bytes")) << error.what();
  }
  driver::set_host_memory_limit(0);
  multiply(out, a, a);
  EXPECT_TRUE(testing::all_close(out, product_of(a, a), 1e-6, 1e-6));
}

TEST_F(Vendor, TheFirstCallMayBeInACapture) {
  lt.set_workspace(4096);
  const Array a = random_array({4, 4}, DType::float32, 1), b = random_array({4, 4}, DType::float32, 2);
  const Array out = Array::empty({4, 4}, DType::float32, kCpu);
  runtime::Graph graph(kCpu);
  graph.begin_capture();
  {
    const runtime::Session session = runtime::current_session().with_stream(graph.stream());
    const runtime::SessionGuard guard(session);
    multiply(out, a, b.transpose());
    multiply(out, b, a);
  }
  graph.end_capture();
  multiply(out, a, b);
  const std::vector<const void*> used = lt.workspaces();
  ASSERT_EQ(used.size(), 3u);
  EXPECT_NE(used[0], nullptr);
  EXPECT_EQ(used[0], used[1]);
  EXPECT_NE(used[0], used[2]);
  graph.replay();
  graph.synchronize();
  EXPECT_TRUE(testing::all_close(out, product_of(b, a), 1e-6, 1e-6));
  EXPECT_TRUE(graph.verify());
}

TEST_F(Vendor, IsPreferredOnlyWhereItIsAskedFor) {
  EXPECT_FALSE(vendor_preferred());
  for (const auto level : {env::Determinism::run_to_run, env::Determinism::not_guaranteed}) {
    const runtime::Session session = runtime::current_session().with_determinism(level);
    const runtime::SessionGuard guard(session);
    EXPECT_EQ(vendor_preferred(), level == env::Determinism::not_guaranteed);
  }
  ::setenv("PYGPUKIT_PREFER_CUBLASLT", "1", 1);
  env::reread();
  EXPECT_TRUE(vendor_preferred());
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  multiply(out, a, a);
  ::setenv("PYGPUKIT_NO_CUBLASLT", "1", 1);
  env::reread();
  EXPECT_FALSE(vendor_preferred());
  ::unsetenv("PYGPUKIT_PREFER_CUBLASLT");
  ::unsetenv("PYGPUKIT_NO_CUBLASLT");
  env::reread();
}

TEST_F(Vendor, ReplaysAfterTheStateIsForgottenKeepTheirMemory) {
  lt.set_workspace(4096);
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  multiply(out, a, a);
  runtime::Graph graph(kCpu);
  graph.begin_capture();
  {
    const runtime::Session session = runtime::current_session().with_stream(graph.stream());
    const runtime::SessionGuard guard(session);
    multiply(out, a, a);
  }
  graph.end_capture();
  const void* workspace = lt.workspaces().back();
  // Other streams take every place; the graph's block must not be among them.
  std::vector<std::shared_ptr<driver::Stream>> streams;
  for (int i = 0; i < 12; ++i) {
    streams.push_back(runtime::new_stream(kCpu, 0));
    const runtime::Session session = runtime::current_session().with_stream(streams.back());
    const runtime::SessionGuard guard(session);
    multiply(out, a, a);
    EXPECT_NE(lt.workspaces().back(), workspace);
  }
  graph.replay();
  graph.synchronize();
  EXPECT_TRUE(testing::all_close(out, product_of(a, a), 1e-6, 1e-6));
}

TEST_F(Vendor, RefusedWithItsReason) {
  const Array a = random_array({8, 8}, DType::bfloat16, 1), out = Array::empty({8, 8}, DType::bfloat16, kCpu);
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_TRUE(text.starts_with("matmul: kernel 'cublaslt' cannot serve")) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(refusal(out.slice(1, 0, 8, 2), a, a.slice(1, 0, 8, 2)), "dense in neither direction");
  expect(refusal(out.slice(1, 0, 8, 2), a, a.narrow(1, 0, 4)), "no dense rows");
  expect(refusal(out.narrow(1, 1, 7), a, a.narrow(1, 1, 7)), "multiple of 16 bytes");
  expect(refusal(Array::empty({8, 8}, DType::int64, kCpu), random_array({8, 8}, DType::int64, 1),
                 random_array({8, 8}, DType::int64, 2)),
         "no product of these dtypes");
  expect(refusal(out, a.narrow(1, 0, 0), a.narrow(0, 0, 0)), "no product of these sizes");
  const runtime::Session session = runtime::current_session().with_determinism(env::Determinism::batch_invariant);
  const runtime::SessionGuard guard(session);
  expect(refusal(out, a, a), "batch_invariant");
  EXPECT_EQ(lt.count("cublasLtMatmul"), 0);
}

TEST_F(Vendor, LibraryErrorsNameTheCallAndTheStatus) {
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  lt.fail("cublasLtMatmul", 13);
  try {
    multiply(out, a, a);
    FAIL();
  } catch (const driver::CublasLtError& error) {
    EXPECT_STREQ(error.what(),
                 "matrix product by cuBLASLt: cublasLtMatmul failed with CUBLAS_STATUS_EXECUTION_FAILED (13); "
                 "PYGPUKIT_NO_CUBLASLT=1 does without it");
    EXPECT_EQ(error.call, "cublasLtMatmul");
    EXPECT_EQ(error.status, 13);
  }
  lt.fail("cublasLtMatmul", 0);
  multiply(out, a, a);
  EXPECT_TRUE(testing::all_close(out, product_of(a, a), 1e-6, 1e-6));
  reset_vendor();
  lt.fail("cublasLtCreate", 3);
  EXPECT_THROW(multiply(out, a, a), driver::CublasLtError);
}

TEST_F(Vendor, ThreadsShareADevice) {
  lt.set_workspace(1024);
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&good, t] {
      const auto stream = runtime::new_stream(kCpu, 0);
      const runtime::Session session = runtime::current_session().with_stream(stream);
      const runtime::SessionGuard guard(session);
      const Array a = random_array({6, 6}, DType::float32, t), out = Array::empty({6, 6}, DType::float32, kCpu);
      for (int i = 0; i < 20; ++i) {
        multiply(out, a, i % 2 == 0 ? a : a.transpose());
        if (testing::all_close(out, product_of(a, i % 2 == 0 ? a : a.transpose()), 1e-6, 1e-6)) ++good[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 20));
  EXPECT_EQ(lt.count(kHeuristic), 2);
}

TEST_F(Vendor, ExplainNamesTheLibrary) {
  lt.set_workspace(2048);
  const Array a = random_array({4, 4}, DType::float32, 1), out = Array::empty({4, 4}, DType::float32, kCpu);
  const std::string text =
      cuda::explain_matmul(a, a, DType::float32, problem_of(out, a, a), {.kernel = MatmulKernel::cublaslt});
  EXPECT_TRUE(text.starts_with("cuBLASLt 13.1.0, its first algorithm for ")) << text;
  EXPECT_TRUE(text.ends_with("2 KiB of workspace; the order of sums is the library's")) << text;
  EXPECT_EQ(lt.count("cublasLtMatmul"), 0);
}

TEST(VendorTable, TakesWhatWasMeasured) {
  constexpr VendorChip whole{9, 0, 132, 132};
  const auto problem = [](const VendorRow& row, int64_t m) {
    MatmulProblem s = {};
    s.m = m;
    s.n = row.n;
    s.k = row.k;
    s.a_m = row.k;
    s.a_k = 1;
    s.b_k = row.b == Major::k ? 1 : row.n;
    s.b_n = row.b == Major::k ? row.k : 1;
    s.out_m = row.n;
    s.out_n = 1;
    s.batches = 1;
    return s;
  };
  for (const VendorRow& row : kVendorTable) {
    ASSERT_LE(row.m_first, row.m_last);
    for (const int64_t m : {row.m_first, (row.m_first + row.m_last) / 2, row.m_last})
      EXPECT_TRUE(vendor_wins(problem(row, m), row.format, whole));
    MatmulProblem s = problem(row, row.m_first);
    EXPECT_FALSE(vendor_wins(s, row.format, {9, 0, 100, 132}));
    EXPECT_FALSE(vendor_wins(s, row.format, {10, 0, 132, 132}));
    s.batches = 2;
    EXPECT_FALSE(vendor_wins(s, row.format, whole));
    s = problem(row, row.m_first);
    s.n += 8;
    EXPECT_FALSE(vendor_wins(s, row.format, whole));
    s = problem(row, row.m_first);
    s.a_k = 2;
    EXPECT_FALSE(vendor_wins(s, row.format, whole));
  }
  MatmulProblem other = problem({VendorFormat::bfloat16, Major::k, 1, 1, 24, 40}, 3);
  EXPECT_FALSE(vendor_wins(other, VendorFormat::bfloat16, whole));
}

TEST(VendorTable, FormatsOfPlainArrays) {
  EXPECT_EQ(vendor_format(DType::bfloat16, DType::bfloat16, false), VendorFormat::bfloat16);
  EXPECT_EQ(vendor_format(DType::float32, DType::float32, true), VendorFormat::tf32);
  EXPECT_EQ(vendor_format(DType::float32, DType::float32, false), VendorFormat::float32);
  EXPECT_EQ(vendor_format(DType::int8, DType::int32, false), VendorFormat::int8);
  EXPECT_EQ(vendor_format(DType::bfloat16, DType::float32, false), std::nullopt);
  EXPECT_EQ(vendor_format(DType::float64, DType::float64, false), std::nullopt);
}

}  // namespace
}  // namespace gpukit::cuda
