#include "tempera/base/error.h"

#include <gtest/gtest.h>

namespace tempera {
namespace {

TEST(ErrorTest, TextListsFramesInnermostFirstThenTheHint) {
  Error error(ErrorCode::kBadModel, "input 'B' has 512 rows", "tempera inspect unet.onnx");
  error.in("node 'm' (MatMul, opset 13)").in("model unet.onnx");
  EXPECT_EQ(error.text(),
            "error[bad_model]: input 'B' has 512 rows\n"
            "  in: node 'm' (MatMul, opset 13)\n"
            "  in: model unet.onnx\n"
            "  try: tempera inspect unet.onnx\n");
}

TEST(ErrorTest, ExitCodesFollowTheTable) {
  EXPECT_EQ(exit_code(ErrorCode::kInvalidArgument), 2);
  EXPECT_EQ(exit_code(ErrorCode::kNotFound), 2);
  EXPECT_EQ(exit_code(ErrorCode::kBadModel), 3);
  EXPECT_EQ(exit_code(ErrorCode::kUnsupported), 3);
  EXPECT_EQ(exit_code(ErrorCode::kEngineFailed), 4);
  EXPECT_EQ(exit_code(ErrorCode::kLossBudget), 5);
  EXPECT_EQ(exit_code(ErrorCode::kIo), 6);
  EXPECT_EQ(exit_code(ErrorCode::kCancelled), 130);
  EXPECT_EQ(exit_code(ErrorCode::kInternal), 70);
}

TEST(ErrorTest, UnknownNameOffersTheNearestThree) {
  EXPECT_EQ(unknown_name("pass", "fuse_con", {"fuse_conv", "dead_code", "fuse_bn", "layout"}),
            "unknown pass 'fuse_con': the nearest are 'fuse_conv', 'fuse_bn', 'dead_code'");
}

TEST(ErrorTest, CheckThrowsInternal) {
  try {
    TEMPERA_CHECK(1 + 1 == 3, "sums");
    FAIL() << "the check did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
  }
}

}  // namespace
}  // namespace tempera
