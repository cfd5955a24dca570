#include "tempera/pass/cleanup/constants.h"

#include "tempera/pass/rewrite.h"

namespace tempera::pass {

PassResult constants_to_initializers(graph::Graph& graph, const PassContext&) {
  PassResult result;
  for (const graph::NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Constant")) {
      continue;
    }
    const graph::ValueId out = graph.output(id);
    std::optional<graph::Tensor> tensor = graph.constant(out);
    if (!tensor || graph.is_output(out)) {
      decline(result, graph, id, tensor ? "the value is a graph output" : "not a dense tensor");
      continue;
    }
    note(result, graph, id, "Constant -> initialiser");
    const std::string name = graph.value(out).name;
    const graph::ValueId made = graph.add_initializer(name, std::move(*tensor));
    graph.replace_uses(out, made);
    graph.erase(id);
    graph.rename(made, name);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
