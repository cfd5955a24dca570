#include "tempera/base/process.h"

#include <csignal>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera {
namespace {

using testing::HasSubstr;

ProcessResult shell(const std::string& script, const ProcessOptions& options = {}, const CancelToken& cancel = {}) {
  return run_process({"sh", "-c", script}, options, cancel);
}

TEST(ProcessTest, GivesOutputErrorsAndExitCode) {
  const ProcessResult result = shell("echo out; echo one >&2; echo two >&2; exit 7");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.signal, 0);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "one\ntwo\n");
}

TEST(ProcessTest, ArgumentsReachTheProgramAsTheyAre) {
  const ProcessResult result = run_process({"printf", "%s|", "a b", "$HOME; 'x'", "*"}, {}, {});
  EXPECT_EQ(result.output, "a b|$HOME; 'x'|*|");
}

TEST(ProcessTest, MuchOutputIsReadAndCapped) {
  ProcessOptions options;
  options.max_output = 1000;
  const ProcessResult result =
      shell("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo last >&2; exit 3", options);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output.size(), 1000U);
  EXPECT_FALSE(result.output_complete);
  EXPECT_EQ(result.errors.size(), 1000U);
  EXPECT_EQ(result.errors.substr(995), "last\n");
}

TEST(ProcessTest, StandardInputIsEmpty) { EXPECT_EQ(shell("cat; echo end").output, "end\n"); }

TEST(ProcessTest, ASignalIsTold) { EXPECT_EQ(shell("kill -TERM $$").signal, SIGTERM); }

TEST(ProcessTest, TimeIsUpForItAndItsChildren) {
  ProcessOptions options;
  options.timeout = std::chrono::milliseconds(200);
  const ProcessResult result = shell("sleep 1000 & echo $!; wait", options);
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  // Whoever inherits the killed child may take a moment to reap it: a zombie counts as gone.
  const std::string child = result.output.substr(0, result.output.find('\n'));
  ASSERT_FALSE(child.empty());
  const std::string state = shell("sed 's/.*) //' /proc/" + child + "/stat 2>/dev/null").output;
  EXPECT_TRUE(state.empty() || state[0] == 'Z' || state[0] == 'X') << state;
}

TEST(ProcessTest, AChildInTheBackgroundIsNotWaitedFor) {
  const ProcessResult result = shell("sleep 1000 & echo done");
  EXPECT_EQ(result.output, "done\n");
  EXPECT_FALSE(result.timed_out);
}

TEST(ProcessTest, CancellingEndsIt) {
  const CancelToken cancel;
  std::thread later([cancel] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancel.cancel();
  });
  try {
    (void)shell("sleep 1000", {}, cancel);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
  later.join();
}

TEST(ProcessTest, AProgramThatCannotBeRunIsAnError) {
  try {
    (void)run_process({"/no/such/program"}, {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("cannot run '/no/such/program': No such file"));
  }
  EXPECT_THROW((void)run_process({"/"}, {}, {}), Error);
}

}  // namespace
}  // namespace tempera
