#include <gtest/gtest.h>

#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/recurrent/lstm_impl.h"

namespace gpukit::cuda {
namespace {

LstmParams layer(int64_t hidden, int64_t batch, int64_t directions = 1) {
  LstmParams p{};
  p.directions = directions;
  p.batch = batch;
  p.steps = 500;
  p.hidden = hidden;
  return p;
}

/// 128 blocks alone, 16 clusters of 8 and 8 of 16, as a whole chip has.
std::optional<LstmPlan> plan(const LstmParams& p, int64_t weight_bytes = 4) {
  return plan_lstm(p, weight_bytes, [](int form) { return 128 / kLstmForms[form].blocks; });
}

TEST(LstmPlan, ChoosesByHidden) {
  for (const auto& [hidden, form, units] : {std::tuple{1, 0, 4},
                                            {33, 0, 36},
                                            {64, 0, 64},
                                            {65, 1, 12},
                                            {256, 1, 32},
                                            {257, 2, 20},
                                            {512, 2, 32},
                                            {513, 4, 36},
                                            {1024, 4, 64}}) {
    const auto p = plan(layer(hidden, 1));
    ASSERT_TRUE(p) << hidden;
    EXPECT_EQ(p->form, form) << hidden;
    EXPECT_EQ(p->share.units, units) << hidden;
    EXPECT_EQ(p->threads, static_cast<unsigned>(8 * units)) << hidden;
  }
  EXPECT_FALSE(plan(layer(1025, 1)));
  LstmParams none = layer(256, 1);
  none.steps = 0;
  EXPECT_FALSE(plan(none));
}

TEST(LstmPlan, TakesWhatTheSessionCanRun) {
  const auto small = [](int form) { return kLstmForms[form].blocks == 8 ? 2 : 0; };
  EXPECT_EQ(plan_lstm(layer(512, 1), 4, small)->form, 3);
  EXPECT_EQ(plan_lstm(layer(8, 1), 4, small)->form, 1);
  EXPECT_EQ(plan_lstm(layer(256, 5), 4, small)->share.items, 3);
  EXPECT_FALSE(plan_lstm(layer(513, 1), 4, small));
  EXPECT_FALSE(plan_lstm(layer(8, 1), 4, [](int) { return 0; }));
}

TEST(LstmPlan, SharesTheBatch) {
  EXPECT_EQ(plan(layer(256, 16))->share.items, 1);
  EXPECT_EQ(plan(layer(256, 16))->clusters, 16);
  EXPECT_EQ(plan(layer(256, 16, 2))->share.items, 2);
  EXPECT_EQ(plan(layer(512, 16))->share.items, 2);
  EXPECT_EQ(plan(layer(512, 1))->share.staged, 4);
  EXPECT_EQ(plan(layer(256, 1000))->share.items, 16);
}

TEST(LstmPlan, HoldsEverything) {
  for (const int64_t hidden : {1, 7, 33, 100, 256, 300, 512, 700, 1024})
    for (const int64_t batch : {1, 2, 5, 16, 33, 1000})
      for (const int64_t weight_bytes : {2, 4})
        for (const int64_t directions : {1, 2}) {
          const auto p = plan(layer(hidden, batch, directions), weight_bytes);
          ASSERT_TRUE(p);
          const LstmForm& form = kLstmForms[p->form];
          EXPECT_GE(p->share.units * form.blocks, hidden);
          EXPECT_LE(p->threads, static_cast<unsigned>(form.threads));
          EXPECT_EQ(p->share.groups, ceil_div(hidden, kLstmGroup));
          EXPECT_LE(p->shared_bytes, 227u * 1024 - 1024);
          EXPECT_GE(p->clusters * p->share.items, batch);
          EXPECT_LT((p->clusters - 1) * p->share.items, batch);
        }
}

}  // namespace
}  // namespace gpukit::cuda
