#include "tempera/engine/measure/cpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tempera::engine {
namespace {

using testing::ElementsAre;

TEST(CpuTest, ReadsModelAndFeaturesOfX86) {
  const CpuInfo info = parse_cpuinfo(
      "processor\t: 0\nmodel name\t: A CPU @ 2.60GHz\nflags\t\t: fpu amx_bf16 avx2 avx fma smep\n\n"
      "processor\t: 1\nmodel name\t: A CPU @ 2.60GHz\nflags\t\t: fpu amx_bf16 avx2 avx fma smep\n");
  EXPECT_EQ(info.model, "A CPU @ 2.60GHz");
  EXPECT_EQ(info.machine_cores, 2);
  EXPECT_THAT(info.features, ElementsAre("avx", "fma", "avx2", "amx_bf16"));
}

TEST(CpuTest, ReadsFeaturesOfArm) {
  const CpuInfo info = parse_cpuinfo("processor\t: 0\nFeatures\t: fp asimd asimddp bf16\n");
  EXPECT_EQ(info.model, "");
  EXPECT_THAT(info.features, ElementsAre("asimd", "asimddp", "bf16"));
}

TEST(CpuTest, NothingIsReadFromNothing) {
  const CpuInfo info = parse_cpuinfo("");
  EXPECT_EQ(info.machine_cores, 0);
  EXPECT_TRUE(info.features.empty());
  EXPECT_EQ(to_string(info), "unknown processor, 0 cores");
}

TEST(CpuTest, CacheSizesHaveBinaryUnits) {
  EXPECT_EQ(parse_cache_size("48K"), 49152);
  EXPECT_EQ(parse_cache_size("32M"), 33554432);
  EXPECT_EQ(parse_cache_size("64"), 64);
  EXPECT_EQ(parse_cache_size(""), 0);
  EXPECT_EQ(parse_cache_size("big"), 0);
  EXPECT_EQ(parse_cache_size("4X"), 0);
}

TEST(CpuTest, ThisMachineHasACoreAndMemory) {
  const CpuInfo info = cpu_info();
  EXPECT_GE(info.cores, 1);
  EXPECT_GE(info.machine_cores, info.cores);
  EXPECT_GT(info.memory_bytes, 0);
}

}  // namespace
}  // namespace tempera::engine
