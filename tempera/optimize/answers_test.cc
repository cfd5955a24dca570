#include "tempera/optimize/answers.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tempera/base/file.h"

namespace tempera::optimize {
namespace {

class AnswersTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("answers-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path file() const { return folder_ / "answers.jsonl"; }

  std::filesystem::path folder_;
};

TEST_F(AnswersTest, AnotherRunFindsWhatWasMeasured) {
  Answers first(file(), "model A");
  first.add("layer 1 alone", {0.1, 1e-300});
  first.add("layer 2 alone", {2.0});
  Answers second(file(), "model A");
  EXPECT_EQ(second.find("layer 1 alone"), (std::vector<double>{0.1, 1e-300}));
  EXPECT_EQ(second.find("layer 2 alone"), (std::vector<double>{2.0}));
  EXPECT_EQ(second.find("layer 3 alone"), std::nullopt);
}

TEST_F(AnswersTest, AnotherKeyStartsAnew) {
  Answers(file(), "model A").add("layer 1 alone", {0.1});
  Answers other(file(), "model B");
  EXPECT_EQ(other.size(), 0U);
  other.add("layer 9 alone", {0.5});
  EXPECT_EQ(Answers(file(), "model B").size(), 1U);
  EXPECT_EQ(Answers(file(), "model A").size(), 0U);
}

TEST_F(AnswersTest, ATornLastLineLosesOnlyItself) {
  Answers first(file(), "model A");
  first.add("layer 1 alone", {0.1});
  first.add("layer 2 alone", {0.2});
  const std::string text = read_text_file(file());
  write_text_file(file(), text.substr(0, text.size() - 5));
  Answers second(file(), "model A");
  EXPECT_EQ(second.size(), 1U);
  second.add("layer 3 alone", {0.3});
  Answers third(file(), "model A");
  EXPECT_EQ(third.find("layer 1 alone"), (std::vector<double>{0.1}));
  EXPECT_EQ(third.find("layer 3 alone"), (std::vector<double>{0.3}));
}

TEST_F(AnswersTest, GarbageIsNoAnswer) {
  std::ofstream(file()) << "{\"key\":\"model A\"}\nnot json\n{\"question\":1,\"numbers\":[2]}\n{\"question\":\"q\",\"numbers\":[\"x\"]}\n";
  EXPECT_EQ(Answers(file(), "model A").size(), 0U);
}

TEST_F(AnswersTest, ForgettingRemovesTheFile) {
  Answers answers(file(), "model A");
  answers.add("q", {1.0});
  answers.forget();
  EXPECT_FALSE(std::filesystem::exists(file()));
  EXPECT_EQ(answers.find("q"), std::nullopt);
}

}  // namespace
}  // namespace tempera::optimize
