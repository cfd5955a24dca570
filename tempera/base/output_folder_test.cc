#include "tempera/base/output_folder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string get(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class OutputFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  fs::path root_;
};

TEST_F(OutputFolderTest, NothingAppearsBeforeCommitAndNothingStaysWithoutIt) {
  {
    OutputFolder out(root_ / "out", false);
    put(out.staging() / "model.onnx", "new");
    EXPECT_FALSE(fs::exists(root_ / "out" / "model.onnx"));
  }
  EXPECT_FALSE(fs::exists(root_ / "out"));
}

TEST_F(OutputFolderTest, CommitReplacesTheSetAndRemovesWhatIsObsolete) {
  {
    OutputFolder out(root_ / "out", false);
    put(out.staging() / "model.onnx", "one");
    put(out.staging() / "model.onnx.data", "weights");
    out.commit();
  }
  {
    OutputFolder out(root_ / "out", false);  // ours: no force needed
    put(out.staging() / "model.onnx", "two");
    out.commit({"model.onnx", "model.onnx.data"});
  }
  EXPECT_EQ(get(root_ / "out" / "model.onnx"), "two");
  EXPECT_FALSE(fs::exists(root_ / "out" / "model.onnx.data"));
  EXPECT_FALSE(fs::exists(root_ / "out" / ".work"));
}

TEST_F(OutputFolderTest, ASetStagedBeforeARestartDoesNotAppear) {
  OutputFolder out(root_ / "out", false);
  put(out.staging() / "model.onnx", "rejected");
  put(out.staging() / "model.onnx.data", "rejected");
  out.restart();
  put(out.staging() / "model.onnx", "original");
  out.commit();
  EXPECT_EQ(get(root_ / "out" / "model.onnx"), "original");
  EXPECT_FALSE(fs::exists(root_ / "out" / "model.onnx.data"));
}

TEST_F(OutputFolderTest, AnInterruptedCommitIsCompletedOnTheNextOpening) {
  fs::create_directories(root_ / "out" / ".work" / "staged");
  put(root_ / "out" / "model.onnx", "new");  // this one had already moved
  put(root_ / "out" / ".work" / "staged" / "report.json", "new report");
  put(root_ / "out" / "report.json", "old report");
  put(root_ / "out" / ".work" / "journal", "+model.onnx\n+report.json\n");
  OutputFolder out(root_ / "out", false);
  EXPECT_EQ(get(root_ / "out" / "model.onnx"), "new");
  EXPECT_EQ(get(root_ / "out" / "report.json"), "new report");
}

TEST_F(OutputFolderTest, AForeignFolderNeedsForce) {
  put(root_ / "thesis.tex", "years of work");
  EXPECT_THROW(OutputFolder(root_, false), Error);
  { OutputFolder out(root_, true); }
  EXPECT_EQ(get(root_ / "thesis.tex"), "years of work");
}

TEST_F(OutputFolderTest, AnInputInsideTheOutputIsRefused) {
  OutputFolder out(root_ / "out", false);
  EXPECT_THROW(out.refuse_input(root_ / "out" / "model.onnx"), Error);
  EXPECT_NO_THROW(out.refuse_input(root_ / "model.onnx"));
}

}  // namespace
}  // namespace tempera
