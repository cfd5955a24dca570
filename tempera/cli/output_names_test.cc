#include "tempera/cli/output_names.h"

#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/file.h"

namespace tempera::cli {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(OutputNames, PlainNamesStayInTheFolder) {
  EXPECT_EQ(plain_name("logits"), "logits");
  EXPECT_EQ(plain_name("head.0-a_B"), "head.0-a_B");
  EXPECT_EQ(plain_name("/out/y"), "_out_y");
  EXPECT_EQ(plain_name("../../x"), "_.._x");
  EXPECT_EQ(plain_name(".hidden"), "hidden");
  EXPECT_EQ(plain_name("a\nb:0\\c"), "a_b_0_c");
  EXPECT_EQ(plain_name("\xC3\xA4\xE2\x82\xAC"), "__");  // one for each character, not for each byte
  EXPECT_EQ(plain_name(std::string("a\0b", 3)), "a_b");
  EXPECT_EQ(plain_name(""), "output");
  EXPECT_EQ(plain_name(".."), "output");
  EXPECT_EQ(plain_name(std::string(5000, 'n')).size(), 100U);
}

TEST(OutputNames, StemsKeepTheNumberOfTheSample) {
  EXPECT_EQ(sample_stem("coffee.png"), "coffee");
  EXPECT_EQ(sample_stem("cups/red cup.v2.png"), "red_cup.v2");
  EXPECT_EQ(sample_stem("frames.npz, sample 3"), "frames_3");
  EXPECT_EQ(sample_stem("coffee.png, crop 12"), "coffee_12");
  EXPECT_EQ(sample_stem("a, sample 3.npy"), "a__sample_3");
  EXPECT_EQ(sample_stem("a.npz, sample "), "a");
  EXPECT_EQ(sample_stem(""), "output");
}

TEST(OutputNames, OnlyLaterOnesOfANameAreNumbered) {
  EXPECT_EQ(distinct({"a", "b"}), (Names{"a", "b"}));
  EXPECT_EQ(distinct({"a", "a", "b", "a"}), (Names{"a", "a_2", "b", "a_3"}));
  EXPECT_EQ(distinct({"a", "a", "a_2"}), (Names{"a", "a_3", "a_2"}));
  EXPECT_EQ(distinct({}), Names{});
}

TEST(OutputNames, EveryFileIsAnother) {
  OutputNames names("out", {"a.jpg", "a.png", "a.b.png"}, {"/c", "_c", "b.d", "d"}, {});
  EXPECT_EQ(names.take(0, std::nullopt, ".png"), "out/a.png");
  EXPECT_EQ(names.take(1, std::nullopt, ".png"), "out/a_2.png");
  EXPECT_EQ(names.take(0, 0, ".npy"), "out/a._c.npy");
  EXPECT_EQ(names.take(0, 1, ".npy"), "out/a._c_2.npy");
  EXPECT_EQ(names.take(0, 2, ".npy"), "out/a.b.d.npy");
  EXPECT_EQ(names.take(2, 3, ".npy"), "out/a.b.d_2.npy");
}

TEST(OutputNames, InputsAreNotOverwritten) {
  const fs::path folder = fs::path(testing::TempDir()) / ("tempera_output_names_" + std::to_string(::getpid()));
  write_text_file(folder / "x.npy", "");
  write_text_file(folder / "old.npy", "");
  OutputNames beside(folder, {"x.npy", "old.npz"}, {"y"}, {folder / "." / "x.npy"});
  EXPECT_EQ(beside.take(0, std::nullopt, ".npy"), folder / "x_2.npy");
  EXPECT_EQ(beside.take(1, std::nullopt, ".npy"), folder / "old.npy");
  OutputNames inside(folder, {"old.npz", "new.npz"}, {"y"}, {folder / ""});
  EXPECT_EQ(inside.take(0, std::nullopt, ".npy"), folder / "old_2.npy");
  EXPECT_EQ(inside.take(1, std::nullopt, ".npy"), folder / "new.npy");
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tempera::cli
