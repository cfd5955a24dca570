#include "tempera/data/recipe.h"

#include <filesystem>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/base/random.h"
#include "tempera/data/dataset.h"

namespace tempera::data {
namespace {

using graph::DataType;
using graph::Dim;
using graph::Shape;
using graph::ValueType;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFull = R"(version = 1
task = "super_resolution"
description = "a \"quoted\" name, a back\\slash and a tab\t"

[input.LR]
kind = "image"
range = [-1, 1]
mean = [0.485, 0.456, 0.406]
std = 0.5
layout = "NHWC"
channels = "BGR"
resize = { short_side = 256, kernel = "lanczos" }
crop = { width = 224, height = 200 }
samples = { crops = 8, zoom = [0.5, 1.0], size = { width = 128, height = 96 }, reduce = 4 }

[input."odd name/0"]
kind = "array"
key = "other"

[input.sigma]
kind = "constant"
value = [80, 0.5]
shape = [2]

[input.z]
kind = "random"
distribution = "uniform"
low = -2
high = 3.5
shape = [1, 1, 128, 128]

[output.SR]
meaning = "image"
metric = "psnr_y"
border = 4
expected = "source"
range = [0, 1]

[output.logits]
meaning = "logits"
labels = "labels.txt"
unit = "nat"

[data]
samples = "leading_axis"
blocks = 8

[calibrate]
timestep = "z"

[tile]
scale = 4
size = 192
context = 24
feather = 10
fixed_size = true

[deploy]
engine = "openvino"
device = "cpu"
precision = "bf16"
threads = 2

[deploy.shapes]
LR = [1, 3, 128, 128]

[deploy.properties]
PERFORMANCE_HINT = "LATENCY"
)";

std::string message_of(const std::string& text, std::span<const std::string> metrics = {}) {
  try {
    (void)parse_recipe(text, "x.recipe.toml", metrics);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

TEST(RecipeTest, EveryKeyIsRead) {
  const Recipe recipe = parse_recipe(kFull);
  EXPECT_EQ(recipe.task, "super_resolution");
  EXPECT_EQ(recipe.description, "a \"quoted\" name, a back\\slash and a tab\t");
  ASSERT_NE(recipe.input("LR"), nullptr);
  const auto& image = std::get<ImageSource>(recipe.input("LR")->source);
  EXPECT_EQ(image.format.low, -1);
  EXPECT_EQ(image.format.high, 1);
  EXPECT_THAT(image.format.mean, ElementsAre(0.485, 0.456, 0.406));
  EXPECT_THAT(image.format.std, ElementsAre(0.5));
  EXPECT_EQ(image.format.layout, image::Layout::kNhwc);
  EXPECT_EQ(image.format.channels, image::ChannelOrder::kBgr);
  EXPECT_EQ(image.fit.short_side, 256);
  EXPECT_EQ(image.fit.kernel, image::ResizeKernel::kLanczos);
  EXPECT_EQ(image.fit.crop->width, 224);
  EXPECT_EQ(image.fit.crop->height, 200);
  EXPECT_EQ(image.sampling.crops, 8);
  EXPECT_EQ(image.sampling.zoom->min, 0.5);
  EXPECT_EQ(image.sampling.size->width, 128);
  EXPECT_EQ(image.sampling.size->height, 96);
  EXPECT_EQ(image.sampling.reduce, 4);
  EXPECT_EQ(std::get<ArraySource>(recipe.input("odd name/0")->source).key, "other");
  EXPECT_THAT(std::get<ConstantSource>(recipe.input("sigma")->source).values, ElementsAre(80, 0.5));
  const auto& random = std::get<RandomSource>(recipe.input("z")->source);
  EXPECT_EQ(random.distribution, RandomSource::Distribution::kUniform);
  EXPECT_EQ(random.low, -2);
  EXPECT_EQ(random.high, 3.5);
  EXPECT_THAT(random.shape, ElementsAre(1, 1, 128, 128));
  ASSERT_NE(recipe.output("SR"), nullptr);
  EXPECT_EQ(recipe.output("SR")->metric, "psnr_y");
  EXPECT_EQ(recipe.output("SR")->border, 4);
  EXPECT_EQ(recipe.output("SR")->expected, "source");
  EXPECT_EQ(recipe.output("logits")->labels, "labels.txt");
  EXPECT_EQ(recipe.data.samples, DataRecipe::Samples::kLeading);
  EXPECT_EQ(recipe.data.blocks, 8);
  EXPECT_EQ(recipe.calibrate.timestep, "z");
  EXPECT_EQ(recipe.tile->scale, 4);
  EXPECT_EQ(recipe.tile->size, 192);
  EXPECT_TRUE(recipe.tile->fixed_size);
  EXPECT_EQ(recipe.deploy.precision, "bf16");
  EXPECT_EQ(recipe.deploy.threads, 2);
  EXPECT_THAT(recipe.deploy.shapes.at("LR"), ElementsAre(1, 3, 128, 128));
  EXPECT_EQ(recipe.deploy.properties.at("PERFORMANCE_HINT"), "LATENCY");
}

TEST(RecipeTest, WritingThenReadingKeepsEverything) {
  const std::string once = to_toml(parse_recipe(kFull));
  EXPECT_EQ(to_toml(parse_recipe(once)), once);
  for (const char* piece :
       {"short_side = 256", "crops = 8", "zoom = [0.5, 1]", "reduce = 4", "[input.\"odd name/0\"]",
        "blocks = 8", "timestep = \"z\"", "context = 24", "PERFORMANCE_HINT = \"LATENCY\"", "mean = [0.485, 0.456, 0.406]",
        "value = [80, 0.5]", "high = 3.5", "border = 4", "unit = \"nat\"", "\\u0009"}) {
    EXPECT_THAT(once, HasSubstr(piece));
  }
  EXPECT_EQ(to_toml(parse_recipe("version = 1")), "version = 1\ntask = \"other\"\n");
}

TEST(RecipeTest, UnknownKeysAreErrorsWithTheNearestNamesAndTheirLine) {
  EXPECT_EQ(message_of("version = 1\ntsak = \"other\"\n"),
            "x.recipe.toml has a problem\n"
            "  line 2, column 1: in the recipe: unknown key 'tsak': the nearest are 'task', 'tile', 'data'");
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"image\"\nrnage = [0, 1]\n"),
              HasSubstr("line 4, column 1: in [input.x]: unknown key 'rnage': the nearest are 'range'"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"image\"\ncrop = { widht = 3, height = 3 }\n"),
              HasSubstr("unknown key 'widht'"));
  EXPECT_THAT(message_of("version = 1\n[deploy]\nprecison = \"f32\"\n"), HasSubstr("'precison'"));
  EXPECT_THAT(message_of("version = 1\n[output.y]\nlayout = \"NCHW\"\n"), HasSubstr("meaning = \"image\""));
}

TEST(RecipeTest, AllProblemsComeTogetherInOrder) {
  EXPECT_EQ(
      message_of(R"(version = 1
task = "superresolution"
[input.x]
kind = "picture"
[input.y]
kind = "image"
range = [1, 1]
std = 0
resize = { width = 5 }
[tile]
size = 10
context = 5
)"),
      "x.recipe.toml has 6 problems\n"
      "  line 2, column 8: unknown task 'superresolution': the nearest are 'super_resolution', "
      "'image_generation', "
      "'docking'\n"
      "  line 4, column 8: unknown kind of input 'picture': the nearest are 'image', 'array', 'constant'\n"
      "  line 7, column 9: 'range' must be two different numbers: the values of black and of white\n"
      "  line 8, column 7: 'std' must not be 0\n"
      "  line 9, column 10: 'resize' needs either short_side, or width and height\n"
      "  line 11, column 8: 'size' must be above 2 context + feather = 18");
}

TEST(RecipeTest, WrongKindsAndLimitsAreErrors) {
  EXPECT_THAT(message_of(""), HasSubstr("'version = 1' is missing"));
  EXPECT_THAT(message_of("version = 2"), HasSubstr("'version' must be a whole number from 1 to 1"));
  EXPECT_THAT(message_of("version = 1\nversion = 1"), HasSubstr("line 2"));
  EXPECT_THAT(message_of("version = 1\ninput = 3"), HasSubstr("'input' must be a table"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nrange = [0, 1]"), HasSubstr("[input.x] needs 'kind'"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"constant\""), HasSubstr("needs 'value'"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"constant\"\nvalue = nan"), HasSubstr("finite"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"random\"\nstd = -1"), HasSubstr("negative"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"image\"\nmean = [1, 2]"), HasSubstr("3 channels"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"image\"\nsamples = { crops = 0 }"),
              HasSubstr("1 to 10000"));
  EXPECT_THAT(message_of("version = 1\n[input.x]\nkind = \"image\"\nsamples = { zoom = [0.5, 2] }"),
              HasSubstr("max <= 1"));
  EXPECT_THAT(message_of("version = 1\n[output.y]\nlabels = \"../../etc/passwd\""),
              HasSubstr("beside the recipe"));
  EXPECT_THAT(message_of("version = 1\n[output.y]\nlabels = \"/etc/passwd\""),
              HasSubstr("beside the recipe"));
  EXPECT_THAT(message_of("version = 1\n[deploy.shapes]\nx = [1, -1]"), HasSubstr("whole numbers from 0"));
  EXPECT_THAT(message_of("version = 1\n[deploy]\nprecision = \"int8\""),
              HasSubstr("unknown precision 'int8'"));
  EXPECT_THAT(message_of("version = 1\nx = "), HasSubstr("line 2"));
  EXPECT_THAT(message_of(std::string("version = 1\n\xff\n")), HasSubstr("utf-8"));
}

TEST(RecipeTest, MetricsAreCheckedWhenTheyAreKnown) {
  const std::vector<std::string> metrics = {"psnr", "psnr_y", "ssim"};
  EXPECT_EQ(message_of("version = 1\n[output.y]\nmetric = \"psnry\""), "no error");
  EXPECT_THAT(message_of("version = 1\n[output.y]\nmetric = \"psnry\"", metrics),
              HasSubstr("unknown metric 'psnry': the nearest are 'psnr', 'psnr_y'"));
}

TEST(RecipeTest, ACommandAndItsMetricGoTogether) {
  const std::string head = "version = 1\n[output.y]\n";
  for (const std::string metric : {"command_lower", "command_higher"}) {
    const Recipe recipe = parse_recipe(head + "metric = \"" + metric + "\"\ncommand = [\"./a b.py\", \"-x\\\"\"]");
    EXPECT_THAT(recipe.output("y")->command, ElementsAre("./a b.py", "-x\""));
    const Recipe again = parse_recipe(to_toml(recipe));
    EXPECT_EQ(again.output("y")->metric, metric);
    EXPECT_EQ(again.output("y")->command, recipe.output("y")->command);
    EXPECT_THAT(message_of(head + "metric = \"" + metric + "\""),
                HasSubstr("line 3, column 10: metric '" + metric + "' needs 'command'"));
  }
  const std::string command = head + "metric = \"command_lower\"\ncommand = ";
  EXPECT_THAT(message_of(head + "command = [\"./a\"]"), HasSubstr("'command' belongs to metric"));
  EXPECT_THAT(message_of(head + "metric = \"mae\"\ncommand = [\"./a\"]"), HasSubstr("'command' belongs to metric"));
  EXPECT_THAT(message_of(command + "\"./a -x\""), HasSubstr("'command' must be a list of 1 to 256 texts"));
  EXPECT_THAT(message_of(command + "[]"), HasSubstr("'command' must be a list"));
  EXPECT_THAT(message_of(command + "[\"./a\", 1]"), HasSubstr("'command' must be a list"));
  EXPECT_THAT(message_of(command + "[\"./a\\u0000b\"]"), HasSubstr("'command' must be a list"));
  EXPECT_THAT(message_of(command + "[\"\", \"x\"]"), HasSubstr("'command' must begin with a program"));
}

TEST(RecipeTest, AWrittenRecipeStillFindsTheProgram) {
  EXPECT_THAT(absolute_command({"./score.py", "./x"}, "/r/m.recipe.toml"), ElementsAre("/r/score.py", "./x"));
  EXPECT_THAT(absolute_command({"../score.py"}, "/r/s/m.recipe.toml"), ElementsAre("/r/score.py"));
  EXPECT_THAT(absolute_command({"/bin/true"}, "/r/m.recipe.toml"), ElementsAre("/bin/true"));
  EXPECT_THAT(absolute_command({"python3", "a/b.py"}, "/r/m.recipe.toml"), ElementsAre("python3", "a/b.py"));
  const auto folder = std::filesystem::temp_directory_path() / ("recipe_command" + std::to_string(::getpid()));
  Recipe recipe = parse_recipe("version = 1\n[output.y]\nmetric = \"command_lower\"\ncommand = [\"./score.py\"]");
  recipe.path = "/r/m.recipe.toml";
  write_recipe(folder / "model.recipe.toml", recipe);
  EXPECT_THAT(read_recipe(folder / "model.recipe.toml").output("y")->command, ElementsAre("/r/score.py"));
  std::filesystem::remove_all(folder);
}

graph::Graph super_resolution_graph() {
  graph::Graph graph;
  const auto in =
      graph.add_input("LR", ValueType::tensor(DataType::kFloat32, Shape{Dim("n"), 3, Dim("h"), Dim("w")}));
  const auto out = graph.add_node("Identity", {in}, "SR");
  graph.set_type(out, ValueType::tensor(DataType::kFloat32, Shape{Dim("n"), 3, Dim("h4"), Dim("w4")}));
  graph.add_output(out);
  return graph;
}

TEST(RecipeTest, ImagesAreGuessedFromShapesAndSaid) {
  const Recipe recipe = guess_recipe(super_resolution_graph());
  ASSERT_EQ(recipe.inputs.size(), 1U);
  const auto& image = std::get<ImageSource>(recipe.inputs[0].source);
  EXPECT_EQ(image.format.low, 0);
  EXPECT_EQ(image.format.high, 1);
  EXPECT_FALSE(image.fit.short_side.has_value());
  EXPECT_EQ(recipe.outputs.at(0).meaning, "image");
  ASSERT_EQ(recipe.guesses.size(), 2U);
  EXPECT_EQ(recipe.guesses[0],
            "input 'LR' (float[n,3,h,w]) is taken for an RGB image with values from 0 to 1, at its own size");

  graph::Graph graph;
  graph.add_input("x", ValueType::tensor(DataType::kUint8, Shape{1, 224, 224, 3}));
  graph.add_input("ids", ValueType::tensor(DataType::kInt64, Shape{1, 77}));
  const auto weight = graph.add_input("w", ValueType::tensor(DataType::kFloat32, Shape{3}));
  graph.set_constant(weight, graph::Tensor::from<float>({3}, {1, 2, 3}));
  const Recipe other = guess_recipe(graph);
  ASSERT_EQ(other.inputs.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<ArraySource>(other.input("ids")->source));
  const auto& fixed = std::get<ImageSource>(other.input("x")->source);
  EXPECT_EQ(fixed.format.high, 255);
  EXPECT_EQ(fixed.format.layout, image::Layout::kNhwc);
  EXPECT_EQ(fixed.fit.short_side, 224);
  EXPECT_EQ(fixed.fit.crop->width, 224);
}

TEST(RecipeTest, NamesAndShapesAreCheckedAgainstTheGraph) {
  const auto check = [](const std::string& text) -> std::string {
    try {
      check_recipe(parse_recipe("version = 1\n" + text), super_resolution_graph());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(check("[input.LR]\nkind = \"image\"\n[output.SR]\nmeaning = \"image\"\nexpected = \"source\""),
            "no error");
  EXPECT_THAT(check("[input.lr]\nkind = \"image\""), HasSubstr("unknown input 'lr': the nearest are 'LR'"));
  EXPECT_THAT(check("[output.sr]\n"), HasSubstr("unknown output 'sr'"));
  EXPECT_THAT(check("[input.LR]\nkind = \"image\"\nchannels = \"grey\""),
              HasSubstr("an image of 1 channel in NCHW layout does not fit float[n,3,h,w]"));
  EXPECT_THAT(check("[deploy.shapes]\nLR = [1, 4, 8, 8]"),
              HasSubstr("[1,4,8,8] does not fit the input's [n,3,h,w]"));
  EXPECT_THAT(check("[output.SR]\nexpected = \"source\""), HasSubstr("needs an input of kind \"image\""));
}

TEST(RecipeTest, RecipeFilesStandBesideTheModel) {
  EXPECT_EQ(recipe_path("a/b.onnx"), "a/b.recipe.toml");
  EXPECT_EQ(recipe_path("a/b.v2.onnx"), "a/b.v2.recipe.toml");
}

TEST(RecipeTest, LabelsTravelWithTheRecipe) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("tempera_recipe_test_" + std::to_string(::getpid()));
  write_text_file(folder / "a/m.recipe.toml", "version = 1\n[output.y]\nlabels = \"labels.txt\"\n");
  try {
    (void)read_recipe(folder / "a/m.recipe.toml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.text(), HasSubstr("labels.txt"));
  }
  write_text_file(folder / "a/labels.txt", "cat\ndog\n");
  const Recipe recipe = read_recipe(folder / "a/m.recipe.toml");
  write_recipe(folder / "b/m.recipe.toml", recipe);
  write_recipe(folder / "a/m.recipe.toml", recipe);  // onto itself
  EXPECT_EQ(read_text_file(folder / "b/labels.txt"), "cat\ndog\n");
  EXPECT_EQ(read_text_file(folder / "a/labels.txt"), "cat\ndog\n");
  EXPECT_EQ(to_toml(read_recipe(folder / "b/m.recipe.toml")), to_toml(recipe));
  std::filesystem::remove_all(folder);
}

TEST(RecipeTest, ChangedTextsNeverCrash) {
  const std::string good = kFull;
  const CounterRng rng(9);
  for (std::uint64_t i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (std::uint64_t change = 0; change <= rng.below(16 * i, 4); ++change) {
      const std::size_t at = rng.below(16 * i + 2 * change + 1, bad.size());
      switch (rng.below(16 * i + 2 * change + 2, 3)) {
        case 0: bad[at] = static_cast<char>(rng.bits(16 * i + change)); break;
        case 1: bad.erase(at, 1 + at % 40); break;
        default: bad.insert(at, bad.substr(at / 2, at % 60)); break;
      }
    }
    try {
      const Recipe recipe = parse_recipe(bad);
      EXPECT_EQ(to_toml(parse_recipe(to_toml(recipe))), to_toml(recipe)) << bad;
    } catch (const Error&) {  // the only exception that may come
    }
  }
}

}  // namespace
}  // namespace tempera::data
