#include "gpukit/scheduler/tasks/decision_log.h"

#include <gtest/gtest.h>

#include "gpukit/base/json.h"

namespace gpukit::scheduler {
namespace {

TEST(DecisionLog, NumbersGoOnWhenOldEntriesAreReplaced) {
  DecisionLog log(3);
  for (int i = 0; i < 10; ++i) log.add("test", "do", "why", "task" + std::to_string(i), i, 100 - i);
  EXPECT_EQ(log.count(), 10u);
  const auto entries = log.read();
  ASSERT_EQ(entries.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(entries[i].number, 8 + i);
    EXPECT_EQ(entries[i].subject, "task" + std::to_string(7 + i));
  }
  EXPECT_EQ(log.read(9).size(), 1u);
  EXPECT_EQ(log.read(10).size(), 0u);
  EXPECT_EQ(log.read(0, 2).size(), 2u);
}

TEST(DecisionLog, LinesAreJson) {
  DecisionLog log;
  log.add("scheduler", "start", "first in order", "a \"quoted\" id", 5, -1, 42, "more");
  log.add("admission", "admit", "", "b");
  const std::string text = log.json_lines();
  const size_t end = text.find('\n');
  const Json first = Json::parse(text.substr(0, end));
  EXPECT_EQ(first.at("number").as_integer(), 1);
  EXPECT_EQ(first.at("at_ns").as_integer(), 42);
  EXPECT_EQ(first.at("subject").as_string(), "a \"quoted\" id");
  EXPECT_EQ(first.at("detail").as_string(), "more");
  const Json second = Json::parse(text.substr(end + 1, text.size() - end - 2));
  EXPECT_EQ(second.find("at_ns"), nullptr);
  EXPECT_EQ(second.find("reason"), nullptr);
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace gpukit::scheduler
