#include "tempera/compress/prune/channels.h"

#include "tempera/compress/prune/test_support.h"

namespace tempera::compress {
namespace {

using testing::parse;
using testing::shape;

// Two layers of 4 and 8 channels whose importance is set by their weights.
graph::Model two_layers() {
  return parse(R"(
    g (float[1,1,2,2] x, float[4,1,1,1] w1, float[8,4,1,1] w2, float[1,8,1,1] w3) => (float[1,1,2,2] y) {
      a = Conv(x, w1)
      b = Conv(a, w2)
      y = Conv(b, w3)
    })",
               17, {"w1", "w2", "w3"});
}

void set_weight(graph::Model& model, std::string_view name, const std::vector<float>& numbers) {
  const graph::ValueId id = model.graph.find_value(name).value();
  model.graph.set_constant(
      id, graph::Tensor::from<float>(model.graph.constant(id)->dims(), std::span<const float>(numbers)));
}

TEST(ChannelsTest, ImportanceIsTheNormOverAllWeightsOfTheGroup) {
  graph::Model model = parse(R"(
    g (float[1,1,2,2] x, float[3,1,1,1] w, float[2,3,1,1] u) => (float[1,2,2,2] y) {
      a = Conv(x, w)
      y = Conv(a, u)
    })",
                             17, {"w", "u"});
  set_weight(model, "w", {1, -2, 3});
  set_weight(model, "u", {3, 0, 4, 4, -1, 3});
  const Coupling coupling(model, {});
  // L1: 1 + 7, 2 + 1, 3 + 7; mean 7.  L2: 1 + 5, 2 + 1, 3 + 5; mean 17/3
  const auto l1 = find_groups(coupling, WeightNorm::kL1);
  ASSERT_EQ(l1.size(), 1U);
  EXPECT_DOUBLE_EQ(l1[0].importance[0], 8.0 / 7.0);
  EXPECT_DOUBLE_EQ(l1[0].importance[1], 3.0 / 7.0);
  const auto l2 = find_groups(coupling, WeightNorm::kL2);
  EXPECT_DOUBLE_EQ(l2[0].importance[0], 6.0 / (17.0 / 3.0));
  EXPECT_DOUBLE_EQ(l2[0].importance[2], 8.0 / (17.0 / 3.0));
}

TEST(ChannelsTest, TheLeastImportantGoAndAmongEqualsTheLater) {
  graph::Model model = two_layers();
  set_weight(model, "w1", {1, 5, 1, 1});
  set_weight(model, "w2", std::vector<float>(32, 0.5F));
  set_weight(model, "w3", {1, 1, 1, 9, 1, 9, 9, 9});
  ChannelOptions options;
  options.pruning_ratio = 0.5;
  const graph::Model pruned = prune_channels(model, options).model;
  const auto w1 = pruned.graph.constant(pruned.graph.find_value("w1").value()).value();
  const auto w3 = pruned.graph.constant(pruned.graph.find_value("w3").value()).value();
  EXPECT_THAT(w1.values<float>(), ::testing::ElementsAre(1, 5));
  EXPECT_THAT(w3.values<float>(), ::testing::ElementsAre(9, 9, 9, 9));
}

TEST(ChannelsTest, RatioIsRoundedInFavourOfTheModel) {
  const graph::Model model = two_layers();
  ChannelOptions options;
  options.pruning_ratio = 0.3;  // 1.2 of 4, 2.4 of 8
  const auto groups = prune_channels(model, options).groups;
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].channels_after, 3);
  EXPECT_EQ(groups[1].channels_after, 6);
  options.pruning_ratio = 0.99;
  for (const GroupRecord& group : prune_channels(model, options).groups) {
    EXPECT_GE(group.channels_after, 1);
  }
  options.pruning_ratio = 0.0;
  EXPECT_TRUE(graph::same_graph(prune_channels(model, options).model.graph, model.graph));
}

TEST(ChannelsTest, AlignmentRoundsUpAndLeavesSmallGroupsWhole) {
  const graph::Model model = two_layers();
  ChannelOptions options;
  options.pruning_ratio = 0.6;
  options.align = 4;
  const auto groups = prune_channels(model, options).groups;
  EXPECT_EQ(groups[0].channels_after, 4);  // of 4, at least 2 to keep
  EXPECT_EQ(groups[1].channels_after, 4);  // of 8, at least 4 to keep
}

TEST(ChannelsTest, GlobalRankingTakesFromTheGroupWhoseChannelsDifferMost) {
  graph::Model model = two_layers();
  set_weight(model, "w1", {1, 1, 1, 1});
  set_weight(model, "w2", std::vector<float>(32, 0.25F));
  set_weight(model, "w3", {9, 9, 9, 9, 0, 0, 0, 0});
  ChannelOptions options;
  options.pruning_ratio = 4.0 / 12.0;
  options.global = true;
  const auto groups = prune_channels(model, options).groups;
  EXPECT_EQ(groups[0].channels_after, 4);
  EXPECT_EQ(groups[1].channels_after, 4);
}

TEST(ChannelsTest, RefusesWhatCannotBe) {
  const graph::Model model = two_layers();
  ChannelOptions options;
  options.pruning_ratio = 1.0;
  EXPECT_THROW((void)prune_channels(model, options), Error);
  options.pruning_ratio = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW((void)prune_channels(model, options), Error);
  options.pruning_ratio = 0.5;
  options.align = 0;
  EXPECT_THROW((void)prune_channels(model, options), Error);
}

}  // namespace
}  // namespace tempera::compress
