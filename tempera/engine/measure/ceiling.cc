#include "tempera/engine/measure/ceiling.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"

namespace tempera::engine {
namespace {

using graph::DataType;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;

constexpr std::uint64_t kSeed = 20;

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fastest of as many runs as the budget allows, at least three after one that warms up.
double fastest_ms(double budget_ms, const Host& host, const std::function<void()>& run) {
  run();
  const double begin = now_ms();
  double fastest = INFINITY;
  for (int i = 0; i < 3 || now_ms() - begin < budget_ms; ++i) {
    host.cancel.throw_if_cancelled();
    const double start = now_ms();
    run();
    fastest = std::min(fastest, now_ms() - start);
  }
  return fastest;
}

// Entries of variance 1 / size keep the products' entries of order 1, whatever the depth.
Tensor random_floats(std::int64_t size, std::uint64_t draw) {
  auto made = Tensor::allocate(DataType::kFloat32, {size, size});
  const auto values = made.values<float>();
  CounterRng(kSeed, draw).fill_normal(values);
  const float scale = 1.0F / std::sqrt(static_cast<float>(size));
  std::for_each(values.begin(), values.end(), [scale](float& value) { value *= scale; });
  return made.tensor;
}

Tensor random_int8(std::int64_t size, std::uint64_t draw) {
  auto made = Tensor::allocate(DataType::kInt8, {size, size});
  const auto values = made.values<std::int8_t>();
  const CounterRng random(kSeed, draw);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int8_t>(static_cast<int>(random.below(i, 255)) - 127);
  }
  return made.tensor;
}

ValueId quantized(Graph& graph, ValueId x, float scale, const std::string& name) {
  const ValueId s = graph.add_initializer(name + "_scale", Tensor::scalar(scale));
  const ValueId z = graph.add_initializer(name + "_zero", Tensor::scalar<std::int8_t>(0));
  const ValueId q = graph.add_node("QuantizeLinear", {x, s, z}, name + "_q");
  return graph.add_node("DequantizeLinear", {q, s, z}, name + "_dq");
}

ValueId int8_weight(Graph& graph, std::int64_t size, int layer) {
  const std::string name = fmt::format("w{}", layer);
  const ValueId w = graph.add_initializer(name, random_int8(size, static_cast<std::uint64_t>(layer)));
  // 127 steps are about three standard deviations of 1 / sqrt(size).
  const float scale = 3.0F / (127.0F * std::sqrt(static_cast<float>(size)));
  const ValueId s = graph.add_initializer(name + "_scale", Tensor::scalar(scale));
  const ValueId z = graph.add_initializer(name + "_zero", Tensor::scalar<std::int8_t>(0));
  return graph.add_node("DequantizeLinear", {w, s, z}, name + "_dq");
}

std::string busiest_matmul(const Session& session) {
  const std::vector<NodeTime> times = session.profile();
  const auto found = std::find_if(times.begin(), times.end(), [](const NodeTime& t) { return t.from_model; });
  return found == times.end() ? std::string{} : found->kernel;
}

MatmulCeiling measure_matmul(const Engine& engine, std::string format, Precision precision, bool int8,
                             const CeilingOptions& options, const Host& host) {
  const graph::Model model = matmul_chain(options.size, options.depth, int8);
  const std::vector<Tensor> inputs{random_floats(options.size, 0)};
  CompileOptions compile;
  compile.precision = precision;
  compile.threads = options.threads;
  const auto session = engine.compile(model, compile);
  const double ms = fastest_ms(options.budget_ms, host, [&] { (void)session->run(inputs); });
  compile.profile = true;
  const auto profiled = engine.compile(model, compile);
  (void)profiled->run(inputs);
  const double operations = 2.0 * std::pow(static_cast<double>(options.size), 3) * options.depth;
  return {std::move(format), operations / (ms * 1e6), busiest_matmul(*profiled)};
}

double measure_copy(const CeilingOptions& options, int threads, const Host& host) {
  const auto bytes = static_cast<std::size_t>(options.copy_bytes);
  const std::unique_ptr<char[]> source(new char[bytes]);
  const std::unique_ptr<char[]> target(new char[bytes]);
  std::memset(source.get(), 1, bytes);
  std::memset(target.get(), 2, bytes);
  const std::size_t part = bytes / static_cast<std::size_t>(threads);
  const double ms = fastest_ms(options.budget_ms, host, [&] {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) {
      const std::size_t offset = part * static_cast<std::size_t>(i);
      workers.emplace_back([&, offset] { std::memcpy(target.get() + offset, source.get() + offset, part); });
    }
  });
  return 2.0 * static_cast<double>(part) * threads / (ms * 1e6);
}

}  // namespace

graph::Model matmul_chain(std::int64_t size, int depth, bool int8) {
  graph::Model model;
  model.ir_version = 10;
  model.opsets[""] = 21;
  Graph& graph = model.graph;
  graph.name = "matmul_chain";
  const auto type = graph::ValueType::tensor(DataType::kFloat32, graph::shape_of({size, size}));
  ValueId x = graph.add_input("x", type);
  for (int layer = 1; layer <= depth; ++layer) {
    ValueId w;
    if (int8) {
      x = quantized(graph, x, 4.0F / 127.0F, fmt::format("x{}", layer));
      w = int8_weight(graph, size, layer);
    } else {
      w = graph.add_initializer(fmt::format("w{}", layer), random_floats(size, static_cast<std::uint64_t>(layer)));
    }
    x = graph.add_node("MatMul", {x, w}, fmt::format("y{}", layer));
  }
  graph.set_type(x, type);
  graph.add_output(x);
  return model;
}

Ceiling measure_ceiling(const Engine& engine, const CeilingOptions& options, const Host& host) {
  if (options.size < 1 || options.depth < 1 || options.copy_bytes < 1) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("matrices of size {}, depth {} and copies of {} bytes", options.size,
                                                         options.depth, options.copy_bytes));
  }
  Ceiling ceiling;
  ceiling.size = options.size;
  ceiling.threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const std::vector<Precision>& precisions = engine.attributes().precisions;
  host.progress.begin("measuring the machine", static_cast<std::int64_t>(precisions.size()) + 2);
  for (const Precision precision : precisions) {
    ceiling.matmul.push_back(
        measure_matmul(engine, std::string(to_string(precision)), precision, false, options, host));
    host.progress.advance();
  }
  ceiling.matmul.push_back(measure_matmul(engine, "int8", Precision::kFloat32, true, options, host));
  host.progress.advance();
  ceiling.copy_gb_per_s = measure_copy(options, ceiling.threads, host);
  host.progress.advance();
  host.progress.end();
  return ceiling;
}

}  // namespace tempera::engine
