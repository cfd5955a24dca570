#include "tempera/base/log.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tempera/base/cancel.h"
#include "tempera/base/error.h"
#include "tempera/base/progress.h"

namespace tempera {
namespace {

TEST(LogTest, StderrLoggerWritesLevelAndMessageAndDropsWhatIsBelow) {
  testing::internal::CaptureStderr();
  const auto logger = make_stderr_logger(LogLevel::kInfo, false);
  logger->debug("hidden");
  logger->warning("a {brace} and 100 %");
  EXPECT_FALSE(logger->wants(LogLevel::kDebug));
  EXPECT_TRUE(logger->wants(LogLevel::kError));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: a {brace} and 100 %\n");
}

TEST(LogTest, JsonLoggerEscapesTheMessage) {
  testing::internal::CaptureStderr();
  make_json_logger(LogLevel::kDebug)->error("quote \" newline \n and bad utf-8 \xff");
  const std::string line = testing::internal::GetCapturedStderr();
  const nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json.at("level"), "error");
  EXPECT_EQ(json.at("message"), "quote \" newline \n and bad utf-8 \xEF\xBF\xBD");
  EXPECT_TRUE(json.contains("time"));
}

TEST(LogTest, ProgressOffATerminalIsSilentForShortWork) {
  testing::internal::CaptureStderr();
  {
    const auto progress = make_stderr_progress(false);
    progress->begin("measuring", 3);
    progress->advance();
    progress->end();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LogTest, ProgressOnATerminalIsWipedAtTheEnd) {
  testing::internal::CaptureStderr();
  {
    const auto progress = make_stderr_progress(true);
    progress->begin("measuring", 3);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("measuring"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
}

TEST(LogTest, CancelTokenCopiesShareTheFlag) {
  const CancelToken token;
  const CancelToken copy =
      token;  // NOLINT(performance-unnecessary-copy-initialization): the copy is the point
  EXPECT_NO_THROW(copy.throw_if_cancelled());
  token.cancel();
  try {
    copy.throw_if_cancelled();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled);
  }
}

}  // namespace
}  // namespace tempera
