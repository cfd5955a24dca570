#include "tempera/data/split.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tempera::data {
namespace {

using testing::HasSubstr;

/// `each` samples from every content; equal contents are equal sources.
class FakeDataset final : public Dataset {
 public:
  FakeDataset(const std::vector<std::string>& contents, int each) {
    for (const std::string& content : contents) {
      sources_.push_back({content, sha256(content)});
      for (int i = 0; i < each; ++i) {
        samples_.push_back({content, sources_.size() - 1});
      }
    }
  }
  [[nodiscard]] const std::vector<SampleInfo>& samples() const override { return samples_; }
  [[nodiscard]] const std::vector<Source>& sources() const override { return sources_; }
  [[nodiscard]] Sample load(std::size_t /*index*/) const override { return {}; }

 private:
  std::vector<SampleInfo> samples_;
  std::vector<Source> sources_;
};

std::set<std::string> contents_of(const Dataset& dataset, const std::vector<std::size_t>& indices) {
  std::set<std::string> names;
  for (const std::size_t i : indices) {
    names.insert(dataset.samples()[i].name);
  }
  return names;
}

TEST(SplitTest, PartsAreDisjointBySourceAndNeverEmptyFromThreeSourcesOn) {
  for (std::size_t count = 3; count < 40; ++count) {
    std::vector<std::string> contents;
    for (std::size_t i = 0; i < count; ++i) {
      contents.push_back("file " + std::to_string(i));
    }
    const FakeDataset dataset(contents, 4);
    const Split split = split_three(dataset);
    EXPECT_TRUE(split.sufficient);
    EXPECT_EQ(split.calibrate.size() + split.search.size() + split.verify.size(), 4 * count);
    std::set<std::string> all;
    std::size_t sum = 0;
    for (const auto* part : {&split.calibrate, &split.search, &split.verify}) {
      const std::set<std::string> names = contents_of(dataset, *part);
      EXPECT_GE(names.size(), count / 3);
      EXPECT_LE(names.size(), count / 3 + 1);
      sum += names.size();
      all.insert(names.begin(), names.end());
    }
    EXPECT_EQ(sum, all.size());
    EXPECT_EQ(all.size(), count);
  }
}

TEST(SplitTest, OrderOfFilesDoesNotMatterAndCopiesStayTogether) {
  const FakeDataset forward({"a", "b", "c", "d"}, 1);
  const FakeDataset backward({"d", "c", "b", "a", "b"}, 1);
  EXPECT_EQ(contents_of(forward, split_three(forward).verify),
            contents_of(backward, split_three(backward).verify));
  EXPECT_EQ(contents_of(forward, split_three(forward).calibrate),
            contents_of(backward, split_three(backward).calibrate));
}

TEST(SplitTest, TooFewSourcesClaimNothing) {
  const FakeDataset dataset({"a", "b", "a"}, 5);  // two contents
  const Split split = split_three(dataset);
  EXPECT_FALSE(split.sufficient);
  EXPECT_THAT(split.reason, HasSubstr("insufficient data: 2 distinct sources"));
  EXPECT_EQ(split.calibrate.size(), 15U);
  EXPECT_EQ(split.verify.size(), 15U);
  EXPECT_FALSE(split_three(FakeDataset({}, 0)).sufficient);
}

}  // namespace
}  // namespace tempera::data
