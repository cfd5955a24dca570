#include <algorithm>

#include <fmt/format.h>

#include "tempera/compress/prune/rules.h"
#include "tempera/ops/access.h"

namespace tempera::compress {
namespace {

using graph::NodeId;

// Constants of one number for each channel, in these inputs.
void couple_channel_constants(Coupling& c, NodeId id, const Axis& channels, std::size_t first,
                              std::size_t last) {
  for (std::size_t i = first; i <= last; ++i) {
    const Labels labels = c.input(id, i);
    const auto shape = input_shape(c.graph(), id, i);
    if (shape && shape->size() == 1 && (*shape)[0].value != 1) {
      c.unite(channels, labels[0], id);
    }
  }
}

void couple_batch_norm(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  if (x.size() < 2 || ops::is_training(c.graph(), id)) {
    c.freeze_inputs(id, "it trains, or the rank of its input is not known");
    return;
  }
  couple_channel_constants(c, id, x[1], 1, 4);
  c.set_output(id, 0, std::move(x));
}

void couple_instance_norm(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  if (x.size() < 2) {
    c.freeze_inputs(id, "the rank of its input is not known");
    return;
  }
  for (std::size_t axis = 2; axis < x.size(); ++axis) {
    c.freeze(x[axis], id, "normalised over this axis");
  }
  couple_channel_constants(c, id, x[1], 1, 2);
  c.set_output(id, 0, std::move(x));
}

// Whole groups go, so that those that stay hold as many channels as before. (Before opset 21 the operator is
// deprecated.)
void couple_group_norm(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  const auto groups = c.graph().attribute<std::int64_t>(id, "num_groups", 0);
  if (x.size() < 2 || groups < 1 || c.opset() < 21) {
    c.freeze_inputs(id, "the rank of its input is not known, or the operator is deprecated in this opset");
    return;
  }
  for (std::size_t axis = 2; axis < x.size(); ++axis) {
    c.freeze(x[axis], id, "normalised over this axis");
  }
  if (!x[1].empty()) {
    const Axis whole = c.unite_blocks(x[1], x[1].size() / static_cast<std::size_t>(groups));
    c.edit({Edit::Kind::kCount, id, 0, 0, "num_groups", {whole}});
    couple_channel_constants(c, id, x[1], 1, 2);
  }
  c.set_output(id, 0, std::move(x));
}

// Normalised over `axis` and what follows, with a scale and a bias that broadcast to it.
void couple_trailing_norm(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  const auto rank = static_cast<std::int64_t>(x.size());
  const auto axis = ops::normalize_axis(c.graph().attribute<std::int64_t>(id, "axis", -1), rank);
  const bool more_outputs = c.graph().output(id, 1).valid() || c.graph().output(id, 2).valid();
  if (!axis || more_outputs) {
    c.freeze_inputs(id, "the rank of its input is not known, or its mean is read");
    return;
  }
  const bool rms = c.graph().node(id).is("RMSNormalization");
  for (std::size_t at = static_cast<std::size_t>(*axis); at < x.size(); ++at) {
    if (x[at].empty()) {
      continue;
    }
    if (!rms) {
      c.mark_approximate(x[at]);
    } else if (c.graph().constant(c.graph().input(id, 1))) {
      c.edit({Edit::Kind::kRmsScale, id, 1, 0, "", {x[at]}});
    } else {
      c.freeze(x[at], id, "its scale is no constant");
    }
  }
  std::vector<Labels> inputs = {x};
  std::vector<graph::Shape> shapes = {graph::Shape(x.size())};
  for (const std::size_t i : {1U, 2U}) {
    if (const auto shape = input_shape(c.graph(), id, i); shape && shape->size() <= x.size()) {
      inputs.push_back(c.input(id, i));
      shapes.push_back(*shape);
    }
  }
  if (const auto shape = input_shape(c.graph(), id, 0)) {
    shapes[0] = *shape;
  }
  c.set_output(id, 0, couple_leading(c, id, inputs, shapes));
}

// x / ||x||: zeros do not count, so channels may go.
void couple_same(Coupling& c, NodeId id) { c.set_output(id, 0, c.input(id, 0)); }

void couple_softmax(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  const auto axis = ops::axis_of(c.graph(), id, c.opset());
  if (!axis) {
    c.freeze_inputs(id, "its axis is not known");
    return;
  }
  c.freeze(x.at(static_cast<std::size_t>(*axis)), id, "every number of a softmax depends on all others");
  c.set_output(id, 0, std::move(x));
}

void couple_mean_variance(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  for (const std::int64_t axis : c.graph().attribute<graph::Dims>(id, "axes", {0, 2, 3})) {
    const auto at = ops::normalize_axis(axis, static_cast<std::int64_t>(x.size()));
    if (at) {
      c.freeze(x[static_cast<std::size_t>(*at)], id, "normalised over this axis");
    }
  }
  c.set_output(id, 0, std::move(x));
}

void couple_reduce(Coupling& c, NodeId id) {
  const Labels x = c.input(id, 0);
  const graph::Node& node = c.graph().node(id);
  const auto axes = ops::axes_of(c.graph(), id);
  const bool may_be_empty = c.graph().attribute<std::int64_t>(id, "noop_with_empty_axes", 0) != 0;
  if (!axes || x.empty() || (may_be_empty && axes->empty())) {
    c.freeze_inputs(id, "its axes are not known");
    return;
  }
  const bool sum =
      node.is("ReduceSum") || node.is("ReduceL1") || node.is("ReduceL2") || node.is("ReduceSumSquare");
  const bool keep = ops::keep_dims(c.graph(), id);
  Labels out;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    if (std::find(axes->begin(), axes->end(), static_cast<std::int64_t>(axis)) == axes->end()) {
      out.push_back(x[axis]);
      continue;
    }
    if (node.is("ReduceMean")) {
      c.mark_approximate(x[axis]);
    } else if (!sum) {
      c.freeze(x[axis], id, fmt::format("{} runs over the channels", node.op_type));
    }
    if (keep) {
      out.emplace_back();
    }
  }
  c.set_output(id, 0, std::move(out));
}

// Each channel of [N, C, d..] by itself.
void couple_spatial(Coupling& c, NodeId id) {
  const Labels x = c.input(id, 0);
  if (x.size() < 3 || c.graph().output(id, 1).valid()) {
    c.freeze_inputs(id, "the rank of its input is not known, or places are counted across channels");
    return;
  }
  for (std::size_t axis = 2; axis < x.size(); ++axis) {
    c.freeze(x[axis], id, fmt::format("{} works along this axis", c.graph().node(id).op_type));
  }
  Labels out(x.size());
  out[0] = x[0];
  out[1] = x[1];
  c.set_output(id, 0, std::move(out));
}

void couple_dropout(Coupling& c, NodeId id) {
  if (ops::is_training(c.graph(), id)) {
    c.freeze_inputs(id, "it may drop numbers at random");
    return;
  }
  couple_unary(c, id);
}

constexpr Rule kRules[] = {
    {"AveragePool", couple_spatial},
    {"BatchNormalization", couple_batch_norm},
    {"Dropout", couple_dropout},
    {"GlobalAveragePool", couple_spatial},
    {"GlobalLpPool", couple_spatial},
    {"GlobalMaxPool", couple_spatial},
    {"GridSample", couple_spatial},
    {"GroupNormalization", couple_group_norm},
    {"Hardmax", couple_softmax},
    {"InstanceNormalization", couple_instance_norm},
    {"LayerNormalization", couple_trailing_norm},
    {"LogSoftmax", couple_softmax},
    {"LpNormalization", couple_same},
    {"LpPool", couple_spatial},
    {"MaxPool", couple_spatial},
    {"MeanVarianceNormalization", couple_mean_variance},
    {"RMSNormalization", couple_trailing_norm},
    {"ReduceL1", couple_reduce},
    {"ReduceL2", couple_reduce},
    {"ReduceLogSum", couple_reduce},
    {"ReduceLogSumExp", couple_reduce},
    {"ReduceMax", couple_reduce},
    {"ReduceMean", couple_reduce},
    {"ReduceMin", couple_reduce},
    {"ReduceProd", couple_reduce},
    {"ReduceSum", couple_reduce},
    {"ReduceSumSquare", couple_reduce},
    {"Softmax", couple_softmax},
};

}  // namespace

std::span<const Rule> norm_rules() { return kRules; }

}  // namespace tempera::compress
