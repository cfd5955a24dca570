// A model of 3 GiB with external data, from file to result: time and resident memory of each stage.
//
// usage: big_model_bench [--layers N] [--folder FOLDER]
//
// N products of a row by an 8192 x 8192 float matrix (256 MiB each; 12 by default) are written to FOLDER (a temporary
// one by default, removed afterwards), then read, compiled and run in a child process of their own.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"
#include "tempera/engine/measure/memory.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/write.h"

namespace {

namespace fs = std::filesystem;
using namespace tempera;

constexpr std::int64_t kSize = 8192;

struct Arguments {
  int layers = 12;
  fs::path folder;
};

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string_view name = values[i];
    if (i + 1 == count || (name != "--layers" && name != "--folder")) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("unknown argument '{}'", name),
                  "big_model_bench [--layers N] [--folder FOLDER]");
    }
    const std::string value = values[++i];
    if (name == "--layers") {
      arguments.layers = std::stoi(value);
    } else {
      arguments.folder = value;
    }
  }
  return arguments;
}

graph::Tensor random_weight(std::uint64_t draw) {
  auto weight = graph::Tensor::allocate(graph::DataType::kFloat32, {kSize, kSize});
  CounterRng(1, draw).fill_uniform(weight.values<float>());
  const float scale = 3.46F / std::sqrt(static_cast<float>(kSize));  // variance 1 / kSize: the row keeps its size
  for (float& value : weight.values<float>()) {
    value = (value - 0.5F) * scale;
  }
  return weight.tensor;
}

graph::Model make_model(int layers) {
  graph::Model model;
  model.ir_version = 10;
  model.opsets[""] = 21;
  model.graph.name = "big";
  const auto type = graph::ValueType::tensor(graph::DataType::kFloat32, graph::shape_of({1, kSize}));
  graph::ValueId row = model.graph.add_input("x", type);
  for (int layer = 0; layer < layers; ++layer) {
    const auto w = model.graph.add_initializer(fmt::format("w{}", layer), random_weight(static_cast<std::uint64_t>(layer)));
    row = model.graph.add_node("MatMul", {row, w}, fmt::format("y{}", layer));
  }
  model.graph.set_type(row, type);
  model.graph.add_output(row);
  return model;
}

class Stages {
 public:
  void done(std::string_view stage) {
    const auto now = std::chrono::steady_clock::now();
    const engine::ResidentMemory memory = engine::resident_memory();
    fmt::print("| {} | {:.2f} | {} | {} | {} |\n", stage, std::chrono::duration<double>(now - last_).count(),
               memory.now_bytes / 1'000'000, memory.anonymous_bytes / 1'000'000, memory.peak_bytes / 1'000'000);
    std::fflush(stdout);
    last_ = now;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

void read_compile_run(const fs::path& file, engine::Precision precision) {
  Stages stages;
  const auto engine = engine::make_openvino_engine();
  stages.done("start the engine");
  graph::Model model = onnx::read_model(file);
  stages.done("read");
  engine::CompileOptions options;
  options.precision = precision;
  const auto session = engine->compile(model, options);
  stages.done("compile");
  model = {};
  auto x = graph::Tensor::allocate(graph::DataType::kFloat32, {1, kSize});
  CounterRng(2).fill_normal(x.values<float>());
  const std::vector<graph::Tensor> inputs{x.tensor};
  (void)session->run(inputs);
  stages.done("first run");
  const auto outputs = session->run(inputs);
  stages.done("second run");
  if (!std::isfinite(outputs.at(0).values<float>()[0])) {
    throw Error(ErrorCode::kEngineFailed, "the output is not finite");
  }
}

int run(const Arguments& given) {
  const bool temporary = given.folder.empty();
  const fs::path folder = temporary ? fs::temp_directory_path() / fmt::format("tempera_big_model_{}", ::getpid()) : given.folder;
  fs::create_directories(folder);
  const fs::path file = folder / "big.onnx";
  onnx::write_model(make_model(given.layers), file);
  for (const engine::Precision precision : {engine::Precision::kFloat32, engine::Precision::kBfloat16}) {
    fmt::print("\nmodel of {} MB, {}\n\n", given.layers * kSize * kSize * 4 / 1'000'000, engine::to_string(precision));
    fmt::print("| stage | s | resident MB | of it not from files MB | peak MB |\n| --- | --- | --- | --- | --- |\n");
    std::fflush(stdout);
    try {
      (void)engine::peak_memory_in_child([&] { read_compile_run(file, precision); });
    } catch (const Error& e) {
      fmt::print("{}", e.text());
    }
  }
  if (temporary) {
    fs::remove_all(folder);
  }
  return 0;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run(parse(count, values));
  } catch (const tempera::Error& e) {
    fmt::print(stderr, "{}", e.text());
    return tempera::exit_code(e.code());
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 2;
  }
}
