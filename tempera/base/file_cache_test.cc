#include "tempera/base/file_cache.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tempera/base/error.h"

namespace tempera {
namespace {

namespace fs = std::filesystem;

class FileCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              ("tempera_file_cache_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path file_of(const Sha256Digest& key) const { return folder_ / (to_hex(key) + ".blob"); }

  static std::string text(const FileCache::Entry& entry) {
    return {reinterpret_cast<const char*>(entry.content.data()), entry.content.size()};
  }

  fs::path folder_;
  const Sha256Digest key_ = sha256("a");
};

TEST_F(FileCacheTest, ReturnsWhatWasPut) {
  const FileCache cache(folder_, 1 << 20);
  EXPECT_FALSE(cache.find(key_));
  cache.put(key_, "compiled");
  const auto entry = cache.find(key_);
  ASSERT_TRUE(entry);
  EXPECT_EQ(text(*entry), "compiled");
  EXPECT_FALSE(cache.find(sha256("b")));
}

TEST_F(FileCacheTest, RemovedFilesAreGone) {
  const FileCache cache(folder_, 1 << 20);
  cache.put(key_, "compiled");
  cache.remove(key_);
  EXPECT_FALSE(cache.find(key_));
  cache.remove(key_);  // nothing there: nothing happens
}

TEST_F(FileCacheTest, ADamagedFileIsAsIfAbsentAndIsReplaced) {
  const FileCache cache(folder_, 1 << 20);
  cache.put(key_, "compiled");
  {
    std::fstream file(file_of(key_), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('X');
  }
  EXPECT_FALSE(cache.find(key_));
  fs::resize_file(file_of(key_), 7);
  EXPECT_FALSE(cache.find(key_));
  cache.put(key_, "again");
  EXPECT_EQ(text(cache.find(key_).value()), "again");
}

TEST_F(FileCacheTest, AFileThatOthersMayWriteIsNotTrusted) {
  const FileCache cache(folder_, 1 << 20);
  cache.put(key_, "compiled");
  fs::permissions(file_of(key_), fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(cache.find(key_));
}

TEST_F(FileCacheTest, ALinkIsNotTrusted) {
  const FileCache cache(folder_, 1 << 20);
  cache.put(key_, "compiled");
  fs::rename(file_of(key_), folder_ / "elsewhere");
  fs::create_symlink(folder_ / "elsewhere", file_of(key_));
  EXPECT_FALSE(cache.find(key_));
}

TEST_F(FileCacheTest, TheLongestUnusedGoesFirst) {
  const FileCache cache(folder_, 420);  // room for three files of 64 + 70 bytes
  const std::string content(70, 'c');
  const Sha256Digest second = sha256("second");
  const Sha256Digest third = sha256("third");
  cache.put(key_, content);
  cache.put(second, content);
  cache.put(third, content);
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(file_of(key_), now - std::chrono::hours(3));
  fs::last_write_time(file_of(second), now - std::chrono::hours(2));
  fs::last_write_time(file_of(third), now - std::chrono::hours(1));
  EXPECT_TRUE(cache.find(key_));  // used: now the youngest
  cache.put(sha256("fourth"), content);
  EXPECT_TRUE(cache.find(key_));
  EXPECT_FALSE(cache.find(second));
  EXPECT_TRUE(cache.find(third));
}

TEST_F(FileCacheTest, WhatExceedsTheWholeCacheIsNotKept) {
  const FileCache cache(folder_, 100);
  cache.put(key_, std::string(200, 'c'));
  EXPECT_FALSE(cache.find(key_));
}

TEST_F(FileCacheTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_.string()) << "a file";
  EXPECT_THROW(FileCache(folder_ / "below", 100), Error);
}

}  // namespace
}  // namespace tempera
