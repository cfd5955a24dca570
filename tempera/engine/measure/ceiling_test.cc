#include "tempera/engine/measure/ceiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::engine {
namespace {

// An engine that remembers what it was asked to compile and answers at once.
class FakeEngine : public Engine {
 public:
  FakeEngine() { attributes_.precisions = {Precision::kFloat32, Precision::kBfloat16}; }
  [[nodiscard]] const Attributes& attributes() const override { return attributes_; }
  [[nodiscard]] std::vector<Unsupported> unsupported(const graph::Model&) const override { return {}; }
  [[nodiscard]] std::unique_ptr<Session> compile(const graph::Model& model, const CompileOptions& options) const override {
    compiled.push_back({model.graph.node_count(), options});
    return std::make_unique<FakeSession>();
  }

  struct Asked {
    std::size_t nodes;
    CompileOptions options;
  };
  mutable std::vector<Asked> compiled;

 private:
  class FakeSession : public Session {
   public:
    [[nodiscard]] const std::vector<Port>& inputs() const override { return ports_; }
    [[nodiscard]] const std::vector<Port>& outputs() const override { return ports_; }
    std::vector<graph::Tensor> run(std::span<const graph::Tensor>) override { return {}; }
    [[nodiscard]] std::vector<NodeTime> profile() const override { return {{"reorder", "Reorder", "r", 9.0, false, {}}, {"y1", "MatMul", "gemm", 1.0, true, {}}}; }

   private:
    std::vector<Port> ports_;
  };

  Attributes attributes_;
};

CeilingOptions small() {
  CeilingOptions options;
  options.size = 8;
  options.depth = 2;
  options.budget_ms = 0.0;
  options.copy_bytes = 1 << 16;
  return options;
}

class CeilingTest : public testing::Test {
 protected:
  std::unique_ptr<Logger> log_ = make_null_logger();
  std::unique_ptr<Progress> progress_ = make_null_progress();
  FakeEngine engine_;
};

TEST_F(CeilingTest, MeasuresEveryNativePrecisionAndInt8) {
  const Ceiling ceiling = measure_ceiling(engine_, small(), {*log_, *progress_, {}});
  std::vector<std::string> formats;
  for (const MatmulCeiling& matmul : ceiling.matmul) {
    formats.push_back(matmul.format);
    EXPECT_GT(matmul.gflop_per_s, 0.0);
    EXPECT_EQ(matmul.kernel, "gemm");  // the longest layer that is the model's own
  }
  EXPECT_THAT(formats, testing::ElementsAre("f32", "bf16", "int8"));
  EXPECT_GT(ceiling.copy_gb_per_s, 0.0);
  ASSERT_EQ(engine_.compiled.size(), 6U);  // each once to time and once to profile
  EXPECT_EQ(engine_.compiled[0].nodes, 2U);
  EXPECT_EQ(engine_.compiled[2].options.precision, Precision::kBfloat16);
  EXPECT_EQ(engine_.compiled[4].nodes, 2U * 4U);  // quantise and dequantise x, dequantise w, multiply
}

TEST_F(CeilingTest, TheChainIsAValidGraphOfFixedShape) {
  for (const bool int8 : {false, true}) {
    const graph::Model model = matmul_chain(4, 3, int8);
    EXPECT_NO_THROW(graph::verify(model.graph));
    EXPECT_EQ(graph::to_string(model.graph.value(model.graph.outputs()[0]).type), "float[4,4]");
  }
}

TEST_F(CeilingTest, StopsWhenCancelled) {
  const CancelToken cancel;
  cancel.cancel();
  EXPECT_THROW((void)measure_ceiling(engine_, small(), {*log_, *progress_, cancel}), Error);
}

TEST_F(CeilingTest, SizesBelowOneAreErrors) {
  CeilingOptions options = small();
  options.size = 0;
  EXPECT_THROW((void)measure_ceiling(engine_, options, {*log_, *progress_, {}}), Error);
}

}  // namespace
}  // namespace tempera::engine
