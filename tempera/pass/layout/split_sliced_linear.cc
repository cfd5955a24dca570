#include "tempera/pass/layout/split_sliced_linear.h"

#include <algorithm>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// A constant operand and the axis of it that holds the output channels; axis -1: the same for every piece.
struct Operand {
  std::size_t input = 0;
  Tensor tensor;
  std::int64_t axis = -1;
};

// The multiplying node, the Add after it if there is one, and where the channels lie.
struct Linear {
  NodeId node;
  NodeId add;
  ValueId output;               // of the last of the two
  std::int64_t rank = 0;        // of the output
  std::int64_t axis = 0;        // of the channels in the output
  std::int64_t channels = 0;
  std::vector<Operand> operands;  // of `node`
  std::optional<Operand> addend;  // of `add`
};

struct Piece {
  ValueId value;
  std::int64_t start = 0;
  std::int64_t count = 0;
};

bool whole_bytes(const Tensor& tensor) {
  const int bits = numeric::bits_of(tensor.type());
  return bits >= 8 && bits % 8 == 0;
}

// `tensor` broadcast against [.., channels along `axis`, ..] of rank `rank`: the axis of it to cut, -1 when it is 1 there.
// Nothing when it would enlarge the output's rank.
std::optional<std::int64_t> channel_axis(const Tensor& tensor, std::int64_t rank, std::int64_t axis,
                                         std::int64_t channels) {
  if (tensor.rank() > rank) {
    return std::nullopt;
  }
  const std::int64_t own = axis - (rank - tensor.rank());
  if (own < 0) {
    return -1;
  }
  const std::int64_t size = tensor.dims()[static_cast<std::size_t>(own)];
  if (size == channels) {
    return channels == 1 ? -1 : own;
  }
  return size == 1 ? std::optional<std::int64_t>(-1) : std::nullopt;
}

std::optional<Linear> match_conv(const Graph& graph, NodeId id) {
  const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
  if (!weight || weight->rank() < 3 || graph.attribute<std::int64_t>(id, "group", 1) != 1 || !whole_bytes(*weight)) {
    return std::nullopt;
  }
  Linear linear;
  linear.rank = weight->rank();
  linear.axis = 1;
  linear.channels = weight->dims()[0];
  linear.operands.push_back({1, *weight, 0});
  if (graph.input(id, 2).valid()) {
    const std::optional<Tensor> bias = graph.constant(graph.input(id, 2));
    if (!bias || bias->rank() != 1) {
      return std::nullopt;
    }
    linear.operands.push_back({2, *bias, 0});
  }
  return linear;
}

std::optional<Linear> match_gemm(const Graph& graph, NodeId id) {
  const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
  if (!weight || weight->rank() != 2 || !whole_bytes(*weight)) {
    return std::nullopt;
  }
  Linear linear;
  linear.rank = 2;
  linear.axis = 1;
  const std::int64_t own = graph.attribute<std::int64_t>(id, "transB", 0) != 0 ? 0 : 1;
  linear.channels = weight->dims()[static_cast<std::size_t>(own)];
  linear.operands.push_back({1, *weight, own});
  if (graph.input(id, 2).valid()) {
    const std::optional<Tensor> bias = graph.constant(graph.input(id, 2));
    const auto axis = bias ? channel_axis(*bias, 2, 1, linear.channels) : std::nullopt;
    if (!axis) {
      return std::nullopt;
    }
    linear.operands.push_back({2, *bias, *axis});
  }
  return linear;
}

std::optional<Linear> match_matmul(const Graph& graph, NodeId id) {
  const std::optional<std::int64_t> rank = ops::rank_of(graph, graph.output(id));
  const std::optional<Tensor> right = graph.constant(graph.input(id, 1));
  Linear linear;
  if (right && right->rank() == 2 && rank && *rank >= 2 && whole_bytes(*right)) {
    linear.rank = *rank;
    linear.axis = *rank - 1;
    linear.channels = right->dims()[1];
    linear.operands.push_back({1, *right, 1});
    return linear;
  }
  const std::optional<Tensor> left = graph.constant(graph.input(id, 0));
  if (left && left->rank() == 2 && rank && *rank >= 2 && whole_bytes(*left) &&
      ops::rank_of(graph, graph.input(id, 1)) == rank) {
    linear.rank = *rank;
    linear.axis = *rank - 2;
    linear.channels = left->dims()[0];
    linear.operands.push_back({0, *left, 0});
    return linear;
  }
  return std::nullopt;
}

std::optional<Linear> match_linear(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  std::optional<Linear> linear;
  if (node.is("Conv")) {
    linear = match_conv(graph, id);
  } else if (node.is("Gemm")) {
    linear = match_gemm(graph, id);
  } else if (node.is("MatMul")) {
    linear = match_matmul(graph, id);
  }
  if (!linear) {
    return std::nullopt;
  }
  linear->node = id;
  linear->output = graph.output(id);
  const NodeId reader = sole_reader(graph, linear->output);
  if (reader.valid() && graph.node(reader).is("Add") && ops::is_numpy_broadcast(graph, reader)) {
    const ValueId other = other_input(graph, reader, linear->output);
    const std::optional<Tensor> addend = graph.constant(other);
    const auto axis = addend && whole_bytes(*addend)
                          ? channel_axis(*addend, linear->rank, linear->axis, linear->channels)
                          : std::nullopt;
    if (axis) {
      linear->add = reader;
      linear->addend = Operand{graph.input(reader, 0) == other ? std::size_t{0} : std::size_t{1}, *addend, *axis};
      linear->output = graph.output(reader);
    }
  }
  return linear;
}

// What a reader takes out of the channels; empty with a reason when it does something else.
std::vector<Piece> pieces_of(const Graph& graph, NodeId reader, const Linear& linear, std::string& reason) {
  const graph::Node& node = graph.node(reader);
  if (node.is("Split")) {
    const std::optional<ops::SplitForm> form = ops::split_form(graph, reader);
    if (!form || form->axis != linear.axis) {
      reason = form ? "the Split is along another axis" : "the sizes of the Split are not constant";
      return {};
    }
    std::vector<Piece> pieces;
    std::int64_t start = 0;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid() && !graph.is_unused(node.outputs[i])) {
        pieces.push_back({node.outputs[i], start, form->sizes[i]});
      }
      start += form->sizes[i];
    }
    return pieces;
  }
  if (node.is("Slice")) {
    const std::optional<ops::SliceForm> form = ops::slice_form(graph, reader);
    if (!form || form->axes != graph::Dims{linear.axis} || form->steps != graph::Dims{1}) {
      reason = form ? "a Slice is along other axes or has a step" : "the limits of a Slice are not constant";
      return {};
    }
    const ops::SliceRange range = ops::clamp_slice(form->starts[0], form->ends[0], 1, linear.channels);
    if (range.count == 0) {
      reason = "a Slice is empty";
      return {};
    }
    return {{node.outputs[0], range.start, range.count}};
  }
  reason = fmt::format("{} reads it whole", graph.describe(reader));
  return {};
}

std::vector<Piece> find_pieces(const Graph& graph, const Linear& linear, std::string& reason) {
  if (graph.is_pinned(linear.output)) {
    reason = reason_kept(graph, linear.output);
    return {};
  }
  std::vector<Piece> all;
  for (const graph::Use& use : graph.uses(linear.output)) {
    if (use.input != 0) {
      reason = "a reader takes it as an index";
      return {};
    }
    const std::vector<Piece> some = pieces_of(graph, use.node, linear, reason);
    if (!reason.empty()) {
      return {};
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
  std::int64_t free_from = 0;
  for (const Piece& piece : all) {
    if (piece.start < free_from) {
      reason = "the pieces overlap";
      return {};
    }
    free_from = piece.start + piece.count;
  }
  if (std::any_of(all.begin(), all.end(), [&](const Piece& p) { return p.count == 0 || p.count == linear.channels; })) {
    reason = "a piece is empty or all of it";
    return {};
  }
  return all;
}

ValueId cut(Graph& graph, NodeId id, const Operand& operand, const Piece& piece) {
  const ValueId whole = graph.input(id, operand.input);
  if (operand.axis < 0) {
    return whole;
  }
  return add_derived(graph, whole, slice_tensor(operand.tensor, operand.axis, piece.start, piece.count));
}

ValueId copy_node(Graph& graph, NodeId id, std::vector<ValueId> inputs) {
  const graph::Node& node = graph.node(id);
  const std::string path = node.function_path;
  const ValueId out = graph.add_node(node.op_type, std::move(inputs), site(graph, id), node.attributes, node.domain);
  graph.set_function_path(graph.producer(out), path);
  return out;
}

}  // namespace

PassResult split_sliced_linear(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.target_engine == "torch") {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id)) {
      continue;
    }
    const std::optional<Linear> linear = match_linear(graph, id);
    if (!linear) {
      continue;
    }
    const auto cuts = [&](const graph::Use& use) {
      return graph.node(use.node).is("Split") || graph.node(use.node).is("Slice");
    };
    const std::vector<graph::Use>& uses = graph.uses(linear->output);
    if (std::none_of(uses.begin(), uses.end(), cuts)) {
      continue;
    }
    if (graph.node(id).is("Gemm") && ops::dim_of(graph, linear->output, 0) == 1) {
      decline(result, graph, id, "it makes one row, which costs nothing to cut");
      continue;
    }
    std::string reason;
    const std::vector<Piece> pieces = find_pieces(graph, *linear, reason);
    if (!reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    if (pieces.empty()) {
      continue;
    }
    note(result, graph, id, fmt::format("{} + Split -> {} x {}", graph.node(id).op_type, pieces.size(),
                                        graph.node(id).op_type));
    for (const Piece& piece : pieces) {
      std::vector<ValueId> inputs = graph.node(id).inputs;
      for (const Operand& operand : linear->operands) {
        inputs[operand.input] = cut(graph, id, operand, piece);
      }
      ValueId out = copy_node(graph, id, std::move(inputs));
      if (linear->addend) {
        std::vector<ValueId> terms = {out, out};
        terms[linear->addend->input] = cut(graph, linear->add, *linear->addend, piece);
        out = copy_node(graph, linear->add, std::move(terms));
      }
      substitute(graph, piece.value, out);
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
