#include "tempera/quality/command_metric.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/file.h"
#include "tempera/data/npy.h"

namespace tempera::quality {
namespace {

namespace fs = std::filesystem;
using graph::Tensor;
using testing::AllOf;
using testing::HasSubstr;

/// Writes programs into a folder of its own and judges one-element tensors by them.
class CommandMetricTest : public testing::Test {
 protected:
  CommandMetricTest() : folder_(fs::temp_directory_path() / ("command_metric_test" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~CommandMetricTest() override { fs::remove_all(folder_); }

  /// A metric whose program is a shell script.
  std::unique_ptr<Metric> metric(const std::string& script, const std::string& name = "command_lower") {
    const fs::path program = folder_ / "score.sh";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    data::OutputRecipe output;
    output.metric = name;
    output.command = {program.string(), "a b"};
    return make_metric(output, options_);
  }

  /// What adding one sample complains of, with its frames.
  std::string complaint(const std::string& script) {
    try {
      metric(script)->add("s7", Tensor::scalar(1.0F), Tensor::scalar(2.0F));
    } catch (const Error& error) {
      return error.text();
    }
    return "none";
  }

  fs::path folder_;
  CommandOptions options_ = {true, {}, {}, std::chrono::milliseconds(60'000)};
};

// Prints the last byte of the second file, an int8 array of one element, as a number: the candidate itself.
constexpr const char* kCandidate = "tail -c 1 \"$3\" | od -An -tu1";

TEST_F(CommandMetricTest, IsTheMeanOverSamplesAndNamesTheWorstByDirection) {
  for (const auto& [name, worst] : {std::pair{"command_lower", "big"}, std::pair{"command_higher", "small"}}) {
    const auto judge = metric(kCandidate, name);
    judge->add("middle", Tensor::scalar<std::int8_t>(0), Tensor::scalar<std::int8_t>(4));
    judge->add("small", Tensor::scalar<std::int8_t>(0), Tensor::scalar<std::int8_t>(1));
    judge->add("big", Tensor::scalar<std::int8_t>(0), Tensor::scalar<std::int8_t>(10));
    const Metric::Result result = judge->result();
    EXPECT_DOUBLE_EQ(result.value, 5.0) << name;
    EXPECT_EQ(result.samples, 3);
    EXPECT_EQ(result.worst_sample, worst);
  }
  EXPECT_DOUBLE_EQ(relative_task_loss(find_metric("command_lower"), 2.0, 2.5), 0.25);
  EXPECT_DOUBLE_EQ(relative_task_loss(find_metric("command_higher"), 2.0, 1.5), 0.25);
}

TEST_F(CommandMetricTest, GetsItsArgumentsThenTruthThenOutputAndTheFilesGo) {
  const fs::path seen = folder_ / "seen";
  const auto judge = metric("echo \"$#,$1\" > " + seen.string() + "; echo $2 >> " + seen.string() + "; cp \"$2\" " +
                            (folder_ / "truth").string() + "; cp \"$3\" " + (folder_ / "output").string() +
                            "; echo ' -1.5e0 '");
  const Tensor truth = Tensor::from<float>({2}, {1, 2});
  const Tensor output = Tensor::from<float>({2}, {3, 4});
  judge->add("s", truth, output);
  EXPECT_EQ(judge->result().value, -1.5);
  const std::string text = read_text_file(seen);
  EXPECT_EQ(text.substr(0, text.find('\n')), "3,a b");
  const fs::path given = text.substr(text.find('\n') + 1, text.size() - text.find('\n') - 2);
  EXPECT_EQ(given.filename(), "truth.npy");
  EXPECT_FALSE(fs::exists(given.parent_path()));
  EXPECT_EQ(graph::to_doubles(data::read_npy(folder_ / "truth")), graph::to_doubles(truth));
  EXPECT_EQ(graph::to_doubles(data::read_npy(folder_ / "output")), graph::to_doubles(output));
}

TEST_F(CommandMetricTest, EachFailureNamesProgramAndSample) {
  const auto names_both = AllOf(HasSubstr("score.sh'"), HasSubstr("in: sample 's7'"));
  EXPECT_THAT(complaint("echo first >&2; echo 'no such class' >&2; echo 1; exit 3"),
              AllOf(names_both, HasSubstr("ended with exit code 3: no such class\n")));
  EXPECT_THAT(complaint("kill -SEGV $$"), AllOf(names_both, HasSubstr("was killed by signal 11 (")));
  for (const char* printed : {"", "abc", "1 2", "nan", "inf", "0.5x", "1e999"}) {
    EXPECT_THAT(complaint("echo " + std::string(printed)), AllOf(names_both, HasSubstr("must print one finite number")))
        << printed;
  }
  EXPECT_THAT(complaint("yes 1 | head -c 3000000"), AllOf(names_both, HasSubstr("must print one finite number")));
}

TEST_F(CommandMetricTest, ManyMessagesDoNotHurt) {
  const auto judge = metric("head -c 3000000 /dev/zero >&2; echo 4");
  judge->add("s", Tensor::scalar(1.0F), Tensor::scalar(2.0F));
  EXPECT_EQ(judge->result().value, 4.0);
}

TEST_F(CommandMetricTest, AProgramThatHangsIsKilled) {
  options_.timeout = std::chrono::milliseconds(200);
  EXPECT_THAT(complaint("sleep 1000"),
              AllOf(HasSubstr("did not end within 0.2 s and was killed"), HasSubstr("in: sample 's7'")));
}

TEST_F(CommandMetricTest, AMissingProgramAndOneThatIsNotAllowedAreErrors) {
  data::OutputRecipe output;
  output.metric = "command_lower";
  output.command = {(folder_ / "none.py").string()};
  try {
    make_metric(output, options_)->add("s7", Tensor::scalar(1.0F), Tensor::scalar(2.0F));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.text(), AllOf(HasSubstr("none.py'"), HasSubstr("in: sample 's7'")));
  }
  options_.allowed = false;
  EXPECT_THAT(complaint("echo 1"), HasSubstr("may not be run"));
}

TEST_F(CommandMetricTest, CancellingIsNoVerdict) {
  options_.cancel.cancel();
  EXPECT_THAT(complaint("echo 1"), HasSubstr("error[cancelled]"));
}

}  // namespace
}  // namespace tempera::quality
