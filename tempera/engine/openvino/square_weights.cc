#include "tempera/engine/openvino/square_weights.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <openvino/core/rt_info.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convolution.hpp>
#include <openvino/op/group_conv.hpp>
#include <openvino/op/matmul.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>

namespace tempera::engine::openvino {
namespace {

using ov::op::v0::Constant;

/// A product that reads a weight: which of its inputs, and the layers between weight and product.
struct WeightUse {
  ov::Input<ov::Node> input;
  std::vector<ov::Input<ov::Node>> path;  // from the weight on: the input of each layer that the one before feeds
};

bool is_square(const Constant& weight) {
  std::vector<std::size_t> dims = weight.get_shape();
  std::erase(dims, std::size_t{1});
  std::sort(dims.begin(), dims.end());
  return std::adjacent_find(dims.begin(), dims.end()) != dims.end();
}

bool is_product(const ov::Node& layer) {
  return ov::is_type<ov::op::v0::MatMul>(&layer) || ov::is_type<ov::op::v1::Convolution>(&layer) ||
         ov::is_type<ov::op::v1::ConvolutionBackpropData>(&layer) || ov::is_type<ov::op::v1::GroupConvolution>(&layer) ||
         ov::is_type<ov::op::v1::GroupConvolutionBackpropData>(&layer);
}

class Separator {
 public:
  std::size_t run(ov::Model& model) {
    std::size_t copies = 0;
    for (const auto& layer : model.get_ordered_ops()) {
      if (auto* owner = dynamic_cast<ov::op::util::MultiSubGraphOp*>(layer.get())) {
        for (std::size_t i = 0; i < owner->get_internal_subgraphs_size(); ++i) {
          copies += run(*owner->get_function(static_cast<int>(i)));
        }
      }
      if (const auto weight = ov::as_type_ptr<Constant>(layer); weight && is_square(*weight)) {
        copies += separate(*weight);
      }
    }
    return copies;
  }

 private:
  // Whether the layer's result is known before any input is: OpenVINO folds it into the weight.
  bool is_constant(const ov::Node& layer) {
    const auto known = constant_.find(&layer);
    if (known != constant_.end()) {
      return known->second;
    }
    bool result = ov::is_type<Constant>(&layer);
    if (!result && layer.get_input_size() > 0) {
      result = true;
      for (std::size_t i = 0; result && i < layer.get_input_size(); ++i) {
        result = is_constant(*layer.get_input_node_ptr(i));
      }
    }
    constant_[&layer] = result;
    return result;
  }

  void collect(const ov::Output<ov::Node>& output, std::vector<ov::Input<ov::Node>>& path, std::vector<WeightUse>& uses) {
    for (const ov::Input<ov::Node>& reader : output.get_target_inputs()) {
      ov::Node& layer = *reader.get_node();
      if (is_product(layer)) {
        uses.push_back({reader, path});
      } else if (layer.get_output_size() == 1 && is_constant(layer)) {
        path.push_back(reader);
        collect(layer.output(0), path, uses);
        path.pop_back();
      }
    }
  }

  // Uses with equal text take the weight in the same form.
  static std::string form_of(const WeightUse& use) {
    const ov::Node& product = *use.input.get_node();
    std::string text = fmt::format("{}:{}", product.get_type_name(), use.input.get_index());
    if (const auto* matmul = ov::as_type<const ov::op::v0::MatMul>(&product)) {
      text += fmt::format(" {}{}", matmul->get_transpose_a(), matmul->get_transpose_b());
    }
    for (const ov::Input<ov::Node>& step : use.path) {
      text += fmt::format(" {}", step.get_node()->get_type_name());
    }
    return text;
  }

  static ov::Output<ov::Node> replay(const ov::Output<ov::Node>& weight, const std::vector<ov::Input<ov::Node>>& path) {
    ov::Output<ov::Node> source = weight;
    for (const ov::Input<ov::Node>& step : path) {
      const ov::Node& layer = *step.get_node();
      ov::OutputVector inputs = layer.input_values();
      inputs.at(step.get_index()) = source;
      const auto copy = layer.clone_with_new_inputs(inputs);
      copy->set_friendly_name(layer.get_friendly_name() + "/own");
      source = copy->output(0);
    }
    return source;
  }

  std::size_t separate(Constant& weight) {
    std::vector<WeightUse> uses;
    std::vector<ov::Input<ov::Node>> path;
    collect(weight.output(0), path, uses);
    std::map<std::string, ov::Output<ov::Node>> copies;  // the first form keeps the weight itself
    for (const WeightUse& use : uses) {
      const auto [found, is_new] = copies.try_emplace(form_of(use));
      if (is_new && copies.size() > 1) {
        const auto copy = std::make_shared<Constant>(weight.get_element_type(), weight.get_shape(), weight.get_data_ptr());
        copy->set_friendly_name(weight.get_friendly_name() + "/own");
        found->second = copy->output(0);
      }
      if (found->second.get_node() != nullptr) {
        ov::Input<ov::Node>(use.input).replace_source_output(replay(found->second, use.path));
      }
    }
    return copies.empty() ? 0 : copies.size() - 1;
  }

  std::unordered_map<const ov::Node*, bool> constant_;
};

}  // namespace

std::size_t separate_square_weights(ov::Model& model) { return Separator().run(model); }

}  // namespace tempera::engine::openvino
