#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/shapes.h"
#include "tempera/cli/shared_options.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/placement.h"
#include "tempera/data/recipe.h"
#include "tempera/engine/engines.h"
#include "tempera/graph/model.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/text.h"
#include "tempera/ops/flops.h"
#include "tempera/ops/operators.h"
#include "tempera/pass/pipeline.h"
#include "tempera/report/report.h"

namespace tempera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct InspectArguments {
  std::shared_ptr<SharedOptions> shared;
  std::string model;
  std::string node;
  std::vector<std::string> shapes;
  bool list_passes = false;
  bool text = false;
};

Json ports_json(const graph::Graph& graph, const std::vector<graph::ValueId>& ids) {
  Json ports = Json::array();
  for (const graph::ValueId id : ids) {
    ports.push_back({{"name", graph.value(id).name}, {"type", graph::to_string(graph.value(id).type)}});
  }
  return ports;
}

Json operators_json(const graph::Graph& graph) {
  struct Row {
    std::int64_t nodes = 0;
    std::int64_t flops = 0;
  };
  std::map<std::string, Row> rows;
  graph::for_each_graph(graph, [&](const graph::Graph& inner) {
    for (const graph::NodeId id : inner.nodes()) {
      const graph::Node& node = inner.node(id);
      Row& row = rows[node.domain.empty() ? node.op_type : node.domain + "." + node.op_type];
      ++row.nodes;
      row.flops += ops::flops(inner, id).value_or(0);
    }
  });
  Json operators = Json::array();
  for (const auto& [name, row] : rows) {
    operators.push_back({{"operator", name}, {"nodes", row.nodes}, {"flops", row.flops}});
  }
  std::stable_sort(operators.begin(), operators.end(),
                   [](const Json& a, const Json& b) { return a["flops"] > b["flops"]; });
  return operators;
}

Json support_json(const graph::Model& model) {
  Json support = Json::array();
  for (const engine::EngineEntry& entry : engine::engines()) {
    Json row = {{"engine", entry.name}};
    try {
      Json nodes = Json::array();
      for (const engine::Unsupported& node : entry.make()->unsupported(model)) {
        nodes.push_back({{"node", node.node}, {"operator", node.op_type}, {"reason", node.reason}});
      }
      row["unsupported"] = nodes;
    } catch (const Error& error) {
      row["error"] = error.what();
    }
    support.push_back(row);
  }
  return support;
}

// What `quantize --scheme int8 --target T` would make of the layers with weights.
Json targets_json(const graph::Model& model) {
  const std::vector<compress::Layer> layers = compress::find_layers(model.graph);
  Json targets = Json::array();
  for (const compress::Target target : {compress::Target::kOpenvino, compress::Target::kOnnxruntime,
                                        compress::Target::kTensorrt, compress::Target::kPortable}) {
    std::map<std::string, std::int64_t> reasons;
    std::int64_t quantised = 0;
    for (const compress::Layer& layer : layers) {
      const std::string reason = compress::reason_to_stay_float(model.graph, layer, target);
      reason.empty() ? ++quantised : ++reasons[reason];
    }
    Json row = {{"target", compress::to_string(target)}, {"layers", layers.size()}, {"int8", quantised}, {"float", Json::array()}};
    for (const auto& [reason, count] : reasons) {
      row["float"].push_back({{"layers", count}, {"reason", reason}});
    }
    targets.push_back(std::move(row));
  }
  return targets;
}

Json inspect_json(const graph::Model& model, const std::filesystem::path& path) {
  const graph::WeightSize weights = graph::weight_size(model.graph);
  const ops::FlopCount flops = ops::count_flops(model.graph);
  std::size_t nodes = 0;
  graph::for_each_graph(model.graph, [&](const graph::Graph& inner) { nodes += inner.node_count(); });
  Json opsets = Json::object();
  for (const auto& [domain, version] : model.opsets) {
    opsets[domain.empty() ? "ai.onnx" : domain] = version;
  }
  return {{"model", path.string()},
          {"file_bytes", std::filesystem::file_size(path)},
          {"ir_version", model.ir_version},
          {"opsets", opsets},
          {"producer", fmt::format("{} {}", model.producer_name, model.producer_version)},
          {"functions", model.functions.size()},
          {"inputs", ports_json(model.graph, model.graph.inputs())},
          {"outputs", ports_json(model.graph, model.graph.outputs())},
          {"nodes", nodes},
          {"parameters", weights.elements},
          {"weight_bytes", weights.bytes},
          {"flops", flops.flops},
          {"nodes_with_unknown_flops", flops.unknown_nodes},
          {"operators", operators_json(model.graph)},
          {"support", support_json(model)},
          {"targets", targets_json(model)}};
}

std::string si(double value) {
  for (const char* unit : {"", " k", " M", " G", " T"}) {
    if (value < 999.5 || std::string_view(unit) == " T") {
      return fmt::format("{:.3g}{}", value, unit);
    }
    value /= 1000;
  }
  return {};
}

void print_text(const Json& json) {
  fmt::print("{}, {}\n", json["model"].get<std::string>(), report::human_bytes(json["file_bytes"].get<std::int64_t>()));
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : json["opsets"].items()) {
    opsets.push_back(fmt::format("{} {}", domain, version.get<std::int64_t>()));
  }
  fmt::print("  written by {} as IR {}, opset {}\n", json["producer"].get<std::string>(),
             json["ir_version"].get<std::int64_t>(), fmt::join(opsets, ", "));
  for (const char* side : {"inputs", "outputs"}) {
    for (const Json& port : json[side]) {
      fmt::print("  {:<8} {}  {}\n", std::string(side, std::string_view(side).size() - 1),
                 port["name"].get<std::string>(), port["type"].get<std::string>());
    }
  }
  const auto unknown = json["nodes_with_unknown_flops"].get<std::int64_t>();
  fmt::print("  {} parameters ({}), {} nodes, {}FLOP a run{}\n\n", si(json["parameters"].get<double>()),
             report::human_bytes(json["weight_bytes"].get<std::int64_t>()), json["nodes"].get<std::int64_t>(),
             si(json["flops"].get<double>()) + (json["flops"].get<double>() < 999.5 ? " " : ""),
             unknown > 0
                 ? fmt::format(" besides {} nodes of unknown shape: give --shape NAME=1,3,224,224", unknown)
                 : "");
  fmt::print("  {:<28}{:>8}{:>12}\n", "operator", "nodes", "FLOP");
  for (const Json& row : json["operators"]) {
    const auto flops = row["flops"].get<double>();
    fmt::print("  {:<28}{:>8}{:>12}\n", row["operator"].get<std::string>(), row["nodes"].get<std::int64_t>(),
               flops > 0 ? si(flops) : "");
  }
  for (const Json& row : json["support"]) {
    if (row.contains("error")) {
      fmt::print("\n  {}: not usable here: {}\n", row["engine"].get<std::string>(),
                 row["error"].get<std::string>());
    } else if (row["unsupported"].empty()) {
      fmt::print("\n  {}: runs every node\n", row["engine"].get<std::string>());
    } else {
      fmt::print("\n  {}: cannot run {} nodes\n", row["engine"].get<std::string>(),
                 row["unsupported"].size());
      for (const Json& node : row["unsupported"]) {
        fmt::print("    {} ({}): {}\n", node["node"].get<std::string>(), node["operator"].get<std::string>(),
                   node["reason"].get<std::string>());
      }
    }
  }
  fmt::print("\n  {:<14}{:>14}  to be quantised to int8 for it; layers that stay in float\n", "target", "layers");
  for (const Json& row : json["targets"]) {
    std::vector<std::string> reasons;
    for (const Json& part : row["float"]) {
      reasons.push_back(fmt::format("{}: {}", part["layers"].get<std::int64_t>(), part["reason"].get<std::string>()));
    }
    fmt::print("  {:<14}{:>14}  {}\n", row["target"].get<std::string>(),
               fmt::format("{} of {}", row["int8"].get<std::int64_t>(), row["layers"].get<std::size_t>()),
               fmt::join(reasons, "; "));
  }
}

void print_node(const graph::Graph& graph, const std::string& name) {
  std::vector<std::string> known;
  for (const graph::NodeId id : graph.nodes()) {
    known.push_back(graph.node(id).name);
  }
  const std::optional<graph::NodeId> found = graph.find_node(name);
  if (!found.has_value()) {
    throw Error(ErrorCode::kNotFound, unknown_name("node", name, known));
  }
  const graph::Node& node = graph.node(*found);
  fmt::print("{}\n", graph.describe(*found));
  const auto print_values = [&](const char* side, const std::vector<graph::ValueId>& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (!ids[i].valid()) {
        fmt::print("  {} {}: left out\n", side, i);
        continue;
      }
      const graph::Value& value = graph.value(ids[i]);
      fmt::print("  {} {}: {}  {}{}\n", side, i, value.name, graph::to_string(value.type),
                 value.constant.has_value() ? "  constant" : "");
    }
  };
  print_values("input", node.inputs);
  print_values("output", node.outputs);
  for (const auto& [key, attribute] : node.attributes) {
    const auto* number = std::get_if<std::int64_t>(&attribute);
    const auto* real = std::get_if<float>(&attribute);
    const auto* text = std::get_if<std::string>(&attribute);
    const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute);
    fmt::print("  {} = {}\n", key,
               number != nullptr ? std::to_string(*number)
               : real != nullptr ? fmt::format("{}", *real)
               : text != nullptr ? *text
               : list != nullptr ? fmt::format("[{}]", fmt::join(*list, ","))
                                 : std::string("..."));
  }
}

void run_inspect(const InspectArguments& arguments) {
  if (arguments.list_passes) {
    std::fputs(pass::pipeline_table().c_str(), stdout);
    return;
  }
  if (arguments.model.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a model is missing", "tempera inspect model.onnx");
  }
  graph::Model model = onnx::read_model(arguments.model);
  if (arguments.text) {
    std::puts(onnx::print_text(model).c_str());
    return;
  }
  std::map<std::string, graph::Dims> shapes = parse_shapes(arguments.shapes);
  if (shapes.empty()) {
    shapes = data::recipe_for(arguments.model, model.graph).deploy.shapes;
  }
  onnx::infer_types(model, shapes);
  if (!arguments.node.empty()) {
    print_node(model.graph, arguments.node);
    return;
  }
  const Json json = inspect_json(model, arguments.model);
  if (arguments.shared->json) {
    std::puts(json.dump(2).c_str());
  } else {
    print_text(json);
  }
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto arguments = std::make_shared<InspectArguments>();
  app.add_option("model", arguments->model, "the ONNX model");
  app.add_option("--node", arguments->node, "show one node with its inputs, outputs and attributes");
  app.add_option("--shape", arguments->shapes, "fix an input's shape, as NAME=1,3,224,224; may be repeated")
      ->take_all();
  app.add_flag("--text", arguments->text, "print the whole graph in ONNX's text form");
  app.add_flag("--list-passes", arguments->list_passes, "list every rewrite that optimize may apply");
  arguments->shared = add_shared_options(app, 0);
  app.footer("Example: tempera inspect model.onnx --shape x=1,3,128,128");
  app.callback([arguments] { run_inspect(*arguments); });
}

}  // namespace tempera::cli
