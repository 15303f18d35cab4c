#include "gpukit/base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "gpukit/base/bench.h"
#include "gpukit/base/clock.h"
#include "gpukit/base/env_attention.h"
#include "gpukit/base/env_triton.h"
#include "gpukit/base/error.h"
#include "gpukit/base/metrics.h"

namespace gpukit {
namespace {

void put(const char* name, const char* value) {
#ifdef _WIN32
  _putenv_s(name, value == nullptr ? "" : value);
#else
  if (value == nullptr)
    unsetenv(name);
  else
    setenv(name, value, 1);
#endif
}

/// Sets one variable and puts the old value back.
class With {
 public:
  With(const char* name, const char* value) : name_(name), old_(env::get(name)) {
    put(name, value);
    env::reread();
  }
  ~With() {
    put(name_, old_ ? old_->c_str() : nullptr);
    env::reread();
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(Env, ValuesAndDefaults) {
  {
    With unset("PYGPUKIT_DEVICE", nullptr);
    EXPECT_FALSE(env::device());
  }
  {
    With set("PYGPUKIT_DEVICE", "cuda");
    EXPECT_EQ(env::device()->device, (Device{DeviceKind::cuda, 0}));
    EXPECT_FALSE(env::device()->explicit_index);
  }
  {
    With set("PYGPUKIT_DEVICE", "cuda:2");
    EXPECT_EQ(env::device()->device, (Device{DeviceKind::cuda, 2}));
    EXPECT_TRUE(env::device()->explicit_index);
  }
  {
    With set("PYGPUKIT_NVRTC", "off");
    EXPECT_TRUE(env::nvrtc().off);
  }
  {
    With set("PYGPUKIT_NVRTC", "/x/libnvrtc.so");
    EXPECT_FALSE(env::nvrtc().off);
    EXPECT_EQ(env::nvrtc().path, "/x/libnvrtc.so");
  }
  {
    With set("PYGPUKIT_CACHE", "off");
    EXPECT_FALSE(env::cache_enabled());
  }
  {
    With set("PYGPUKIT_CACHE_MAX_MB", "64");
    EXPECT_EQ(env::cache_max_mb(), 64);
  }
  {
    With set("PYGPUKIT_LOG", "error");
    EXPECT_EQ(env::log_level(), LogLevel::error);
  }
  {
    With set("PYGPUKIT_DETERMINISM", "batch_invariant");
    EXPECT_EQ(env::determinism(), env::Determinism::batch_invariant);
  }
}

TEST(Env, NoTf32Wins) {
  With allow("PYGPUKIT_ALLOW_TF32", "1");
  {
    With none("PYGPUKIT_NO_TF32", nullptr);
    EXPECT_TRUE(env::allow_tf32());
  }
  With no("PYGPUKIT_NO_TF32", "1");
  EXPECT_FALSE(env::allow_tf32());
}

template <typename F>
void expect_invalid(const char* name, const char* value, const char* valid, F ask) {
  With set(name, value);
  try {
    ask();
    FAIL() << name << "=" << value;
  } catch (const ArgumentError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find(name), std::string::npos) << text;
    EXPECT_NE(text.find(valid), std::string::npos) << text;
    EXPECT_NE(text.find(value), std::string::npos) << text;
  }
}

TEST(Env, NamesOfAttention) {
  for (const auto& [value, wanted] : {std::pair{"0", std::optional(false)}, std::pair{"1", std::optional(true)},
                                      std::pair{"-1", std::optional<bool>()}}) {
    With set("PYGPUKIT_FLASH_DECODING", value);
    EXPECT_EQ(env::flash_decoding(), wanted);
  }
  {
    With set("PYGPUKIT_FLASH_ATTENTION", "auto");
    EXPECT_NO_THROW(env::check());
  }
  expect_invalid("PYGPUKIT_FLASH_DECODING", "auto", "0, 1, -1", [] { env::flash_decoding(); });
  expect_invalid("PYGPUKIT_FLASH_ATTENTION", "yes", "0, 1, auto", [] { env::check(); });
  expect_invalid("PYGPUKIT_FA3", "2", "0, 1, -1", [] { env::check(); });
  expect_invalid("PYGPUKIT_DISABLE_GROUPED_GEMM", "-1", "0, 1", [] { env::check(); });
}

TEST(Env, UseTritonHasThreeStates) {
  EXPECT_EQ(env::use_triton(), std::nullopt);
  for (const auto& [value, wanted] : {std::pair{"0", false}, std::pair{"1", true}}) {
    With set("PYGPUKIT_USE_TRITON", value);
    EXPECT_EQ(env::use_triton(), wanted);
  }
  expect_invalid("PYGPUKIT_USE_TRITON", "yes", "0, 1", [] { env::check(); });
}

TEST(Env, InvalidValuesListTheValidOnes) {
  EXPECT_NO_THROW(env::check());
  for (const char* name :
       {"PYGPUKIT_MEMORY_DEBUG", "PYGPUKIT_REQUIRE_GPU", "PYGPUKIT_NO_CUBLASLT", "PYGPUKIT_PREFER_CUBLASLT"})
    expect_invalid(name, "yes", "0, 1", [] { env::check(); });
  expect_invalid("PYGPUKIT_NUM_THREADS", "four", "positive integer", [] { env::check(); });
  expect_invalid("PYGPUKIT_DEVICE", "tpu", "cuda:N", [] { env::device(); });
  expect_invalid("PYGPUKIT_CACHE", "maybe", "on, off", [] { env::cache_enabled(); });
  expect_invalid("PYGPUKIT_CACHE_MAX_MB", "-5", "positive integer", [] { env::cache_max_mb(); });
  expect_invalid("PYGPUKIT_ALLOW_TF32", "yes", "0, 1", [] { env::allow_tf32(); });
  expect_invalid("PYGPUKIT_DETERMINISM", "high", "run_to_run", [] { env::determinism(); });
  expect_invalid("PYGPUKIT_LOG", "loud", "debug, info", [] { env::log_level(); });
  expect_invalid("PYGPUKIT_NUM_THREADS", "0", "positive integer", [] { env::num_threads(); });
  expect_invalid("PYGPUKIT_NUM_THREADS", "4x", "positive integer", [] { env::num_threads(); });
}

TEST(Env, ReadOnceAndListed) {
  With set("PYGPUKIT_NUM_THREADS", "3");
  EXPECT_EQ(env::num_threads(), 3);
  put("PYGPUKIT_NUM_THREADS", "5");
  EXPECT_EQ(env::num_threads(), 3);
  bool found = false;
  for (const env::Variable& v : env::list()) {
    EXPECT_EQ(std::string(v.name).rfind("PYGPUKIT_", 0), 0u);
    if (std::string(v.name) == "PYGPUKIT_NUM_THREADS") found = v.value == "3";
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(env::list().size(), 23u);
}

TEST(Log, SinkLevelsAndOnce) {
  std::vector<std::string> seen;
  log_once(LogLevel::warning, "env_test.key", "dropped: no sink yet");
  set_log_sink([&](LogLevel level, std::string_view text) {
    seen.push_back(std::string(name(level)) + ":" + std::string(text));
  });
  set_log_level(LogLevel::warning);
  log(LogLevel::info, "no");
  log(LogLevel::error, "yes");
  log_once(LogLevel::warning, "env_test.key", "first");
  log_once(LogLevel::warning, "env_test.key", "second");
  EXPECT_FALSE(log_enabled(LogLevel::debug));
  set_log_sink([](LogLevel, std::string_view) { throw 1; });
  EXPECT_NO_THROW(log(LogLevel::error, "a sink that throws"));
  set_log_sink({});
  EXPECT_FALSE(log_enabled(LogLevel::error));
  set_log_level(LogLevel::debug);
  EXPECT_EQ(seen, (std::vector<std::string>{"error:yes", "warning:first"}));
}

TEST(Clock, VirtualMovesWhenTold) {
  VirtualClock clock(5);
  EXPECT_EQ(clock.now_ns(), 5);
  clock.advance_ns(10);
  clock.sleep_ns(100);
  clock.sleep_ns(-1);
  EXPECT_EQ(clock.now_ns(), 115);
}

TEST(Metrics, CountersAreNamed) {
  Counter& a = counter("env_test.a");
  EXPECT_EQ(&a, &counter("env_test.a"));
  EXPECT_NE(&a, &counter("env_test.b"));
  a.add();
  a.add(4);
  bool found = false;
  for (const auto& [name, value] : metrics()) found |= name == "env_test.a" && value == 5;
  EXPECT_TRUE(found);
}

TEST(Bench, Summary) {
  const Timing t = summarize({5, 1, 3, 2, 4}, 7);
  EXPECT_EQ(t.median_us, 3);
  EXPECT_EQ(t.min_us, 1);
  EXPECT_EQ(t.max_us, 5);
  EXPECT_EQ(t.mean_us, 3);
  EXPECT_EQ(t.calls, 7);
  EXPECT_EQ(summarize({1, 2}, 1).median_us, 1.5);
  EXPECT_EQ(summarize({}, 1).rounds, 0);
  int calls = 0, between = 0;
  measure([&] { ++calls; }, 3, 4, [&] { ++between; });
  EXPECT_EQ(calls, 16);
  EXPECT_EQ(between, 4);
}

}  // namespace
}  // namespace gpukit
