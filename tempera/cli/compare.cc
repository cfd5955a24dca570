#include "tempera/engine/compare.h"

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/shared_options.h"
#include "tempera/engine/engines.h"
#include "tempera/onnx/read.h"
#include "tempera/optimize/subject.h"

namespace tempera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CompareArguments {
  std::shared_ptr<SharedOptions> shared;
  std::string a;
  std::string b;
  std::vector<std::string> data;
  std::string recipe;
  std::vector<std::string> engines;
  std::vector<std::string> precisions;
  double tolerance = 1e-3;
  std::size_t samples = 4;
  bool outputs_only = false;
};

Json tensor_json(const engine::Compared& tensor) {
  const graph::TensorError& worst = tensor.samples.at(tensor.worst_sample());
  Json json = {{"name", tensor.name},
               {"relative_l2", worst.relative_l2},
               {"mean_relative_l2", tensor.mean_relative_l2()},
               {"max_abs", worst.max_abs},
               {"sqnr_db", worst.sqnr_db},
               {"worst_index", worst.worst_index},
               {"a", worst.worst_a},
               {"b", worst.worst_b},
               {"diverges", tensor.diverges}};
  if (!tensor.node.empty()) {
    json["node"] = tensor.node;
    json["operator"] = tensor.op_type;
  }
  if (!worst.mismatch.empty()) {
    json["mismatch"] = worst.mismatch;
  }
  if (worst.non_finite_pairs > 0) {
    json["non_finite"] = worst.non_finite_pairs;
  }
  return json;
}

Json report_json(const engine::CompareReport& report) {
  Json json = {{"diverges", report.diverges()}, {"outputs", Json::array()}, {"tensors", Json::array()}};
  for (const engine::Compared& output : report.outputs) {
    json["outputs"].push_back(tensor_json(output));
  }
  for (const engine::Compared& tensor : report.tensors) {
    json["tensors"].push_back(tensor_json(tensor));
  }
  if (report.first_divergence.has_value()) {
    const auto& where = report.tensors.empty() ? report.outputs : report.tensors;
    json["first_divergence"] = tensor_json(where.at(*report.first_divergence));
  }
  json["derived"] = report.derived;
  json["only_in_first"] = report.only_a;
  json["only_in_second"] = report.only_b;
  return json;
}

void print_row(const Json& row) {
  fmt::print("  {:<44} {:>10.2e} {:>10.2e} {:>8.1f}  {}{}\n", row["name"].get<std::string>(),
             row["relative_l2"].get<double>(), row["max_abs"].get<double>(), row["sqnr_db"].get<double>(),
             row.value("operator", ""), row["diverges"].get<bool>() ? "  diverges" : "");
}

void print_text(const Json& json, bool all) {
  fmt::print("  {:<44} {:>10} {:>10} {:>8}\n", "output (worst sample)", "rel. L2", "max abs", "SQNR dB");
  for (const Json& row : json["outputs"]) {
    print_row(row);
  }
  if (!json["tensors"].empty()) {
    std::size_t diverging = 0;
    for (const Json& row : json["tensors"]) {
      diverging += row["diverges"].get<bool>() ? 1 : 0;
    }
    fmt::print("\n{} inner tensors stand for the same in both; {} diverge\n", json["tensors"].size(),
               diverging);
    for (const Json& row : json["tensors"]) {
      if (all || row["diverges"].get<bool>()) {
        print_row(row);
      }
    }
  }
  if (json.contains("first_divergence")) {
    const Json& first = json["first_divergence"];
    fmt::print("\nfirst divergence: '{}' at node '{}' ({}): element {} is {:.6g} against {:.6g}\n",
               first["name"].get<std::string>(), first.value("node", ""), first.value("operator", ""),
               first["worst_index"].dump(), first["a"].get<double>(), first["b"].get<double>());
  } else {
    fmt::print("\nno tensor diverges\n");
  }
  if (!json["derived"].empty() || !json["only_in_first"].empty() || !json["only_in_second"].empty()) {
    fmt::print("unmatched: {} only in the first, {} only in the second, {} hold other numbers\n", json["only_in_first"].size(),
               json["only_in_second"].size(), json["derived"].size());
  }
  constexpr std::size_t kListed = 10;
  for (const char* list : {"only_in_first", "only_in_second", "derived"}) {
    const std::size_t shown = all ? json[list].size() : std::min(json[list].size(), kListed);
    for (std::size_t i = 0; i < shown; ++i) {
      fmt::print("  {}: {}\n", list, json[list][i].get<std::string>());
    }
    if (shown < json[list].size()) {
      fmt::print("  {}: and {} more (-v lists them)\n", list, json[list].size() - shown);
    }
  }
}

// "a" or "a,b": the value for one side.
std::string of_side(const std::vector<std::string>& values, std::size_t side, const std::string& fallback) {
  return values.empty() ? fallback : values[std::min(side, values.size() - 1)];
}

void run_compare(const CompareArguments& arguments) {
  Terminal terminal(*arguments.shared);
  const Host host = terminal.host();
  optimize::SubjectOptions options;
  options.model = arguments.a;
  options.recipe = arguments.recipe;
  options.seed = arguments.shared->seed;
  for (const std::string& path : arguments.data) {
    if (path != "random") {
      options.data.emplace_back(path);
    }
  }
  const optimize::Subject subject = optimize::load_subject(options, host);
  const graph::Model second = onnx::read_model(arguments.b.empty() ? arguments.a : arguments.b);
  engine::Side sides[2];
  std::unique_ptr<engine::Engine> engines[2];
  for (std::size_t side = 0; side < 2; ++side) {
    const std::string name = of_side(arguments.engines, side, arguments.shared->engine);
    engines[side] = engine::make_engine(name);
    SharedOptions own = *arguments.shared;
    own.precision = of_side(arguments.precisions, side, arguments.shared->precision);
    sides[side] = {side == 0 ? &subject.model : &second, engines[side].get(), compile_options(own)};
    sides[side].options.input_shapes = subject.input_shapes;
    sides[side].options.exact = own.precision.empty() || own.precision == "f32";
  }
  std::vector<std::vector<graph::Tensor>> samples;
  for (std::size_t i = 0; i < subject.dataset->samples().size() && i < arguments.samples; ++i) {
    samples.push_back(subject.dataset->load(i).inputs);
  }
  engine::CompareOptions compare;
  compare.tensors = !arguments.outputs_only;
  compare.tolerance = arguments.tolerance;
  const engine::CompareReport report = engine::compare(sides[0], sides[1], samples, compare, host);
  const Json json = report_json(report);
  if (arguments.shared->json) {
    std::puts(json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    print_text(json, arguments.shared->verbosity > 0);
  }
  bool outputs_diverge = false;
  for (const engine::Compared& output : report.outputs) {
    outputs_diverge = outputs_diverge || output.diverges;
  }
  if (outputs_diverge) {
    throw Error(ErrorCode::kLossBudget,
                fmt::format("outputs differ by more than {:g} (relative L2)", arguments.tolerance),
                "--tolerance sets what may differ");
  }
}

}  // namespace

void add_compare(CLI::App& app) {
  const auto arguments = std::make_shared<CompareArguments>();
  app.add_option("a", arguments->a, "the first model: the reference")->required();
  app.add_option("b", arguments->b, "the second model (default: the first, for comparing engines)");
  app.add_option("--data", arguments->data, "files and folders of inputs, or 'random' (the default)");
  app.add_option("--recipe", arguments->recipe,
                 "how to feed the models (default: the first's, else a guess)");
  app.add_option("--engines", arguments->engines, "one engine for both, or one each: openvino,torch")
      ->delimiter(',')
      ->expected(1, 2);
  app.add_option("--precisions", arguments->precisions, "likewise: f32,bf16")->delimiter(',')->expected(1, 2);
  app.add_option("--tolerance", arguments->tolerance, "relative L2 error from which a tensor diverges")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--samples", arguments->samples, "samples compared")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_flag("--outputs-only", arguments->outputs_only, "do not compare inner tensors");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption);
  app.footer(
      "Example: tempera compare original.onnx fast/model.onnx --data photos/\n         tempera compare "
      "model.onnx --engines torch,openvino");
  app.callback([arguments] { run_compare(*arguments); });
}

}  // namespace tempera::cli
