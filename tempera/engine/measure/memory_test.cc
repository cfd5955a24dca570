#include "tempera/engine/measure/memory.h"

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::engine {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// Allocates and touches 64 MiB, then frees them.
void use_64_mib() {
  std::vector<char> block(64 * kMiB, 1);
  volatile char sink = block[block.size() / 2];
  (void)sink;
}

TEST(MemoryTest, PeakSeesWhatWasFreedAgain) {
  const PeakMemory peak = peak_memory_of(use_64_mib);
  EXPECT_GE(peak.grown_bytes(), 63 * kMiB);  // pages of the vector; the kernel's counters lag by a few dozen pages
  if (!peak.since_start) {
    EXPECT_LE(peak.grown_bytes(), 80 * kMiB);
  }
}

TEST(MemoryTest, TheChildMeasuresItself) {
  const PeakMemory peak = peak_memory_in_child(use_64_mib);
  EXPECT_GE(peak.grown_bytes(), 63 * kMiB);
}

TEST(MemoryTest, WhatTheChildThrowsIsToldToTheCaller) {
  try {
    (void)peak_memory_in_child([] { throw std::runtime_error("no such model"); });
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kEngineFailed);
    EXPECT_STREQ(e.what(), "no such model");
  }
}

TEST(MemoryTest, ADyingChildIsAnError) {
  EXPECT_THROW((void)peak_memory_in_child([] { std::_Exit(3); }), Error);
}

}  // namespace
}  // namespace tempera::engine
