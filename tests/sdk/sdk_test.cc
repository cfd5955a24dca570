// The three SDKs live in one process: each is called once, so that a bad link shows here and not in a room.
#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/common/version.h>
#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <openvino/openvino.hpp>

namespace {

TEST(Sdk, OnnxParsesChecksAndInfersShapes) {
  onnx::ModelProto model;
  const onnx::Common::Status status = onnx::OnnxParser::Parse(model, R"(
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[1,3,8,8] x, float[4,3,3,3] w) => (y) { y = Conv(x, w) })");
  ASSERT_TRUE(status.IsOK()) << status.ErrorMessage();
  onnx::shape_inference::InferShapes(model);
  const onnx::TensorShapeProto& shape = model.graph().output(0).type().tensor_type().shape();
  ASSERT_EQ(shape.dim_size(), 4);
  EXPECT_EQ(shape.dim(1).dim_value(), 4);
  EXPECT_EQ(shape.dim(3).dim_value(), 6);  // 8 - 3 + 1
  EXPECT_NO_THROW(onnx::checker::check_model(model, /*full_check=*/true));
}

TEST(Sdk, OnnxKnowsItsNewestOpset) {
  EXPECT_GE(onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second, 28);
  EXPECT_NE(onnx::OpSchemaRegistry::Schema("LayerNormalization", 17, ""), nullptr);
}

TEST(Sdk, OpenVinoHasTheCpu) {
  ov::Core core;
  const std::vector<std::string> devices = core.get_available_devices();
  EXPECT_NE(std::find(devices.begin(), devices.end(), "CPU"), devices.end());
}

}  // namespace
