// Every model at hand through the reader, the checker, the writer and type inference.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/text.h"
#include "tempera/onnx/write.h"
#include "tests/support/models.h"

namespace tempera::onnx {
namespace {
namespace fs = std::filesystem;

// The path of the model, or of a copy beside a file of zeros when its external weights are not there: some models come
// without them, to be made by a script.
fs::path with_weights(const fs::path& model, const fs::path& work) {
  const fs::path weights = model.parent_path() / (model.parent_path().filename().string() + ".weights");
  if (!fs::exists(weights.string() + ".json") || fs::exists(weights)) {
    return model;
  }
  constexpr std::uintmax_t kBytes = 200 << 20;  // sparse
  std::ofstream(work / weights.filename()).close();
  fs::resize_file(work / weights.filename(), kBytes);
  fs::copy_file(model, work / model.filename(), fs::copy_options::overwrite_existing);
  return work / model.filename();
}

TEST(RealModels, SurviveReadingAndWriting) {
  const fs::path work = fs::temp_directory_path() / fmt::format("tempera_onnx_test_{}", ::getpid());
  fs::create_directories(work);
  const fs::path out = work / "out.onnx";
  for (const fs::path& file : tests::all_models()) {
    SCOPED_TRACE(file.string());
    try {
      const graph::Model model = read_model(with_weights(file, work));
      graph::verify(model.graph);
      write_model(model, out);
      const graph::Model again = read_model(out);
      EXPECT_TRUE(graph::same_graph(model.graph, again.graph, true));
      check_model(again);
      graph::Model inferred = again;
      infer_types(inferred);
      graph::for_each_graph(inferred.graph, [](const graph::Graph& g) {
        for (const graph::ValueId id : g.values()) {
          EXPECT_NE(g.value(id).type.kind, graph::ValueType::Kind::kUnknown) << g.value(id).name;
        }
      });
    } catch (const Error& e) {
      ADD_FAILURE() << e.text();
    }
  }
  fs::remove_all(work);
}

}  // namespace
}  // namespace tempera::onnx
