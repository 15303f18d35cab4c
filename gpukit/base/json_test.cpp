#include "gpukit/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gpukit/base/error.h"

namespace gpukit {
namespace {

TEST(Json, Reads) {
  const Json j = Json::parse(R"( {"a": [1, -2.5, 1e3, true, null], "b": {"c": "x\n\u00e9\ud83d\ude00"}} )");
  EXPECT_EQ(j.at("a").items()[0].as_integer(), 1);
  EXPECT_EQ(j.at("a").items()[1].as_number(), -2.5);
  EXPECT_EQ(j.at("a").items()[2].as_number(), 1000.0);
  EXPECT_FALSE(j.at("a").items()[2].is_integer());
  EXPECT_TRUE(j.at("a").items()[3].as_bool());
  EXPECT_TRUE(j.at("a").items()[4].is_null());
  EXPECT_EQ(j.at("b").at("c").as_string(), "x\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(j.find("z"), nullptr);
  EXPECT_THROW(j.at("z"), FormatError);
  EXPECT_THROW(j.at("a").as_string(), FormatError);
}

TEST(Json, Numbers) {
  EXPECT_EQ(Json::parse("9223372036854775807").as_integer(), INT64_MAX);
  EXPECT_EQ(Json::parse("-9223372036854775808").as_integer(), INT64_MIN);
  EXPECT_EQ(Json::parse("9223372036854775808").as_number(), 0x1p63);
  EXPECT_TRUE(std::signbit(Json::parse("-0").as_number()));
  EXPECT_EQ(Json::parse("1e-400").as_number(), 0.0);
  EXPECT_EQ(Json::parse("0." + std::string(400, '0') + "1").as_number(), 0.0);
  EXPECT_THROW(Json::parse("1e400"), FormatError);
  EXPECT_THROW(Json::parse("-1" + std::string(400, '0')), FormatError);
  EXPECT_THROW(Json::parse("1" + std::string(400, '0') + "e-5"), FormatError);
  EXPECT_THROW(Json(std::nan("")).dump(), ArgumentError);
  EXPECT_THROW(Json(INFINITY).dump(), ArgumentError);
}

TEST(Json, Rejects) {
  for (const char* bad : {"",
                          " ",
                          "{",
                          "[",
                          "[1",
                          "[1,]",
                          "[,1]",
                          "{\"a\"}",
                          "{\"a\":}",
                          "{\"a\":1,}",
                          "{a:1}",
                          "{'a':1}",
                          "{\"a\":1 \"b\":2}",
                          "01",
                          "1.",
                          ".5",
                          "+1",
                          "-",
                          "1e",
                          "1e+",
                          "0x10",
                          "NaN",
                          "Infinity",
                          "nul",
                          "truex",
                          "true false",
                          "\"",
                          "\"\\\"",
                          "\"\\x41\"",
                          "\"\\u12\"",
                          "\"\\u12g4\"",
                          "\"\\ud800\"",
                          "\"\\ud800\\u0041\"",
                          "\"\\udc00\"",
                          "\"\n\"",
                          "\"\t\"",
                          "1 /* no */",
                          "// no\n1",
                          "{\"a\":1,\"a\":2}",
                          "\"\xff\"",
                          "\"\xc0\xaf\"",
                          "\"\xed\xa0\x80\"",
                          "\"\xe2\x82\"",
                          "\"\xf5\x80\x80\x80\"",
                          "\xef\xbb\xbf"
                          "1",
                          "[1 2]",
                          "--1"})
    EXPECT_THROW(Json::parse(bad), FormatError) << bad;
  EXPECT_THROW(Json::parse(std::string_view("1\0", 2)), FormatError);
  EXPECT_THROW(Json::parse(std::string_view("\"\\\0\"", 4)), FormatError);
  EXPECT_THROW(Json::parse(std::string(100000, '[')), FormatError);
  EXPECT_NO_THROW(Json::parse(std::string(150, '[') + std::string(150, ']')));
}

Json random_value(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 4 ? 5 : 7)) {
    case 0: return Json();
    case 1: return Json(random() % 2 == 0);
    case 2: return Json(static_cast<int64_t>(random()) >> (random() % 64));
    case 3: {
      const double d = std::bit_cast<double>(random());
      return Json(std::isfinite(d) ? d : -0.0);
    }
    case 4: {
      std::string text;
      for (uint64_t i = random() % 12; i > 0; --i) {
        constexpr const char* kPieces[] = {"a",    "\"", "\\", "\n", "\x01", "/", "\xc3\xa9", "\xf0\x9f\x98\x80",
                                           "\x7f", " "};
        text += kPieces[random() % 10];
      }
      if (random() % 8 == 0) text += '\0';
      return Json(text);
    }
    case 5: {
      Json list = Json::list();
      for (uint64_t i = random() % 5; i > 0; --i) list.push_back(random_value(random, depth + 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (uint64_t i = random() % 5; i > 0; --i)
        object.set("k" + std::to_string(random() % 9), random_value(random, depth + 1));
      return object;
    }
  }
}

TEST(Json, RoundTrips) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 3000; ++i) {
    const Json value = random_value(random, 0);
    for (int indent : {0, 2}) EXPECT_EQ(Json::parse(value.dump(indent)), value) << value.dump();
  }
}

TEST(Json, DamagedTextNeverCrashes) {
  std::mt19937_64 random(43);
  for (int i = 0; i < 20000; ++i) {
    std::string text = random_value(random, 0).dump();
    for (uint64_t edits = random() % 3 + 1; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0)
        text[at] = static_cast<char>(random());
      else
        text.erase(at);
    }
    try {
      const Json value = Json::parse(text);
      EXPECT_EQ(Json::parse(value.dump()), value) << text;
    } catch (const FormatError&) {
    }
  }
}

TEST(Json, WritesNothingThatItWouldNotRead) {
  Json value = Json::list();
  for (int depth = 0; depth < 200; ++depth) {
    Json outer = Json::list();
    outer.push_back(std::move(value));
    value = std::move(outer);
  }
  EXPECT_EQ(Json::parse(value.dump()), value);
  Json deeper = Json::list();
  deeper.push_back(std::move(value));
  EXPECT_THROW(deeper.dump(), ArgumentError);
}

TEST(Json, WritesInOrder) {
  Json j = Json::object();
  j.set("b", 1);
  j.set("a", Json::list());
  j.set("b", 2.0);
  EXPECT_EQ(j.dump(), R"({"b": 2.0, "a": []})");
  EXPECT_EQ(j.dump(2), "{\n  \"b\": 2.0,\n  \"a\": []\n}");
}

}  // namespace
}  // namespace gpukit
