#include "tempera/pass/cleanup/dead.h"

#include <fmt/format.h>

#include "tempera/pass/rewrite.h"

namespace tempera::pass {

PassResult remove_dead(graph::Graph& graph, const PassContext&) {
  PassResult result;
  if (const std::size_t count = graph.remove_dead(); count != 0) {
    result.rewrites.push_back({graph.name.empty() ? "graph" : graph.name, fmt::format("{} unread nodes removed", count)});
  }
  return result;
}

}  // namespace tempera::pass
