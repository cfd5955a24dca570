/// What the writer makes opens elsewhere and computes the same: the ONNX checker and ONNX Runtime (through the Python of the
/// tests) and OpenVINO.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <openvino/openvino.hpp>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/text.h"
#include "tempera/onnx/write.h"
#include "tests/support/models.h"

namespace tempera::onnx {
namespace {
namespace fs = std::filesystem;

class InteropTest : public ::testing::Test {
 protected:
  InteropTest() {
    std::string pattern = (fs::temp_directory_path() / "tempera_interop_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~InteropTest() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path path(const std::string& name) const { return folder_ / (name + ".onnx"); }

  // Lists a written model for check(), to be compared with `original` unless that is empty.
  void expect_equal(const fs::path& original, const fs::path& written, bool openvino = true) {
    manifest_ += fmt::format("{}\t{}\n", original.empty() ? "-" : original.string(), written.string());
    if (openvino) {
      try {
        core_.read_model(written.string());
      } catch (const std::exception& e) {
        ADD_FAILURE() << "OpenVINO refuses " << written << ": " << e.what();
      }
    }
  }

  void check() const {
    const char* python = std::getenv("TEMPERA_TEST_PYTHON");
    const char* source = std::getenv("TEMPERA_SOURCE_DIR");
    if (python == nullptr || source == nullptr || !fs::exists(python)) {
      GTEST_SKIP() << "no Python with onnx and onnxruntime: run through ctest, after tools/setup.sh";
    }
    write_text_file(folder_ / "manifest.txt", manifest_);
    const fs::path report = folder_ / "report.txt";
    const std::string command = fmt::format("'{}' '{}/tests/interop/check_models.py' '{}' > '{}' 2>&1", python, source,
                                            (folder_ / "manifest.txt").string(), report.string());
    EXPECT_EQ(std::system(command.c_str()), 0) << read_text_file(report);
  }

 private:
  fs::path folder_;
  std::string manifest_;
  ov::Core core_;
};

// As one of the forms below; empty when the model has none of that kind.
using Rewrite = graph::Model (*)(const graph::Model&);

struct Form {
  const char* name;
  Rewrite rewrite;
  bool external;
};

constexpr Form kForms[] = {
    {"same", [](const graph::Model& m) { return m; }, false},
    {"external", [](const graph::Model& m) { return m; }, true},
    {"raised", [](const graph::Model& m) { return convert_opset(m, 23); }, false},
    {"lowered", [](const graph::Model& m) { return convert_opset(m, 16); }, false},
    {"inlined", [](const graph::Model& m) { return inline_functions(m); }, false},
};

TEST_F(InteropTest, RealModelsComputeTheSame) {
  for (const fs::path& file : tests::all_models()) {
    if (!fs::exists(fs::path(file).replace_extension(".npz"))) {
      continue;  // without reference inputs, or without its weights
    }
    const graph::Model model = read_model(file);
    for (const Form& form : kForms) {
      const fs::path written = path(fmt::format("{}_{}", file.stem().string(), form.name));
      try {
        WriteOptions options;
        options.max_inline_bytes = form.external ? 0 : options.max_inline_bytes;
        write_model(form.rewrite(model), written, options);
        expect_equal(fs::absolute(file), written);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kUnsupported) << e.text();
        std::cout << file.filename().string() << ", " << form.name << ": " << e.what() << "\n";
      }
    }
  }
  check();
}

TEST_F(InteropTest, FormsOfTheFormatOpenElsewhere) {
  struct Case {
    const char* name;
    bool openvino;
    const char* text;
  };
  const std::vector<Case> cases = {
      {"bodies", true, R"(
        <ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[2] x) => (float[2] y) {
          s = Neg(x)
          y = If (c) <
            then_branch = t () => (float[2] p) { p = Mul(s, x) },
            else_branch = e () => (float[2] q) { q = Abs(s) }
          >
        })"},
      {"loop", true, R"(
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <int64 n = {3}, bool c = {1}> {
          y = Loop (n, c, x) <
            body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] w) { co = Identity(ci) w = Add(v, x) }
          >
        })"},
      {"function", false, R"(
        <ir_version: 9, opset_import: ["" : 19, "local" : 1]>
        g (float[2] x) => (float[2] y) { y = local.f <scale = 3.0> (x) }
        <domain: "local", opset_import: ["" : 19]>
        f <scale: float = 2.0> (a) => (b) { k = Constant <value_float: float = @scale> () b = Mul(a, k) })"},
      {"int4", true, R"(
        <ir_version: 10, opset_import: ["" : 21]>
        g (float[1,4] x) => (float[1,2] y) <int4[4,2] w = {1, -8, 7, 0, 3, 2, -1, 5}, float s = {0.5}> {
          d = DequantizeLinear(w, s)
          y = MatMul(x, d)
        })"},
      {"fp8", true, R"(
        <ir_version: 9, opset_import: ["" : 19]>
        g (float[1,2] x) => (float[1,2] y) <float8e4m3fn[2,2] w = {56, 184, 0, 64}, float s = {0.5}> {
          d = DequantizeLinear(w, s)
          y = MatMul(x, d)
        })"},
      {"half", true, R"(
        <ir_version: 8, opset_import: ["" : 17]>
        g (float16[2] x) => (float16[2] y) <float16[2] w = {15360, 16384}> { y = Mul(x, w) })"},
      {"sequence", false, R"(
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2,2] y) { s = SequenceConstruct(x, x) y = ConcatFromSequence <axis = 0, new_axis = 1> (s) })"},
  };
  for (const Case& one : cases) {
    const graph::Model model = parse_text(one.text);
    const fs::path written = path(one.name);
    write_model(model, written);
    expect_equal(written, written, one.openvino);
    const fs::path flat = path(std::string(one.name) + "_inlined");
    write_model(inline_functions(model), flat);
    expect_equal(written, flat, one.openvino || !model.functions.empty());
  }
  check();
}

TEST_F(InteropTest, ConvertedOperatorsComputeTheSame) {
  // Opset 8 is the oldest whose operators ONNX Runtime still has.
  const std::vector<std::pair<const char*, std::int64_t>> cases = {
      {"g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }", 11},
      {"g (float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax <axis = 0> (x) }", 11},
      {"g (float[1,2,3,4] x) => (float[1,2,6,8] y) { y = Upsample <mode = \"nearest\", scales = [1.0, 1.0, 2.0, 2.0]> (x) }", 8},
      {"g (float[1,2,3,4] x) => (float[1,2,6,8] y) { y = Upsample <mode = \"linear\", scales = [1.0, 1.0, 2.0, 2.0]> (x) }", 8},
      {"g (float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1, 1, 0.6, 0.6}> { y = Resize(x, s) }", 10},
      {"g (float[4,6] x) => (float[2,4] y) { y = Slice <starts = [1, -5], ends = [3, -1], axes = [0, 1]> (x) }", 9},
      {"g (float[4,6] x) => (float[6,8] y) { y = Pad <pads = [1, 1, 1, 1], value = 0.5> (x) }", 10},
      {"g (float[4,6] x) => (float[4,6] y) { y = Clip <min = -0.5, max = 0.5> (x) }", 10},
      {"g (float[4,6] x) => (float[4,2] y, int64[4,2] i) { y, i = TopK <k = 2> (x) }", 9},
      {"g (float[4,6] x) => (float[4,2] y, float[4,4] z) { y, z = Split <axis = 1, split = [2, 4]> (x) }", 12},
      {"g (float[4,6] x) => (float[4,3] y, float[4,3] z) { y, z = Split <axis = 1> (x) }", 12},
      {"g (float[2,3,4] x) => (float[2,1,4] y) { y = ReduceLogSumExp <axes = [1]> (x) }", 13},
      {"g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2] s = {1, 2}, float[2] v = {0.5, 3}> { y = BatchNormalization(x, s, s, s, v) }", 9},
      {"g (float[1,8] x) => (float[1,8] y) { y = Dropout <ratio = 0.3> (x) }", 10},
      {"g (float[1,4,2,2] x) => (float[1,4,2,2] y) <float[2] s = {1, 2}, float[2] b = {0.5, 3}> { y = GroupNormalization <num_groups = 2> (x, s, b) }", 18},
      {"g (float[3] x) => (float[3] y) <int64[2] i = {2, 0}, float[2] u = {5, 6}> { y = Scatter(x, i, u) }", 10},
      {"g (float[1,1,4,4] x, float[1,2,2,2] k) => (float[1,1,2,2] y) { y = GridSample <mode = \"bilinear\"> (x, k) }", 16},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& [text, opset] = cases[i];
    SCOPED_TRACE(text);
    const graph::Model model = parse_graph(text, opset);
    const fs::path original = path(fmt::format("op{}", i));
    write_model(model, original);
    for (const std::int64_t target : {13, 18, 23}) {
      if (target > opset) {
        const fs::path written = path(fmt::format("op{}_opset{}", i, target));
        write_model(convert_opset(model, target), written);
        expect_equal(original, written);
      }
    }
  }
  check();
}

}  // namespace
}  // namespace tempera::onnx
