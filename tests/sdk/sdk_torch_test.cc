// Torch is in a file of its own: the precompiled header and the ONNX headers do not meet.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace {

TEST(Sdk, TorchDifferentiatesTwice) {
  // y = x^3: dy/dx = 3 x^2 = 12, d2y/dx2 = 6 x = 12 at x = 2
  const at::Tensor x = at::full({1}, 2.0, at::TensorOptions(at::kDouble)).requires_grad_(true);
  const at::Tensor first = torch::autograd::grad({x * x * x}, {x}, {}, true, true)[0];
  const at::Tensor second = torch::autograd::grad({first}, {x})[0];
  EXPECT_DOUBLE_EQ(first.item<double>(), 12.0);
  EXPECT_DOUBLE_EQ(second.item<double>(), 12.0);
}

}  // namespace
