#include "tempera/data/prefetch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::data {
namespace {

/// Sample i is named "i" and takes longer to load the smaller i mod 5 is, so that results come out of order.
class SlowDataset final : public Dataset {
 public:
  explicit SlowDataset(std::size_t size, std::size_t bad = ~std::size_t{0}) : samples_(size), bad_(bad) {}
  [[nodiscard]] const std::vector<SampleInfo>& samples() const override { return samples_; }
  [[nodiscard]] const std::vector<Source>& sources() const override { return sources_; }
  [[nodiscard]] Sample load(std::size_t index) const override {
    const int now = ++loading_;
    most_ = std::max(most_.load(), now);
    ++loads_;
    std::this_thread::sleep_for(std::chrono::milliseconds(5 - index % 5));
    --loading_;
    if (index == bad_) {
      throw Error(ErrorCode::kIo, "sample cannot be read");
    }
    Sample sample;
    sample.name = std::to_string(index);
    return sample;
  }

  mutable std::atomic<int> loads_ = 0;
  mutable std::atomic<int> most_ = 0;

 private:
  std::vector<SampleInfo> samples_;
  std::vector<Source> sources_;
  std::size_t bad_;
  mutable std::atomic<int> loading_ = 0;
};

TEST(PrefetchTest, OrderIsThatAskedForWhateverTheNumberOfWorkers) {
  const SlowDataset dataset(20);
  const std::vector<std::size_t> order = {3, 0, 19, 7, 7, 1, 2, 4, 5, 6};
  for (const int workers : {1, 2, 8, 100}) {
    const std::vector<Sample> samples = load_all(dataset, order, workers);
    ASSERT_EQ(samples.size(), order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(samples[i].name, std::to_string(order[i]));
    }
  }
  EXPECT_TRUE(load_all(dataset, {}, 4).empty());
}

TEST(PrefetchTest, WorkersRunTogetherButNotFarAhead) {
  const SlowDataset dataset(50);
  std::vector<std::size_t> order(50);
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  Prefetcher prefetcher(dataset, order, 3);
  (void)prefetcher.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(dataset.loads_, 1 + 2 * 3);
  EXPECT_GE(dataset.most_, 2);
}

TEST(PrefetchTest, ErrorsComeAtTheirPlace) {
  const SlowDataset dataset(10, 2);
  Prefetcher prefetcher(dataset, {0, 1, 2, 3}, 4);
  EXPECT_EQ(prefetcher.next()->name, "0");
  EXPECT_EQ(prefetcher.next()->name, "1");
  EXPECT_THROW((void)prefetcher.next(), Error);
  EXPECT_EQ(prefetcher.next()->name, "3");
  EXPECT_FALSE(prefetcher.next().has_value());
}

TEST(PrefetchTest, CancellingAndLeavingEarlyEnd) {
  const SlowDataset dataset(1000);
  std::vector<std::size_t> order(1000, 0);
  const CancelToken cancel;
  {
    Prefetcher prefetcher(dataset, order, 4, cancel);
    (void)prefetcher.next();
    cancel.cancel();
    EXPECT_THROW((void)prefetcher.next(), Error);
  }
  EXPECT_LT(dataset.loads_, 100);
  EXPECT_GE(default_workers(), 1);
  EXPECT_LE(default_workers(), 8);
}

}  // namespace
}  // namespace tempera::data
