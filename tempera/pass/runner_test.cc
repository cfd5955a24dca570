#include "tempera/pass/runner.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::parse;

constexpr std::string_view kSliced = R"(
  g (float[N,4,6,6] x, float[8,4,1,1] w, bool c) => (float[N,4,6,6] q, float[N,4,6,6] r) {
    y = Conv(x, w)
    zero = Constant<value = int64[1] {0}>()
    four = Constant<value = int64[1] {4}>()
    eight = Constant<value = int64[1] {8}>()
    one = Constant<value = int64[1] {1}>()
    q = Slice(y, zero, four, one)
    k = Slice(y, four, eight, one)
    i = Identity(k)
    r = If(c) <then_branch = yes () => (float[N,4,6,6] a2) { a = Identity(i) a2 = Relu(a) },
               else_branch = no () => (float[N,4,6,6] b) { b = Neg(i) }>
  })";

const PassReport& report_of(const RunReport& report, std::string_view name) {
  const auto found = std::find_if(report.passes.begin(), report.passes.end(),
                                  [&](const PassReport& pass) { return pass.name == name; });
  EXPECT_NE(found, report.passes.end()) << name;
  return *found;
}

TEST(RunnerTest, RunsToAFixedPointInBodiesToo) {
  graph::Model model = parse(kSliced, 21, {"w"});
  const RunReport report = run_passes(model, {});
  EXPECT_TRUE(report.converged);
  EXPECT_GE(report.rounds, 2);
  EXPECT_EQ(count(model, "Conv"), 2);
  int identities = 0;
  graph::for_each_graph(model.graph, [&](const graph::Graph& one) {
    for (const graph::NodeId id : one.nodes()) {
      identities += one.node(id).is("Identity") ? 1 : 0;
    }
  });
  EXPECT_EQ(identities, 0);
  EXPECT_EQ(report_of(report, "split_sliced_linear").rewrites.size(), 1U);
  EXPECT_GT(report.rewrites(), 5U);
  onnx::check_model(model);
  EXPECT_EQ(run_passes(model, {}).rewrites(), 0U);
}

TEST(RunnerTest, SkipsByName) {
  graph::Model model = parse(kSliced, 21, {"w"});
  RunOptions options;
  options.skip = {"split_sliced_linear"};
  const RunReport report = run_passes(model, options);
  EXPECT_EQ(count(model, "Conv"), 1);
  EXPECT_EQ(report.passes.size(), pipeline().size() - 1);
}

TEST(RunnerTest, AnUnknownNameIsAnErrorWithTheNearest) {
  graph::Model model = parse(kSliced, 21, {"w"});
  RunOptions options;
  options.skip = {"split_slice_linear"};
  try {
    run_passes(model, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("split_sliced_linear"));
  }
}

TEST(RunnerTest, FixesInputShapes) {
  graph::Model model = parse(kSliced, 21, {"w"});
  RunOptions options;
  options.input_shapes = {{"x", {2, 4, 6, 6}}};
  run_passes(model, options);
  EXPECT_EQ(model.graph.value(model.graph.outputs()[0]).type.dims(), (graph::Dims{2, 4, 6, 6}));
}

TEST(RunnerTest, ShowsTheModelAfterEachPassThatFired) {
  graph::Model model = parse(kSliced, 21, {"w"});
  std::vector<std::string> seen;
  RunOptions options;
  options.after_pass = [&](std::string_view pass, const graph::Model& now) {
    graph::verify(now.graph);
    seen.emplace_back(pass);
  };
  run_passes(model, options);
  EXPECT_THAT(seen, ::testing::Contains("split_sliced_linear"));
  EXPECT_THAT(seen, ::testing::Not(::testing::Contains("fuse_pad")));
}

PassResult always_throws(graph::Graph& graph, const PassContext&) {
  throw Error(ErrorCode::kInternal, "made to fail in " + graph.name);
}

TEST(RunnerTest, NamesThePassThatFailed) {
  graph::Model model = parse(kSliced, 21, {"w"});
  const Step step{{"broken", "fails", always_throws}, "cleanup", ""};
  try {
    run_passes(model, {}, std::span(&step, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.context(), ::testing::ElementsAre("pass broken"));
  }
}

PassResult never_content(graph::Graph&, const PassContext&) { return {{{"x", "again"}}, {}}; }

TEST(RunnerTest, ARunThatDoesNotSettleEnds) {
  graph::Model model = parse(kSliced, 21, {"w"});
  const Step step{{"never_content", "always rewrites", never_content}, "cleanup", ""};
  RunOptions options;
  options.max_rounds = 3;
  const RunReport report = run_passes(model, options, std::span(&step, 1));
  EXPECT_FALSE(report.converged);
  EXPECT_EQ(report.rounds, 3);
}

TEST(PipelineTest, NamesAreUniqueAndSayWhy) {
  std::vector<std::string> names = pass_names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  for (const Step& step : pipeline()) {
    EXPECT_FALSE(step.pass.summary.empty()) << step.pass.name;
    EXPECT_FALSE(step.why_here.empty()) << step.pass.name;
  }
}

// The table in docs/passes.md is this one. TEMPERA_UPDATE_DOCS=1 writes it anew.
TEST(PipelineTest, TheDocumentIsCurrent) {
  constexpr const char* kPath = "docs/passes.md";
  std::stringstream read;
  read << std::ifstream(kPath).rdbuf();
  std::string text = read.str();
  const std::size_t begin = text.find("| pass |");
  ASSERT_NE(begin, std::string::npos) << "run from the source root, where docs/passes.md is";
  const std::size_t end = std::min(text.find("\n\n", begin), text.size() - 1) + 1;
  if (std::getenv("TEMPERA_UPDATE_DOCS") != nullptr) {
    text.replace(begin, end - begin, pipeline_table());
    std::ofstream(kPath) << text;
  }
  EXPECT_EQ(text.substr(begin, pipeline_table().size()), pipeline_table())
      << "stale: run this test with TEMPERA_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace tempera::pass
