#include "tempera/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/data/npz.h"
#include "tempera/image/codec.h"

namespace tempera::data {
namespace {

namespace fs = std::filesystem;
using graph::DataType;
using graph::Dim;
using graph::Dims;
using graph::Shape;
using graph::Tensor;
using graph::ValueType;
using testing::ElementsAre;
using testing::HasSubstr;

graph::Graph make_graph(const std::vector<std::pair<std::string, ValueType>>& inputs,
                        const std::vector<std::pair<std::string, ValueType>>& outputs = {}) {
  graph::Graph graph;
  graph::ValueId last;
  for (const auto& [name, type] : inputs) {
    last = graph.add_input(name, type);
  }
  for (const auto& [name, type] : outputs) {
    const auto out = graph.add_node("Identity", {last}, name);
    graph.set_type(out, type);
    graph.add_output(out);
  }
  return graph;
}

ValueType images(std::int64_t height = -1, std::int64_t width = -1) {
  const auto side = [](std::int64_t n, const char* name) { return n < 0 ? Dim(name) : Dim(n); };
  return ValueType::tensor(DataType::kFloat32, Shape{Dim("n"), 3, side(height, "h"), side(width, "w")});
}

/// A picture whose red value is its column and green value its row, so that a crop's place can be read from
/// it.
image::Image ruler(int width, int height, float blue = 0) {
  image::Image picture(width, height, 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      picture.at(x, y, 0) = static_cast<float>(x);
      picture.at(x, y, 1) = static_cast<float>(y);
      picture.at(x, y, 2) = blue;
    }
  }
  return picture;
}

Tensor ramp(Dims dims) {
  std::vector<float> values(static_cast<std::size_t>(graph::element_count(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  return Tensor::from<float>(std::move(dims), std::span<const float>(values));
}

class DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("tempera_dataset_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<Dataset> open(const std::string& recipe, const graph::Graph& graph,
                                const DatasetOptions& options = {}) {
    return open_dataset({folder_}, parse_recipe("version = 1\n" + recipe), graph, options);
  }

  std::string message_of(const std::string& recipe, const graph::Graph& graph) {
    try {
      const auto dataset = open(recipe, graph);
      for (std::size_t i = 0; i < dataset->samples().size(); ++i) {
        (void)dataset->load(i);
      }
    } catch (const Error& error) {
      return error.text();
    }
    return "no error";
  }

  fs::path folder_;
};

constexpr const char* kRaw = "[input.x]\nkind = \"image\"\nrange = [0, 255]\n";

TEST_F(DatasetTest, PicturesAreFoundRecursivelyInTheOrderOfTheirNames) {
  image::save(folder_ / "b.png", ruler(8, 8));
  image::save(folder_ / "sub" / "c.png", ruler(8, 9));
  image::save(folder_ / "a.png", ruler(8, 10));
  image::save(folder_ / ".hidden" / "d.png", ruler(8, 8));
  write_text_file(folder_ / "notes.txt", "no data");
  const auto dataset = open(kRaw, make_graph({{"x", images()}}));
  ASSERT_EQ(dataset->samples().size(), 3U);
  EXPECT_EQ(dataset->samples()[0].name, "a.png");
  EXPECT_EQ(dataset->samples()[1].name, "b.png");
  EXPECT_EQ(dataset->samples()[2].name, "sub/c.png");
  EXPECT_EQ(dataset->load(0).inputs[0].dims(), (Dims{1, 3, 10, 8}));
  EXPECT_EQ(dataset->load(2).inputs[0].dims(), (Dims{1, 3, 9, 8}));
}

TEST_F(DatasetTest, CropsStartInTheMiddleAndDependOnSeedAndContentAlone) {
  image::save(folder_ / "a.png", ruler(100, 60));
  const std::string recipe =
      std::string(kRaw) + "samples = { crops = 5, size = { width = 16, height = 8 } }\n";
  const auto dataset = open(recipe, make_graph({{"x", images()}}));
  ASSERT_EQ(dataset->samples().size(), 5U);
  EXPECT_EQ(dataset->sources().size(), 1U);
  std::vector<Tensor> crops;
  for (std::size_t i = 0; i < 5; ++i) {
    crops.push_back(dataset->load(i).inputs[0]);
  }
  const Tensor& middle = crops[0];
  ASSERT_EQ(middle.dims(), (Dims{1, 3, 8, 16}));
  EXPECT_EQ(middle.values<float>()[0], 42);                    // (100 - 16) / 2
  EXPECT_EQ(middle.values<float>()[std::size_t{8} * 16], 26);  // (60 - 8) / 2
  fs::rename(folder_ / "a.png", folder_ / "renamed.png");
  const auto again = open(recipe, make_graph({{"x", images()}}));
  DatasetOptions other_seed;
  other_seed.seed = 1;
  const auto other = open(recipe, make_graph({{"x", images()}}), other_seed);
  int differing = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(crops[i].same_bytes(again->load(i).inputs[0]));
    differing += crops[i].same_bytes(other->load(i).inputs[0]) ? 0 : 1;
  }
  EXPECT_GE(differing, 3);
  EXPECT_EQ(dataset->hash(), again->hash());
}

TEST_F(DatasetTest, ReducedSamplesExpectThePictureTheyWereMadeFrom) {
  image::save(folder_ / "small.png", image::Image(20, 20, 3, 100));
  const std::string recipe =
      "[input.x]\nkind = \"image\"\nsamples = { crops = 2, size = { width = 8, height = 8 }, reduce = 4 }\n"
      "[output.y]\nmeaning = \"image\"\nexpected = \"source\"\n";
  const auto dataset = open(recipe, make_graph({{"x", images()}}, {{"y", images()}}));
  const Sample sample = dataset->load(1);
  EXPECT_EQ(sample.inputs[0].dims(), (Dims{1, 3, 8, 8}));  // 32 x 32 cut from the mirrored 20 x 20
  ASSERT_TRUE(sample.expected.contains("y"));
  EXPECT_EQ(sample.expected.at("y").dims(), (Dims{1, 3, 32, 32}));
  EXPECT_EQ(sample.expected.at("y").values<float>()[0], 100.0F / 255);
  EXPECT_EQ(sample.inputs[0].values<float>()[5], 100.0F / 255);
}

TEST_F(DatasetTest, WholeFilesAreFittedButNotCut) {
  image::save(folder_ / "a.png", ruler(100, 60));
  const std::string recipe =
      std::string(kRaw) + "samples = { crops = 5, zoom = [0.5, 1.0], size = { width = 16, height = 8 } }\n";
  DatasetOptions options;
  options.whole_files = true;
  EXPECT_EQ(open(recipe, make_graph({{"x", images()}}), options)->load(0).inputs[0].dims(),
            (Dims{1, 3, 60, 100}));
  const std::string fitted =
      std::string(kRaw) + "resize = { short_side = 32 }\ncrop = { width = 28, height = 28 }\n";
  EXPECT_EQ(open(fitted, make_graph({{"x", images(28, 28)}}), options)->load(0).inputs[0].dims(),
            (Dims{1, 3, 28, 28}));
}

TEST_F(DatasetTest, FolderNamesAreClasses) {
  image::save(folder_ / "dog" / "1.png", ruler(8, 8));
  image::save(folder_ / "7" / "2.png", ruler(8, 8, 9));
  write_text_file(folder_ / "m.recipe.toml",
                  "version = 1\n[input.x]\nkind = \"image\"\n[output.y]\nexpected = \"folder\"\nlabels = "
                  "\"labels.txt\"\n");
  write_text_file(folder_ / "labels.txt", "cat\ndog\r\n");
  const graph::Graph graph = make_graph({{"x", images()}}, {{"y", ValueType::tensor(DataType::kFloat32)}});
  const auto dataset = open_dataset({folder_}, read_recipe(folder_ / "m.recipe.toml"), graph);
  EXPECT_THAT(graph::to_int64s(dataset->load(0).expected.at("y")), ElementsAre(7));
  EXPECT_THAT(graph::to_int64s(dataset->load(1).expected.at("y")), ElementsAre(1));
  image::save(folder_ / "dgo" / "1.png", ruler(8, 8));
  try {
    (void)open_dataset({folder_ / "dgo"}, read_recipe(folder_ / "m.recipe.toml"), graph)->load(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.text(), HasSubstr("unknown label 'dgo': the nearest are 'dog'"));
  }
}

TEST_F(DatasetTest, ArchivesFillInputsAndExpectedOutputsByName) {
  const graph::Graph graph =
      make_graph({{"species", ValueType::tensor(DataType::kInt64, Shape{Dim("b"), Dim("n")})},
                  {"xyz", ValueType::tensor(DataType::kFloat32, Shape{Dim("b"), Dim("n"), 3})}},
                 {{"energy", ValueType::tensor(DataType::kFloat64, Shape{Dim("b")})}});
  write_npz(folder_ / "a.npz", {{"species", Tensor::from<std::int8_t>({4, 2}, {0, 1, 2, 3, 4, 5, 6, -1})},
                                {"xyz", ramp({4, 2, 3})},
                                {"energy", Tensor::from<double>({4}, {1, 2, 3, 4})},
                                {"more", ramp({2})}});
  const auto dataset = open("[data]\nblocks = 2\n", graph);
  ASSERT_EQ(dataset->samples().size(), 4U);
  ASSERT_EQ(dataset->sources().size(), 2U);  // two blocks of the trajectory
  EXPECT_EQ(dataset->sources()[1].name, "a.npz, samples 2 to 3");
  EXPECT_NE(dataset->sources()[0].hash, dataset->sources()[1].hash);
  EXPECT_EQ(dataset->samples()[3].source, 1U);
  const Sample sample = dataset->load(3);
  EXPECT_EQ(sample.name, "a.npz, sample 3");
  EXPECT_EQ(sample.inputs[0].type(), DataType::kInt64);
  EXPECT_EQ(sample.inputs[0].dims(), (Dims{1, 2}));
  EXPECT_THAT(graph::to_int64s(sample.inputs[0]), ElementsAre(6, -1));
  EXPECT_EQ(sample.inputs[1].dims(), (Dims{1, 2, 3}));
  EXPECT_EQ(sample.inputs[1].values<float>()[0], 18);
  EXPECT_THAT(graph::to_doubles(sample.expected.at("energy")), ElementsAre(4));

  const auto whole = open("[data]\nsamples = \"file\"\n", graph);
  ASSERT_EQ(whole->samples().size(), 1U);
  EXPECT_EQ(whole->load(0).inputs[1].dims(), (Dims{4, 2, 3}));
  EXPECT_EQ(whole->load(0).expected.at("energy").dims(), (Dims{4}));
}

TEST_F(DatasetTest, AnExtraLeadingAxisHoldsSamples) {
  write_npz(folder_ / "a.npz", {{"x", ramp({3, 2, 5})}, {"t", ramp({3})}});
  const graph::Graph graph = make_graph({{"x", ValueType::tensor(DataType::kFloat32, Shape{2, 5})},
                                         {"t", ValueType::tensor(DataType::kFloat32, Shape{})}});
  const auto dataset = open("", graph);
  ASSERT_EQ(dataset->samples().size(), 3U);
  EXPECT_EQ(dataset->load(2).inputs[0].dims(), (Dims{2, 5}));
  EXPECT_EQ(dataset->load(2).inputs[0].values<float>()[0], 20);
  EXPECT_EQ(dataset->load(2).inputs[1].dims(), Dims{});
  EXPECT_EQ(dataset->load(2).inputs[1].values<float>()[0], 2);
}

TEST_F(DatasetTest, NpyFeedsTheOneInputAndOtherInputsAreMade) {
  write_npy(folder_ / "a.npy", ramp({1, 4}));
  const graph::Graph graph = make_graph({{"x", ValueType::tensor(DataType::kFloat16, Shape{Dim("n"), 4})},
                                         {"sigma", ValueType::tensor(DataType::kFloat32, Shape{Dim("n")})},
                                         {"z", ValueType::tensor(DataType::kFloat32, Shape{Dim("n"), 8})}});
  const std::string recipe =
      "[input.x]\nkind = \"array\"\n[input.sigma]\nkind = \"constant\"\nvalue = 80\n[input.z]\nkind = "
      "\"random\"\nstd = 2\n";
  const Sample sample = open(recipe, graph)->load(0);
  EXPECT_EQ(sample.inputs[0].type(), DataType::kFloat16);
  EXPECT_THAT(graph::to_doubles(sample.inputs[0]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(graph::to_doubles(sample.inputs[1]), ElementsAre(80));
  EXPECT_EQ(sample.inputs[2].dims(), (Dims{1, 8}));
  // A file that holds them wins over the recipe.
  fs::remove(folder_ / "a.npy");
  write_npz(folder_ / "b.npz", {{"x", ramp({1, 4})}, {"sigma", Tensor::from<float>({1}, {7})}});
  EXPECT_THAT(graph::to_doubles(open(recipe, graph)->load(0).inputs[1]), ElementsAre(7));
}

TEST_F(DatasetTest, BadDataNameFileArrayAndElement) {
  const graph::Graph graph =
      make_graph({{"x", ValueType::tensor(DataType::kFloat32, Shape{Dim("n"), 2, 2})}});
  std::vector<float> values = {0, 1, 2, std::numeric_limits<float>::quiet_NaN()};
  write_npz(folder_ / "bad.npz", {{"x", Tensor::from<float>({1, 2, 2}, std::span<const float>(values))}});
  EXPECT_THAT(message_of("", graph), HasSubstr("bad.npz, array 'x': element [0,1,1] is nan"));
  write_npz(folder_ / "bad.npz", {{"x", ramp({1, 2, 3})}});
  EXPECT_THAT(message_of("", graph),
              HasSubstr("bad.npz, array 'x': dimensions [1,2,3] do not fit 'x', which is float[n,2,2]"));
  write_npz(folder_ / "bad.npz", {{"X", ramp({1, 2, 2})}, {"z", ramp({1})}});
  EXPECT_THAT(message_of("", graph), HasSubstr("no array 'x' for input 'x'; the file holds 'X', 'z'"));
  const graph::Graph ids = make_graph({{"x", ValueType::tensor(DataType::kInt64, Shape{Dim("n")})}});
  write_npz(folder_ / "bad.npz", {{"x", Tensor::from<float>({1}, {1.5F})}});
  EXPECT_THAT(message_of("", ids), HasSubstr("element [0] is 1.5, which int64 cannot hold"));
  write_npz(folder_ / "bad.npz", {{"x", ramp({1, 2, 2})}});
  EXPECT_THAT(message_of("[deploy.shapes]\nx = [4, 2, 2]\n", graph),
              HasSubstr("[1,2,2] are not those that the recipe deploys"));
  write_text_file(folder_ / "bad.npz", "no archive");
  EXPECT_THAT(message_of("", graph), HasSubstr("in: data file"));
}

TEST_F(DatasetTest, WhatIsMissingOrAmbiguousIsSaid) {
  const graph::Graph picture = make_graph({{"x", images()}});
  EXPECT_THAT(message_of(kRaw, picture), HasSubstr("holds no pictures"));
  image::save(folder_ / "a.png", ruler(8, 8));
  EXPECT_THAT(message_of("[input.x]\nkind = \"array\"\n", picture),
              HasSubstr("the recipe says it is an array"));
  EXPECT_THAT(message_of(std::string(kRaw) + "channels = \"grey\"\n", picture), HasSubstr("do not fit 'x'"));
  try {
    (void)open_dataset({}, parse_recipe(std::string("version = 1\n") + kRaw), picture);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.text(), HasSubstr("input 'x' needs data"));
  }
  try {
    (void)open_dataset({folder_ / "none"}, parse_recipe(std::string("version = 1\n") + kRaw), picture);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

TEST_F(DatasetTest, RandomSamplesAreSeededAndFollowTheRecipe) {
  const graph::Graph graph = make_graph({{"image", images()},
                                         {"t", ValueType::tensor(DataType::kInt64, Shape{Dim("n")})},
                                         {"z", ValueType::tensor(DataType::kFloat32, Shape{Dim("n"), 4})},
                                         {"k", ValueType::tensor(DataType::kInt32, Shape{3})}});
  const Recipe recipe = parse_recipe(
      "version = 1\n[input.image]\nkind = \"image\"\nrange = [-1, 1]\n[input.k]\nkind = "
      "\"random\"\ndistribution = "
      "\"uniform\"\nlow = 5\nhigh = 6\n[deploy.shapes]\nz = [2, 4]\n");
  DatasetOptions options;
  options.random_samples = 3;
  const auto dataset = random_dataset(recipe, graph, options);
  ASSERT_EQ(dataset->samples().size(), 3U);
  EXPECT_EQ(dataset->sources().size(), 3U);
  const Sample sample = dataset->load(1);
  EXPECT_EQ(sample.inputs[0].dims(), (Dims{1, 3, 128, 128}));
  for (const float value : sample.inputs[0].values<float>()) {
    ASSERT_LE(std::abs(value), 1.0F);
  }
  EXPECT_THAT(graph::to_int64s(sample.inputs[1]), ElementsAre(0));
  EXPECT_EQ(sample.inputs[2].dims(), (Dims{2, 4}));
  for (const std::int64_t value : graph::to_int64s(sample.inputs[3])) {
    EXPECT_TRUE(value == 5 || value == 6);
  }
  EXPECT_TRUE(sample.inputs[2].same_bytes(random_dataset(recipe, graph, options)->load(1).inputs[2]));
  EXPECT_FALSE(sample.inputs[2].same_bytes(dataset->load(2).inputs[2]));
  options.seed = 5;
  EXPECT_FALSE(sample.inputs[2].same_bytes(random_dataset(recipe, graph, options)->load(1).inputs[2]));
}

TEST_F(DatasetTest, RandomTimestepsFallIntoEqualPartsOfTheirRangeOnceEach) {
  const graph::Graph graph = make_graph({{"x", ValueType::tensor(DataType::kFloat32, Shape{1, 4})},
                                         {"t", ValueType::tensor(DataType::kInt64, Shape{1})},
                                         {"sigma", ValueType::tensor(DataType::kFloat32, Shape{1})}});
  const std::string inputs =
      "version = 1\n[input.x]\nkind = \"random\"\n[input.t]\nkind = \"random\"\ndistribution = \"uniform\"\n"
      "low = 0\nhigh = 999\n[input.sigma]\nkind = \"random\"\ndistribution = \"uniform\"\nlow = 2\nhigh = 4\n";
  DatasetOptions options;
  options.random_samples = 20;
  options.seed = 5;
  const auto first_of_each = [&](const Recipe& recipe, std::size_t input) {
    const auto dataset = random_dataset(recipe, graph, options);
    std::vector<double> values;
    for (std::size_t i = 0; i < 20; ++i) {
      values.push_back(graph::to_doubles(dataset->load(i).inputs[input])[0]);
    }
    return values;
  };
  for (const std::uint64_t seed : {5U, 6U}) {
    options.seed = seed;
    std::vector<double> t = first_of_each(parse_recipe(inputs + "[calibrate]\ntimestep = \"t\"\n"), 1);
    EXPECT_FALSE(std::is_sorted(t.begin(), t.end()));
    std::sort(t.begin(), t.end());
    std::vector<double> sigma = first_of_each(parse_recipe(inputs + "[calibrate]\ntimestep = \"sigma\"\n"), 2);
    std::sort(sigma.begin(), sigma.end());
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_GE(t[i], 50.0 * static_cast<double>(i));
      EXPECT_LT(t[i], 50.0 * static_cast<double>(i + 1));
      EXPECT_GE(sigma[i], 2.0 + 0.1 * static_cast<double>(i) - 1e-6);
      EXPECT_LT(sigma[i], 2.0 + 0.1 * static_cast<double>(i + 1) + 1e-6);
    }
  }
  const Recipe plain = parse_recipe(inputs);
  const Recipe stratified = parse_recipe(inputs + "[calibrate]\ntimestep = \"t\"\n");
  EXPECT_NE(first_of_each(plain, 1), first_of_each(stratified, 1));
  EXPECT_EQ(first_of_each(plain, 2), first_of_each(stratified, 2));
  EXPECT_EQ(first_of_each(stratified, 1), first_of_each(stratified, 1));
  EXPECT_THROW(check_recipe(parse_recipe(inputs + "[calibrate]\ntimestep = \"x\"\n"), graph), Error);
  EXPECT_THROW(check_recipe(parse_recipe(inputs + "[calibrate]\ntimestep = \"q\"\n"), graph), Error);
  EXPECT_NO_THROW(check_recipe(stratified, graph));
}

TEST_F(DatasetTest, InputsWithInitialisersAreLeftOut) {
  graph::Graph graph = make_graph({{"x", images()}, {"w", ValueType::tensor(DataType::kFloat32, Shape{1})}});
  graph.set_constant(*graph.find_value("w"), ramp({1}));
  EXPECT_THAT(required_inputs(graph), ElementsAre("x"));
  image::save(folder_ / "a.png", ruler(8, 8));
  EXPECT_EQ(open(kRaw, graph)->load(0).inputs.size(), 1U);
}

}  // namespace
}  // namespace tempera::data
