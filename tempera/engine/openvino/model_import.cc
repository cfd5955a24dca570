#include "tempera/engine/openvino/model_import.h"

#include <algorithm>
#include <cstdint>
#include <istream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openvino/frontend/manager.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/util/framework_node.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>

#include "tempera/base/error.h"
#include "tempera/engine/openvino/ov_error.h"
#include "tempera/engine/openvino/ov_tensor.h"
#include "tempera/engine/openvino/square_weights.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/write.h"

namespace tempera::engine::openvino {
namespace {

std::shared_ptr<ov::Node> shared_constant(const graph::Tensor& tensor) {
  const ov::Tensor view = borrow(tensor);
  auto owner = std::make_shared<graph::Tensor>(tensor);
  return std::make_shared<ov::op::v0::Constant>(view.get_element_type(), view.get_shape(),
                                                std::as_const(view).data(), std::move(owner));
}

// OpenVINO's reader renames an input that a Dropout hands on, and forgets its own name: nameless parameters take the names
// that are missing, both in the order of the graph's inputs.
void restore_input_names(ov::Model& model, const std::vector<std::string>& expected) {
  std::set<std::string, std::less<>> missing(expected.begin(), expected.end());
  std::vector<std::shared_ptr<ov::op::v0::Parameter>> nameless;
  for (const auto& parameter : model.get_parameters()) {
    const std::size_t before = missing.size();
    for (const std::string& name : parameter->output(0).get_names()) {
      missing.erase(name);
    }
    if (missing.size() == before) {
      nameless.push_back(parameter);
    }
  }
  if (nameless.empty()) {
    return;
  }
  if (nameless.size() != missing.size()) {
    throw Error(ErrorCode::kEngineFailed, fmt::format("OpenVINO lost the names of inputs {}", fmt::join(missing, ", ")));
  }
  auto parameter = nameless.begin();
  for (const std::string& name : expected) {
    if (missing.contains(name)) {
      (*parameter++)->output(0).add_names({name});
    }
  }
}

// Puts the weights in the place of the inputs that stood for them.
void attach_weights(ov::Model& model, const std::vector<std::pair<std::string, graph::Tensor>>& weights) {
  std::map<std::string, std::shared_ptr<ov::op::v0::Parameter>> parameters;
  for (const auto& parameter : model.get_parameters()) {
    for (const std::string& name : parameter->output(0).get_names()) {
      parameters.emplace(name, parameter);
    }
  }
  for (const auto& [name, tensor] : weights) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) {
      continue;  // OpenVINO dropped it: no node reads it
    }
    const auto parameter = found->second;
    const auto constant = shared_constant(tensor);
    constant->set_friendly_name(parameter->get_friendly_name());
    constant->output(0).set_names(parameter->output(0).get_names());
    parameter->output(0).replace(constant->output(0));
    model.remove_parameter(parameter);
  }
  model.validate_nodes_and_infer_types();
}

void require_known_types(const graph::Graph& graph) {
  std::vector<std::string> problems;
  const auto check = [&problems](const char* kind, const graph::Value& value, const graph::ValueType& type) {
    if (type.kind != graph::ValueType::Kind::kTensor && type.kind != graph::ValueType::Kind::kUnknown) {
      problems.push_back(fmt::format("{} '{}' is {}, not a tensor", kind, value.name, to_string(type)));
    } else if (type.is_tensor() && !to_openvino(type.element)) {
      problems.push_back(fmt::format("{} '{}' has type {}", kind, value.name, numeric::to_string(type.element)));
    }
  };
  for (const graph::ValueId id : graph.inputs()) {
    check("input", graph.value(id), graph.value(id).type);
  }
  for (const graph::ValueId id : graph.outputs()) {
    check("output", graph.value(id), graph.value(id).type);
  }
  for (const graph::ValueId id : graph.values()) {
    const graph::Value& value = graph.value(id);
    if (value.constant && !value.is_input) {
      check("initializer", value, graph::ValueType::tensor(value.constant->type()));
    }
  }
  if (!problems.empty()) {
    throw Error(ErrorCode::kUnsupported, fmt::format("the openvino engine cannot take {}", fmt::join(problems, "; ")),
                "--engine torch");
  }
}

// Calls `visit` for each layer that stands for a node without conversion, bodies included.
void for_each_unconverted(const ov::Model& model, const std::function<void(const ov::op::util::FrameworkNode&)>& visit) {
  for (const auto& layer : model.get_ordered_ops()) {
    if (const auto* node = dynamic_cast<const ov::op::util::FrameworkNode*>(layer.get())) {
      visit(*node);
      continue;
    }
    if (const auto* owner = dynamic_cast<const ov::op::util::MultiSubGraphOp*>(layer.get())) {
      for (std::size_t i = 0; i < owner->get_internal_subgraphs_size(); ++i) {
        for_each_unconverted(*owner->get_function(static_cast<int>(i)), visit);
      }
    }
  }
}

std::string conversion_failure(const ov::op::util::FrameworkNodeAttrs& attributes) {
  for (const auto& [key, text] : attributes) {
    if (key.find("failed_conversion") != std::string::npos && !text.empty()) {
      return plain_message(text);
    }
  }
  return "OpenVINO's ONNX reader has no conversion for it";
}

// With functions inlined: OpenVINO's reader does not know local functions.
const graph::Model& without_functions(const graph::Model& model, std::optional<graph::Model>& storage) {
  if (model.functions.empty()) {
    return model;
  }
  storage = onnx::inline_functions(model);
  return *storage;
}

}  // namespace

Importer::Importer() {
  try {
    reader_ = ov::frontend::FrontEndManager().load_by_framework("onnx");
  } catch (...) {
    rethrow(ErrorCode::kEngineUnavailable, "loading its ONNX reader", nullptr);
  }
}

std::shared_ptr<ov::Model> Importer::convert(const graph::Model& model, bool partially) const {
  const auto read = [&](std::int64_t threshold_bytes) {
    onnx::Skeleton skeleton = onnx::serialize_skeleton(model, threshold_bytes);
    std::istringstream bytes(std::move(skeleton.bytes));
    std::istream* stream = &bytes;
    const auto input = reader_->load(stream);
    auto converted = partially ? reader_->convert_partially(input) : reader_->convert(input);
    std::vector<std::string> inputs;
    for (const graph::ValueId id : model.graph.inputs()) {
      if (!model.graph.value(id).constant) {
        inputs.push_back(model.graph.value(id).name);
      }
    }
    for (const auto& [name, weight] : skeleton.weights) {
      inputs.push_back(name);
    }
    restore_input_names(*converted, inputs);
    attach_weights(*converted, skeleton.weights);
    separate_square_weights(*converted);
    return converted;
  };
  try {
    return read(kSharedWeightBytes);
  } catch (const std::exception&) {
    // A few conversions ask for the content of an input while reading: once more with every weight in the file, if that
    // fits into a protobuf.
    constexpr std::int64_t kFitsBytes = std::int64_t{1} << 30;
    if (graph::weight_size(model.graph).bytes > kFitsBytes) {
      throw;
    }
  }
  return read(std::numeric_limits<std::int64_t>::max());
}

std::vector<Unsupported> Importer::unconvertible(const graph::Model& given) const {
  std::optional<graph::Model> storage;
  const graph::Model& model = without_functions(given, storage);
  std::vector<Unsupported> result;
  std::shared_ptr<ov::Model> converted;
  try {
    converted = convert(model, true);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    result.push_back({layer_in_message(e.what()), "", plain_message(e.what())});
    return result;
  }
  const LayerNames names(model.graph, *converted);
  for_each_unconverted(*converted, [&](const ov::op::util::FrameworkNode& layer) {
    const auto& attributes = layer.get_attrs();
    const auto* node = names.find(layer.get_friendly_name());
    result.push_back({node != nullptr ? node->name : layer.get_friendly_name(),
                      node != nullptr ? node->op_type : attributes.get_type_name(), conversion_failure(attributes)});
  });
  return result;
}

Imported Importer::import(const graph::Model& given) const {
  require_known_types(given.graph);
  std::optional<graph::Model> storage;
  const graph::Model& model = without_functions(given, storage);
  try {
    std::shared_ptr<ov::Model> converted = convert(model, false);
    LayerNames names(model.graph, *converted);
    return {std::move(converted), std::move(names)};
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    rethrow(ErrorCode::kOutOfMemory, "reading the model", nullptr);
  } catch (const std::exception& e) {
    const std::string message = plain_message(e.what());
    const std::vector<Unsupported> nodes = unconvertible(model);
    Error error(ErrorCode::kUnsupported,
                nodes.empty() ? fmt::format("OpenVINO cannot read the model: {}", message)
                              : fmt::format("OpenVINO cannot take {} of the model's nodes", nodes.size()),
                "--engine torch");
    constexpr std::size_t kMostNamed = 10;
    for (std::size_t i = 0; i < std::min(nodes.size(), kMostNamed); ++i) {
      error.in(fmt::format("node '{}' ({}): {}", nodes[i].node, nodes[i].op_type, nodes[i].reason));
    }
    throw error;
  }
}

}  // namespace tempera::engine::openvino
