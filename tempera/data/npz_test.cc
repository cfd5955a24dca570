#include "tempera/data/npz.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"

namespace tempera::data {
namespace {

namespace fs = std::filesystem;
using graph::DataType;
using graph::Dims;
using graph::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path test_file(const std::string& name) {
  const char* root = std::getenv("TEMPERA_SOURCE_DIR");
  return fs::path(root == nullptr ? "." : root) / "tempera/data/testdata" / name;
}

class NpzTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("tempera_npz_test_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
};

TEST_F(NpzTest, ReadsStoredAndDeflatedArchivesOfNumpy) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const NpzFile file(test_file(name));
    EXPECT_THAT(file.names(), ElementsAre("a", "with.dot/slash"));
    EXPECT_THAT(graph::to_doubles(file.read("a")), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT(graph::to_int64s(file.read("with.dot/slash")), ElementsAre(0, 1, 2));
    EXPECT_EQ(file.header("a").dims, (Dims{2, 3}));
    EXPECT_EQ(file.header("a").type, DataType::kFloat32);
  }
}

TEST_F(NpzTest, UnknownNamesListTheNearest) {
  try {
    (void)NpzFile(test_file("stored.npz")).read("b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_STREQ(error.what(), "unknown array 'b': the nearest are 'a', 'with.dot/slash'");
  }
}

TEST_F(NpzTest, WritingThenReadingKeepsEverythingAndIsReproducible) {
  std::vector<float> ramp(1'000'000);
  for (std::size_t i = 0; i < ramp.size(); ++i) {
    ramp[i] = static_cast<float>(i % 1000);
  }
  const NamedTensors arrays = {{"ramp", Tensor::from<float>({1000, 1000}, std::span<const float>(ramp))},
                               {"grün", Tensor::scalar<std::int64_t>(7)},
                               {"empty", Tensor::from<float>({0}, {})}};
  for (const bool compress : {false, true}) {
    write_npz(folder_ / "x.npz", arrays, compress);
    const NamedTensors back = read_npz(folder_ / "x.npz");
    ASSERT_EQ(back.size(), arrays.size());
    for (std::size_t i = 0; i < back.size(); ++i) {
      EXPECT_EQ(back[i].first, arrays[i].first);
      EXPECT_TRUE(back[i].second.same_bytes(arrays[i].second));
    }
    write_npz(folder_ / "y.npz", arrays, compress);
    EXPECT_EQ(read_file(folder_ / "x.npz"), read_file(folder_ / "y.npz"));
  }
  EXPECT_LT(fs::file_size(folder_ / "x.npz"), 100'000U);
  write_npz(folder_ / "none.npz", {});
  EXPECT_TRUE(read_npz(folder_ / "none.npz").empty());
}

TEST_F(NpzTest, NumpyReadsWhatWeWrite) {
  const char* python = std::getenv("TEMPERA_TEST_PYTHON");
  if (python == nullptr || !fs::exists(python)) {
    GTEST_SKIP() << "the Python of the tests is absent";
  }
  write_npz(folder_ / "x.npz",
            {{"a", Tensor::from<float>({2, 3}, {0, 1, 2, 3, 4, 5})}, {"s", Tensor::strings({1}, {"grün"})}});
  const std::string command =
      std::string(python) +
      " -c \"import numpy, sys; d = numpy.load(sys.argv[1]); print(list(d), d['a'].tolist(), "
      "d['a'].dtype, ascii(str(d['s'][0])))\" " +
      (folder_ / "x.npz").string();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), &::pclose);
  ASSERT_NE(pipe, nullptr);
  std::array<char, 256> line = {};
  ASSERT_NE(std::fgets(line.data(), line.size(), pipe.get()), nullptr);
  EXPECT_STREQ(line.data(), "['a', 's'] [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] float32 'gr\\xfcn'\n");
}

TEST_F(NpzTest, ChecksumsAndLimitsAreEnforced) {
  std::vector<std::byte> bytes = read_file(test_file("stored.npz"));
  // The value 5 of array 'a' is stored last before the second local header: 00 00 A0 40.
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t at = text.find(std::string("\x00\x00\xA0\x40", 4));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = std::byte{1};
  write_file(folder_ / "bad.npz", bytes);
  const NpzFile damaged(folder_ / "bad.npz");
  EXPECT_NO_THROW((void)damaged.read("with.dot/slash"));
  try {
    (void)damaged.read("a");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.text(), HasSubstr("do not match their size and checksum"));
    EXPECT_THAT(error.text(), HasSubstr("in: array 'a'"));
    EXPECT_THAT(error.text(), HasSubstr("bad.npz"));
  }
  EXPECT_THROW(NpzFile(test_file("stored.npz"), 100), Error);
}

TEST_F(NpzTest, EveryTruncationAndManyByteChangesNeverCrash) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::vector<std::byte> good = read_file(test_file(name));
    const auto try_read = [](std::span<const std::byte> bytes) {
      const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
      try {
        const NpzFile file(MappedFile{{copy, copy->data()}, copy->size()}, "mutated.npz");
        for (const std::string& array : file.names()) {
          (void)file.read(array);
        }
        return true;
      } catch (const Error&) {  // the only exception that may come
        return false;
      }
    };
    for (std::size_t size = 0; size < good.size(); size += 3) {
      EXPECT_FALSE(try_read(std::span(good).first(size))) << size;
    }
    const CounterRng rng(2);
    for (std::uint64_t i = 0; i < 1500; ++i) {
      std::vector<std::byte> bad = good;
      for (std::uint64_t change = 0; change <= rng.below(16 * i, 3); ++change) {
        bad[rng.below(16 * i + 2 * change + 1, bad.size())] =
            static_cast<std::byte>(rng.below(16 * i + 2 * change + 2, 256));
      }
      (void)try_read(bad);
    }
  }
}

}  // namespace
}  // namespace tempera::data
