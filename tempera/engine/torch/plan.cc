#include "tempera/engine/torch/plan.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "tempera/base/error.h"
#include "tempera/engine/torch/kernels/kernels.h"

namespace tempera::engine::aten {
namespace {

/// For each slot the index of the last step that reads it; outputs are never released.
void plan_releases(const graph::Graph& graph, std::vector<Step>& steps, std::size_t slots) {
  constexpr std::size_t kNever = SIZE_MAX;
  std::vector<std::size_t> last(slots, kNever);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    for (const std::uint32_t slot : step.inputs) {
      if (slot != Step::kNone) {
        last[slot] = i;
      }
    }
    graph::for_each_body(*step.node, [&](const std::string& /*attribute*/, const graph::Graph& body) {
      for (const graph::Capture& capture : body.captures()) {
        last[capture.outer.index] = i;
      }
    });
    for (const std::uint32_t slot : step.outputs) {
      if (slot != Step::kNone && last[slot] == kNever) {
        last[slot] = i;  // an output that nothing reads
      }
    }
  }
  for (const graph::ValueId output : graph.outputs()) {
    last[output.index] = kNever;
  }
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    if (last[slot] != kNever) {
      steps[last[slot]].release.push_back(slot);
    }
  }
}

}  // namespace

std::int64_t opset_of(const graph::Opsets& opsets, std::string_view domain) {
  auto found = opsets.find(domain);
  if (found == opsets.end() && (domain.empty() || domain == "ai.onnx")) {
    found = opsets.find(domain.empty() ? "ai.onnx" : "");
  }
  if (found == opsets.end()) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("the model imports no operator set of domain '{}'", domain.empty() ? "ai.onnx" : domain));
  }
  return found->second;
}

Plan::Plan(const graph::Graph& graph, const graph::Opsets& opsets, at::Device device)
    : graph_(&graph), opsets_(&opsets) {
  for (const graph::ValueId id : graph.values()) {
    slots_ = std::max<std::size_t>(slots_, id.index + 1U);
    if (const std::optional<graph::Tensor>& constant = graph.value(id).constant) {
      constants_.emplace_back(id.index, to_value(*constant, device));
    }
  }
  for (const graph::NodeId id : graph.nodes()) {
    Step step;
    step.id = id;
    step.node = &graph.node(id);
    step.kernel = find_kernel(step.node->domain, step.node->op_type);
    try {
      step.opset = opset_of(opsets, step.node->domain);
      graph::for_each_body(*step.node, [&](const std::string& /*attribute*/, const graph::Graph& body) {
        step.bodies.emplace(&body, std::make_unique<Plan>(body, opsets, device));
      });
    } catch (Error& error) {
      error.in(graph.describe(id));
      throw;
    }
    for (const graph::ValueId input : step.node->inputs) {
      step.inputs.push_back(input.valid() ? input.index : Step::kNone);
    }
    for (const graph::ValueId output : step.node->outputs) {
      step.outputs.push_back(output.valid() ? output.index : Step::kNone);
    }
    steps_.push_back(std::move(step));
  }
  plan_releases(graph, steps_, slots_);
}

}  // namespace tempera::engine::aten
