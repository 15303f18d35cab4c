#include "gpukit/base/events.h"

#include <gtest/gtest.h>

#include <thread>

#include "gpukit/base/json.h"

namespace gpukit {
namespace {

TEST(Events, AreNumberedAndReadableAsJsonLines) {
  const uint64_t before = event_count();
  note_event("memory", "evict", "pool \"a\"", 4096);
  note_event("partition", "create", "b", 0, "two\nlines");
  EXPECT_EQ(event_count(), before + 2);
  const std::vector<Event> list = events(before);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].number, before + 1);
  EXPECT_EQ(list[1].number, before + 2);
  EXPECT_LE(list[0].at_ns, list[1].at_ns);
  const std::string lines = events_json(before);
  const size_t end = lines.find('\n');
  const Json first = Json::parse(lines.substr(0, end));
  EXPECT_EQ(first.at("source").as_string(), "memory");
  EXPECT_EQ(first.at("subject").as_string(), "pool \"a\"");
  EXPECT_EQ(first.at("bytes").as_integer(), 4096);
  EXPECT_EQ(first.find("detail"), nullptr);
  const Json second = Json::parse(lines.substr(end + 1, lines.size() - end - 2));
  EXPECT_EQ(second.at("detail").as_string(), "two\nlines");
  EXPECT_EQ(second.find("bytes"), nullptr);
  EXPECT_EQ(events(before, 1).size(), 1u);
  EXPECT_TRUE(events(before + 2).empty());
}

TEST(Events, TheRingKeepsTheLastOnesUnderThreads) {
  const uint64_t before = event_count();
  std::vector<std::thread> threads;
  constexpr int kThreads = 4, kEach = 2000;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < kEach; ++i) note_event("test", "note", "x", i);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(event_count(), before + kThreads * kEach);
  const std::vector<Event> list = events();
  ASSERT_EQ(list.size(), kEventCapacity);
  for (size_t i = 1; i < list.size(); ++i) ASSERT_EQ(list[i].number, list[i - 1].number + 1);
  EXPECT_EQ(list.back().number, event_count());
}

}  // namespace
}  // namespace gpukit
