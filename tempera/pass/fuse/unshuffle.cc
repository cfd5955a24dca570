#include "tempera/pass/fuse/unshuffle.h"

#include <algorithm>

#include "tempera/ops/access.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

struct Unshuffle {
  ValueId source;  // [N,C,r h,r w]
  std::int64_t channels = 0;
  std::int64_t block = 0;
  bool block_first = false;  // output channel (i r + j) C + c, as SpaceToDepth; else (c r + i) r + j
};

// A dimension of a value, -1 when not a number.
std::int64_t dim(const Graph& graph, ValueId id, std::int64_t axis) {
  return ops::dim_of(graph, id, axis).value_or(-1);
}

std::optional<Unshuffle> match_reshapes(const Graph& graph, ValueId value) {
  const NodeId merge = sole_producer(graph, value, "Reshape");
  const NodeId turn = merge.valid() ? sole_producer(graph, graph.input(merge, 0), "Transpose") : NodeId{};
  const NodeId cut = turn.valid() ? sole_producer(graph, graph.input(turn, 0), "Reshape") : NodeId{};
  if (!cut.valid() || ops::permutation_of(graph, turn) != Dims{0, 1, 3, 5, 2, 4}) {
    return std::nullopt;
  }
  const ValueId x = graph.input(cut, 0);
  const ValueId blocks = graph.output(cut);
  if (ops::rank_of(graph, x) != 4 || ops::rank_of(graph, blocks) != 6 || ops::rank_of(graph, value) != 4) {
    return std::nullopt;
  }
  const std::int64_t c = dim(graph, x, 1);
  const std::int64_t r = dim(graph, blocks, 3);
  const std::int64_t h = dim(graph, blocks, 2);
  const std::int64_t w = dim(graph, blocks, 4);
  const bool fits = c > 0 && r > 1 && h > 0 && w > 0 && dim(graph, blocks, 1) == c && dim(graph, blocks, 5) == r &&
                    dim(graph, x, 2) == r * h && dim(graph, x, 3) == r * w && dim(graph, value, 1) == c * r * r &&
                    dim(graph, value, 2) == h && dim(graph, value, 3) == w;
  return fits ? std::optional(Unshuffle{x, c, r, false}) : std::nullopt;
}

std::optional<Unshuffle> match_space_to_depth(const Graph& graph, ValueId value) {
  const NodeId id = sole_producer(graph, value, "SpaceToDepth");
  if (!id.valid()) {
    return std::nullopt;
  }
  const ValueId x = graph.input(id, 0);
  const auto block = graph.attribute<std::int64_t>(id, "blocksize", 0);
  const std::int64_t c = dim(graph, x, 1);
  const bool known = c > 0 && block > 0 && ops::rank_of(graph, x) == 4;
  return known ? std::optional(Unshuffle{x, c, block, true}) : std::nullopt;
}

bool is_plain_1x1(const ops::ConvForm& form) {
  return form.kernel == Dims{1, 1} && form.strides == Dims{1, 1} && form.pads_begin == Dims{0, 0} &&
         form.pads_end == Dims{0, 0} && form.group == 1;
}

}  // namespace

PassResult fuse_unshuffle(Graph& graph, const PassContext&) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Conv")) {
      continue;
    }
    std::optional<Unshuffle> found = match_reshapes(graph, graph.input(id, 0));
    if (!found) {
      found = match_space_to_depth(graph, graph.input(id, 0));
    }
    if (!found) {
      continue;
    }
    const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
    const std::optional<ops::ConvForm> form = ops::conv_form(graph, id);
    const std::int64_t r = found->block;
    if (!weight || numeric::bits_of(weight->type()) < 8 || !form || !is_plain_1x1(*form) || weight->rank() != 4 ||
        weight->dims()[1] != found->channels * r * r) {
      decline(result, graph, id, "not a plain 1x1 convolution with constant weights");
      continue;
    }
    note(result, graph, id, "pixel unshuffle + Conv 1x1 -> Conv with stride");
    const std::int64_t outputs = weight->dims()[0];
    const Tensor kernel =
        found->block_first ? transpose_tensor(weight->reshaped({outputs, r, r, found->channels}), Dims{0, 3, 1, 2})
                           : weight->reshaped({outputs, found->channels, r, r});
    std::vector<ValueId> inputs = graph.node(id).inputs;
    inputs[0] = found->source;
    inputs[1] = add_derived(graph, inputs[1], kernel);
    graph.set_inputs(id, std::move(inputs));
    graph.set_attribute(id, "kernel_shape", Dims{r, r});
    graph.set_attribute(id, "strides", Dims{r, r});
    graph.remove_attribute(id, "auto_pad");
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
