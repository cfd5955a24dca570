#include "tempera/base/file.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("tempera_file_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::size_t file_count() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  fs::path folder_;
};

std::optional<ErrorCode> code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

TEST_F(FileTest, WriteReplacesTheFileAndCreatesFolders) {
  const fs::path path = folder_ / "a" / "b.txt";
  write_text_file(path, "first");
  write_text_file(path, "second");
  EXPECT_EQ(read_text_file(path), "second");
  EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), fs::directory_iterator()), 1);
}

TEST_F(FileTest, WithoutCommitTheOldContentStaysAndNothingIsLeft) {
  const fs::path path = folder_ / "x";
  write_text_file(path, "old");
  {
    AtomicFile file(path);
    file.write("half of the new");
  }
  EXPECT_EQ(read_text_file(path), "old");
  EXPECT_EQ(file_count(), 1U);
}

TEST_F(FileTest, WithoutCommitNewFoldersGoTooAndOldOnesStay) {
  fs::create_directory(folder_ / "old");
  { AtomicFile file(folder_ / "old" / "new" / "newer" / "x"); }
  EXPECT_TRUE(fs::exists(folder_ / "old"));
  EXPECT_FALSE(fs::exists(folder_ / "old" / "new"));
  write_text_file(folder_ / "y", "y");
  EXPECT_EQ(code_of([&] { write_text_file(folder_ / "y" / "new" / "x", ""); }), ErrorCode::kIo);
  EXPECT_EQ(file_count(), 2U);
}

TEST_F(FileTest, WriteGoesThroughLinks) {
  fs::create_directory(folder_ / "far");
  write_text_file(folder_ / "far" / "file", "old");
  fs::create_symlink("far/file", folder_ / "near");
  fs::create_symlink(folder_ / "near", folder_ / "nearer");
  write_text_file(folder_ / "nearer", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "nearer"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "near"));
  EXPECT_EQ(read_text_file(folder_ / "far" / "file"), "new");
  {
    AtomicFile file(folder_ / "near");
    file.write("half of the newest");
  }
  EXPECT_EQ(read_text_file(folder_ / "far" / "file"), "new");
  EXPECT_EQ(file_count(), 3U);
}

TEST_F(FileTest, DanglingLinkGetsItsTargetButNoFolders) {
  fs::create_symlink("target", folder_ / "link");
  write_text_file(folder_ / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read_text_file(folder_ / "target"), "new");
  fs::create_symlink("none/target", folder_ / "astray");
  EXPECT_EQ(code_of([&] { write_text_file(folder_ / "astray", "new"); }), ErrorCode::kIo);
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  fs::create_symlink("circle", folder_ / "circle");
  EXPECT_EQ(code_of([&] { write_text_file(folder_ / "circle", "new"); }), ErrorCode::kIo);
}

TEST_F(FileTest, WhatIsNoRegularFileIsNamedAndStays) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  fs::create_symlink("fifo", folder_ / "link");
  fs::create_directory(folder_ / "folder");
  for (const char* name : {"fifo", "link", "folder"}) {
    try {
      write_text_file(folder_ / name, "x");
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_NE(std::string(error.what()).find(std::string(name) + "' is not a regular file"), std::string::npos)
          << error.what();
      EXPECT_FALSE(error.hint().empty());
    }
  }
  EXPECT_TRUE(fs::is_fifo(folder_ / "fifo"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(file_count(), 3U);
}

TEST_F(FileTest, NewFilesHaveOrdinaryPermissions) {
  const fs::path path = folder_ / "x";
  write_text_file(path, "x");
  const mode_t mask = ::umask(0);
  ::umask(mask);
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST_F(FileTest, MissingFilesFoldersAndLimitsAreNamed) {
  EXPECT_EQ(code_of([&] { (void)read_file(folder_ / "none"); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { (void)map_file(folder_ / "none"); }), ErrorCode::kNotFound);
  EXPECT_EQ(code_of([&] { (void)read_file(folder_); }), ErrorCode::kIo);
  write_text_file(folder_ / "x", "12345");
  EXPECT_EQ(code_of([&] { (void)read_file(folder_ / "x", 4); }), ErrorCode::kIo);
  EXPECT_EQ(read_file(folder_ / "x", 5).size(), 5U);
  EXPECT_EQ(code_of([&] { write_text_file(folder_ / "x" / "y", "a file is no folder"); }), ErrorCode::kIo);
}

TEST_F(FileTest, FifoIsRefusedInsteadOfWaitedFor) {
  const fs::path path = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { (void)read_file(path); }), ErrorCode::kIo);
}

TEST_F(FileTest, MappingEqualsContentAndSlicesOutliveIt) {
  write_text_file(folder_ / "x", "hello world");
  std::shared_ptr<const std::byte> slice;
  {
    const MappedFile mapped = map_file(folder_ / "x");
    ASSERT_EQ(mapped.size, 11U);
    slice = mapped.slice(6, 5);
    EXPECT_EQ(code_of([&] { (void)mapped.slice(7, 5); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code_of([&] { (void)mapped.slice(12, 0); }), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(slice.get()), 5), "world");
}

TEST_F(FileTest, ReleasedPagesComeBackFromTheFile) {
  write_text_file(folder_ / "x", "hello world");
  const MappedFile mapped = map_file(folder_ / "x");
  EXPECT_TRUE(is_mapped(mapped.data.get()));
  EXPECT_TRUE(is_mapped(mapped.data.get() + 10));
  EXPECT_FALSE(is_mapped(mapped.data.get() + 11));
  release_mapped_pages();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped.data.get()), 11), "hello world");
}

TEST_F(FileTest, ScratchFileKeepsBytesAndLeavesNothing) {
  MappedFile mapped;
  std::size_t second = 0;
  {
    ScratchFile scratch(folder_);
    EXPECT_EQ(scratch.append(std::as_bytes(std::span("first"))), 0U);
    second = scratch.append(std::as_bytes(std::span("second")));
    mapped = scratch.map();
    EXPECT_EQ(file_count(), 0U);
  }
  EXPECT_EQ(second, 64U);
  EXPECT_STREQ(reinterpret_cast<const char*>(mapped.data.get()), "first");
  EXPECT_STREQ(reinterpret_cast<const char*>(mapped.slice(second, 7).get()), "second");
  EXPECT_EQ(code_of([&] { ScratchFile none(folder_ / "none"); }), ErrorCode::kIo);
}

TEST_F(FileTest, EmptyFileMapsToNoBytes) {
  write_text_file(folder_ / "x", "");
  EXPECT_TRUE(map_file(folder_ / "x").bytes().empty());
  EXPECT_TRUE(read_file(folder_ / "x").empty());
}

}  // namespace
}  // namespace tempera
