#include "tempera/compress/quantize/plan.h"

#include <gtest/gtest.h>

#include "tempera/compress/quantize/quantize.h"

namespace tempera::compress {
namespace {

TEST(WeightFormat, NamesReadBack) {
  for (const WeightFormat format :
       {WeightFormat::kFloat, WeightFormat::kFloat16, WeightFormat::kBfloat16, WeightFormat::kFloat8E4M3FN,
        WeightFormat::kFloat8E5M2, WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kInt2, WeightFormat::kTernary,
        WeightFormat::kBinary}) {
    EXPECT_EQ(weight_format_from_string(to_string(format)), format);
  }
  EXPECT_EQ(weight_format_from_string("fp16"), WeightFormat::kFloat16);
  EXPECT_EQ(weight_format_from_string("fp8"), WeightFormat::kFloat8E4M3FN);
  EXPECT_EQ(weight_format_from_string("int3"), std::nullopt);
  for (const Target target : {Target::kOpenvino, Target::kOnnxruntime, Target::kTensorrt, Target::kPortable}) {
    EXPECT_EQ(target_from_string(to_string(target)), target);
  }
}

TEST(LayerFormat, SaysWeightsGranularityAndActivations) {
  EXPECT_EQ(LayerFormat{}.to_string(), "float");
  EXPECT_EQ((LayerFormat{WeightFormat::kInt8, {}, ActivationFormat::kInt8}.to_string()), "int8 x int8");
  EXPECT_EQ((LayerFormat{WeightFormat::kInt4, {Granularity::Kind::kBlock, 32}}.to_string()), "int4/32");
  EXPECT_EQ((LayerFormat{WeightFormat::kInt8, {Granularity::Kind::kTensor}}.to_string()), "int8/tensor");
  EXPECT_EQ((LayerFormat{WeightFormat::kFloat16, {Granularity::Kind::kBlock, 32}}.to_string()), "f16");
  EXPECT_EQ((LayerFormat{WeightFormat::kFloat8E4M3FN, {}, ActivationFormat::kFloat8}.to_string()),
            "fp8_e4m3fn x fp8_e4m3fn");
}

}  // namespace
}  // namespace tempera::compress
