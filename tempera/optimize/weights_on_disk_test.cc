#include "tempera/optimize/weights_on_disk.h"

#include <filesystem>
#include <numeric>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/file.h"

namespace tempera::optimize {
namespace {

graph::Tensor counting(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  return graph::Tensor::from<float>({count}, values);
}

const std::byte* bytes_of(const graph::Model& model, graph::ValueId id) { return model.graph.value(id).constant->bytes().data(); }

TEST(WeightsOnDiskTest, LargeOnesAreMappedWithTheSameBytesAndSharedOnesOnce) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tempera_weights_on_disk_test_" + std::to_string(::getpid()));
  graph::Model model;
  const graph::Tensor large = counting(20'000);
  const graph::ValueId first = model.graph.add_initializer("first", large);
  const graph::ValueId same = model.graph.add_initializer("same", large.reshaped({200, 100}));
  const graph::ValueId other = model.graph.add_initializer("other", counting(30'000));
  const graph::ValueId small = model.graph.add_initializer("small", counting(100));

  move_weights_to_disk(model, folder);

  EXPECT_TRUE(is_mapped(bytes_of(model, first)));
  EXPECT_TRUE(is_mapped(bytes_of(model, other)));
  EXPECT_FALSE(is_mapped(bytes_of(model, small)));
  EXPECT_EQ(bytes_of(model, first), bytes_of(model, same));
  EXPECT_TRUE(model.graph.value(first).constant->same_bytes(large));
  EXPECT_TRUE(model.graph.value(other).constant->same_bytes(counting(30'000)));
  EXPECT_EQ(model.graph.value(same).constant->dims(), (graph::Dims{200, 100}));

  const std::byte* mapped = bytes_of(model, first);
  move_weights_to_disk(model, folder);
  EXPECT_EQ(bytes_of(model, first), mapped);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(WeightsOnDiskTest, SmallModelsTouchNoDisk) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tempera_weights_untouched_" + std::to_string(::getpid()));
  graph::Model model;
  model.graph.add_initializer("small", counting(100));
  move_weights_to_disk(model, folder);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace tempera::optimize
