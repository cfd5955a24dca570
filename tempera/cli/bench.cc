#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/probe.h"
#include "tempera/cli/shapes.h"
#include "tempera/cli/shared_options.h"
#include "tempera/data/dataset.h"
#include "tempera/data/recipe.h"
#include "tempera/engine/engines.h"
#include "tempera/engine/measure/ceiling.h"
#include "tempera/engine/measure/cpu.h"
#include "tempera/engine/measure/latency.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/read.h"
#include "tempera/ops/flops.h"
#include "tempera/report/report.h"

namespace tempera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  std::shared_ptr<SharedOptions> shared;
  std::vector<std::string> models;
  std::vector<std::string> shapes;
  std::int64_t runs = 50;
  double seconds = 60;
  bool no_ceiling = false;
  bool profile = false;
};

// One model ready to be timed.
struct Bench {
  std::string name;
  graph::Model model;
  engine::CompileOptions options;
  std::unique_ptr<engine::Session> session;
  std::vector<std::vector<graph::Tensor>> inputs;
  std::optional<std::int64_t> flops;
};

Bench open(const std::string& path, const BenchArguments& arguments, const engine::Engine& engine) {
  Bench bench;
  bench.name = path;
  bench.model = onnx::read_model(path);
  data::Recipe recipe = data::recipe_for(path, bench.model.graph);
  if (!arguments.shapes.empty()) {
    recipe.deploy.shapes = parse_shapes(arguments.shapes);
  }
  bench.options = compile_options(*arguments.shared);
  if (arguments.shared->precision.empty() && !recipe.deploy.precision.empty()) {
    bench.options.precision =
        engine::precision_from_string(recipe.deploy.precision).value_or(engine::Precision::kFloat32);
  }
  bench.options.threads = bench.options.threads > 0 ? bench.options.threads : recipe.deploy.threads;
  bench.options.input_shapes = recipe.deploy.shapes;
  bench.options.properties = recipe.deploy.properties;
  bench.options.profile = arguments.profile;
  bench.session = engine.compile(bench.model, bench.options);
  data::DatasetOptions random;
  random.seed = arguments.shared->seed;
  random.random_samples = 2;
  const auto dataset = data::random_dataset(recipe, bench.model.graph, random);
  std::vector<std::string> names;
  for (const engine::Port& port : bench.session->inputs()) {
    names.push_back(port.name);
  }
  std::map<std::string, graph::Dims> shapes;
  for (std::size_t i = 0; i < 2; ++i) {
    const data::Sample sample = dataset->load(i);
    bench.inputs.push_back(data::arrange_inputs(sample, bench.model.graph, names));
    for (std::size_t k = 0; k < names.size(); ++k) {
      shapes[names[k]] = bench.inputs.back()[k].dims();
    }
  }
  onnx::infer_types(bench.model, shapes);
  const ops::FlopCount flops = ops::count_flops(bench.model.graph);
  if (flops.unknown_nodes == 0) {
    bench.flops = flops.flops;
  }
  return bench;
}

Json ceiling_json(const engine::Ceiling& ceiling) {
  Json json = {
      {"copy_gb_per_s", ceiling.copy_gb_per_s}, {"threads", ceiling.threads}, {"size", ceiling.size}};
  for (const engine::MatmulCeiling& matmul : ceiling.matmul) {
    json["matmul"].push_back(
        {{"format", matmul.format}, {"gflop_per_s", matmul.gflop_per_s}, {"kernel", matmul.kernel}});
  }
  return json;
}

double ceiling_of(const engine::Ceiling& ceiling, engine::Precision precision) {
  for (const engine::MatmulCeiling& matmul : ceiling.matmul) {
    if (matmul.format == engine::to_string(precision)) {
      return matmul.gflop_per_s;
    }
  }
  return 0.0;
}

Json bench_json(const Bench& bench, const engine::Timing& timing, const std::string& engine,
                const engine::Ceiling* ceiling) {
  const Probe memory = probe(bench.name, engine, bench.options);
  Json json = {{"model", bench.name},
               {"engine", engine},
               {"precision", engine::to_string(bench.options.precision)},
               {"min_ms", timing.latency.min_ms},
               {"median_ms", timing.latency.median_ms},
               {"p95_ms", timing.latency.p95_ms},
               {"runs_per_s", 1e3 / timing.latency.median_ms},
               {"runs", timing.latency.runs},
               {"read_ms", memory.read_ms},
               {"compile_ms", memory.compile_ms},
               {"first_run_ms", memory.first_run_ms},
               {"peak_bytes", memory.peak_bytes},
               {"file_bytes", std::filesystem::file_size(bench.name)}};
  if (bench.flops.has_value()) {
    const double rate = static_cast<double>(*bench.flops) / (timing.latency.median_ms * 1e6);
    json["flops"] = *bench.flops;
    json["gflop_per_s"] = rate;
    if (const double limit = ceiling != nullptr ? ceiling_of(*ceiling, bench.options.precision) : 0.0;
        limit > 0) {
      json["share_of_ceiling"] = rate / limit;
      json["ceiling_ms"] = static_cast<double>(*bench.flops) / (limit * 1e6);
    }
  }
  json["speedup"] = {{"median", timing.speedup.median},
                     {"lower95", timing.speedup.lower95},
                     {"noise", timing.speedup.noise},
                     {"faster", timing.speedup.faster()}};
  return json;
}

void print_text(const Json& json) {
  if (json.contains("ceiling")) {
    fmt::print("{}\nceilings of {} threads:", json["cpu"].get<std::string>(),
               json["ceiling"]["threads"].get<int>());
    for (const Json& matmul : json["ceiling"]["matmul"]) {
      fmt::print("  {} {:.0f} GFLOP/s", matmul["format"].get<std::string>(),
                 matmul["gflop_per_s"].get<double>());
    }
    fmt::print("  copy {:.1f} GB/s\n\n", json["ceiling"]["copy_gb_per_s"].get<double>());
  }
  const bool several = json["models"].size() > 1;
  for (const Json& row : json["models"]) {
    fmt::print(
        "{} ({}, {})\n  min {:.2f} ms, median {:.2f} ms, p95 {:.2f} ms over {} runs: {:.1f} a second\n",
        row["model"].get<std::string>(), row["engine"].get<std::string>(),
        row["precision"].get<std::string>(), row["min_ms"].get<double>(), row["median_ms"].get<double>(),
        row["p95_ms"].get<double>(), row["runs"].get<std::int64_t>(), row["runs_per_s"].get<double>());
    fmt::print("  read {:.0f} ms, compile {:.0f} ms, first run {:.0f} ms, peak memory {}, file {}\n",
               row["read_ms"].get<double>(), row["compile_ms"].get<double>(),
               row["first_run_ms"].get<double>(), report::human_bytes(row["peak_bytes"].get<std::int64_t>()),
               report::human_bytes(row["file_bytes"].get<std::int64_t>()));
    if (row.contains("gflop_per_s")) {
      fmt::print("  {:.3g} GFLOP a run, {:.0f} GFLOP/s", row["flops"].get<double>() / 1e9,
                 row["gflop_per_s"].get<double>());
      if (row.contains("share_of_ceiling")) {
        fmt::print(": {:.0f} % of the matmul ceiling, which would take {:.2f} ms",
                   100 * row["share_of_ceiling"].get<double>(), row["ceiling_ms"].get<double>());
      }
      fmt::print("\n");
    }
    if (several && &row != &json["models"].front()) {
      fmt::print("  {:.2f} times as fast as the first (at least {:.2f}, the first against itself {:.2f})\n",
                 row["speedup"]["median"].get<double>(), row["speedup"]["lower95"].get<double>(),
                 row["speedup"]["noise"].get<double>());
    }
    if (row.contains("nodes")) {
      for (const Json& node : row["nodes"]) {
        fmt::print("  {:>9.0f} us  {:<22} {:<34} {}\n", node["us"].get<double>(),
                   node["operator"].get<std::string>(), node["kernel"].get<std::string>(),
                   node["node"].get<std::string>());
      }
    }
  }
}

void run_bench(const BenchArguments& arguments) {
  Terminal terminal(*arguments.shared);
  const Host host = terminal.host();
  const auto engine = engine::make_engine(arguments.shared->engine);
  std::vector<Bench> benches;
  for (const std::string& path : arguments.models) {
    host.progress.begin("compiling " + path, 0);
    benches.push_back(open(path, arguments, *engine));
  }
  std::vector<engine::Timed> timed;
  for (const Bench& bench : benches) {
    timed.push_back({bench.session.get(), bench.inputs});
  }
  engine::TimingOptions timing;
  timing.pairs = arguments.runs;
  timing.max_seconds = arguments.seconds;
  const std::vector<engine::Timing> timings = engine::time_interleaved(timed, timing, host);
  std::optional<engine::Ceiling> ceiling;
  if (!arguments.no_ceiling) {
    engine::CeilingOptions options;
    options.threads = arguments.shared->threads;
    ceiling = engine::measure_ceiling(*engine, options, host);
  }
  Json json = {{"cpu", engine::to_string(engine::cpu_info())}, {"models", Json::array()}};
  if (ceiling.has_value()) {
    json["ceiling"] = ceiling_json(*ceiling);
  }
  for (std::size_t i = 0; i < benches.size(); ++i) {
    host.progress.begin("measuring memory", 0);
    Json row = bench_json(benches[i], timings[i], arguments.shared->engine, ceiling ? &*ceiling : nullptr);
    if (arguments.profile) {
      for (const engine::NodeTime& node : benches[i].session->profile()) {
        row["nodes"].push_back(
            {{"node", node.node}, {"operator", node.op_type}, {"kernel", node.kernel}, {"us", node.time_us}});
      }
    }
    json["models"].push_back(std::move(row));
  }
  host.progress.end();
  if (arguments.shared->json) {
    std::puts(json.dump(2).c_str());
  } else {
    print_text(json);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  const auto arguments = std::make_shared<BenchArguments>();
  app.add_option("models", arguments->models,
                 "one model, or several that are timed in turn against the first")
      ->required();
  app.add_option("--shape", arguments->shapes, "fix an input's shape, as NAME=1,3,224,224; may be repeated")
      ->take_all();
  app.add_option("--runs", arguments->runs, "runs of each")
      ->check(CLI::Range(5, 1000000))
      ->capture_default_str();
  app.add_option("--seconds", arguments->seconds, "stop earlier after this time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--no-ceiling", arguments->no_ceiling,
               "do not measure the machine's matmul and memory ceilings");
  app.add_flag("--profile", arguments->profile, "time per node (slows the run a little)");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption | kCacheOption);
  app.footer("Example: tempera bench model.onnx --precision bf16");
  app.callback([arguments] { run_bench(*arguments); });
}

}  // namespace tempera::cli
