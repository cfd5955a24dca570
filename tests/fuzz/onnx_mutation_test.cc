/// What a fuzzer does, small and repeatable: damaged models are refused or become sound graphs, and take little memory.

#include <sys/resource.h>

#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "onnx_seeds.h"
#include "onnx_target.h"

namespace tempera::fuzz {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // shadow memory takes the address space
#else
constexpr bool kSanitized = false;
#endif

// No single reading may take more than a gigabyte beyond what the program has already.
class MutationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) {
      return;
    }
    std::ifstream statm("/proc/self/statm");
    std::size_t pages = 0;
    statm >> pages;
    ::getrlimit(RLIMIT_AS, &before_);
    struct rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + (std::size_t{1} << 30);
    ::setrlimit(RLIMIT_AS, &limit);
  }
  void TearDown() override {
    if (!kSanitized) {
      ::setrlimit(RLIMIT_AS, &before_);
    }
  }

  static void exercise(const std::string& bytes, const std::string& what) {
    try {
      accepted_ += exercise_onnx(std::as_bytes(std::span(bytes))) ? 1 : 0;
    } catch (const std::exception& e) {
      ADD_FAILURE() << what << ": " << e.what();
    }
  }

  static inline int accepted_ = 0;

 private:
  struct rlimit before_ = {};
};

TEST_F(MutationTest, SeedsAreAcceptedUnlessTheirDataIsMissing) {
  for (const auto& [name, bytes] : onnx_seeds()) {
    EXPECT_EQ(exercise_onnx(std::as_bytes(std::span(bytes))), name != "everything") << name;
  }
}

TEST_F(MutationTest, EveryTruncation) {
  for (const auto& [name, bytes] : onnx_seeds()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      exercise(bytes.substr(0, size), name + " cut to " + std::to_string(size));
    }
  }
}

TEST_F(MutationTest, EveryBitFlipped) {
  for (const auto& [name, bytes] : onnx_seeds()) {
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      exercise(flipped, name + " with bit " + std::to_string(bit) + " flipped");
    }
  }
  EXPECT_GT(accepted_, 100);  // names and numbers may change without making a model unreadable
}

TEST_F(MutationTest, BytesReplacedRemovedAndRepeated) {
  std::mt19937 random(20260101);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  for (const auto& [name, seed] : onnx_seeds()) {
    for (int round = 0; round < 2000; ++round) {
      std::string bytes = seed;
      for (std::size_t change = 0; change <= below(4); ++change) {
        const std::size_t at = below(bytes.size());
        const std::size_t length = 1 + below(std::min<std::size_t>(bytes.size() - at, 16));
        switch (below(4)) {
          case 0: bytes[at] = static_cast<char>(below(256)); break;
          case 1: bytes[at] = "\x00\x7f\x80\xff"[below(4)]; break;
          case 2: bytes.insert(below(bytes.size()), bytes.substr(at, length)); break;
          default: bytes.size() > length ? bytes.erase(at, length) : bytes; break;
        }
      }
      exercise(bytes, name + ", round " + std::to_string(round));
    }
  }
}

}  // namespace
}  // namespace tempera::fuzz
