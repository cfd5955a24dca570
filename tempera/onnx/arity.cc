#include "tempera/onnx/arity.h"

#include <climits>
#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/schema.h"

namespace tempera::onnx {
namespace {

void require(const graph::Node& node, std::string_view what, std::size_t count, int least, int most) {
  if (count >= static_cast<std::size_t>(least) && count <= static_cast<std::size_t>(most)) {
    return;
  }
  const std::string takes = least == most     ? fmt::format("{}", least)
                            : most == INT_MAX ? fmt::format("at least {}", least)
                                              : fmt::format("{} to {}", least, most);
  throw Error(ErrorCode::kBadModel,
              fmt::format("node '{}' ({}) has {} {}s, its operator takes {}", node.name, node.op_type, count, what, takes));
}

void require_arity(const graph::Graph& main, const graph::Opsets& opsets) {
  graph::for_each_graph(main, [&](const graph::Graph& g) {
    for (const graph::NodeId id : g.nodes()) {
      const graph::Node& node = g.node(id);
      const ::onnx::OpSchema* schema = schema_of(node, opsets);
      if (schema != nullptr) {
        require(node, "input", node.inputs.size(), schema->min_input(), schema->max_input());
        require(node, "output", node.outputs.size(), schema->min_output(), schema->max_output());
      }
    }
  });
}

}  // namespace

void require_arity(const graph::Model& model) {
  require_arity(model.graph, model.opsets);
  for (const graph::Function& function : model.functions) {
    require_arity(function.body, function.opsets);
  }
}

}  // namespace tempera::onnx
