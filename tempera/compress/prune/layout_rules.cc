#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "tempera/compress/prune/reshape_map.h"
#include "tempera/compress/prune/rules.h"
#include "tempera/ops/access.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::NodeId;
using graph::ValueId;

const char* const kUnknownShape = "its shapes are not known before run time";

bool any_labelled(const Labels& labels) {
  return std::any_of(labels.begin(), labels.end(), [](const Axis& axis) { return !axis.empty(); });
}

bool is_labelled(const Axis& axis) { return !axis.empty(); }

const std::optional<graph::Shape> output_shape(const Coupling& c, NodeId id) {
  const ValueId output = c.graph().output(id);
  return output.valid() ? c.graph().value(output).type.shape : std::nullopt;
}

void couple_transpose(Coupling& c, NodeId id) {
  const Labels x = c.input(id, 0);
  const auto permutation = ops::permutation_of(c.graph(), id);
  if (!any_labelled(x)) {
    return;
  }
  if (!permutation || permutation->size() != x.size()) {
    c.freeze_inputs(id, kUnknownShape);
    return;
  }
  Labels out;
  for (const std::int64_t axis : *permutation) {
    out.push_back(x[static_cast<std::size_t>(axis)]);
  }
  c.set_output(id, 0, std::move(out));
}

void couple_squeeze(Coupling& c, NodeId id) {
  const ValueId source = c.graph().input(id, 0);
  if (c.has_sizes(source)) {
    c.set_sizes(c.graph().output(id), c.sizes(source));
  }
  const Labels x = c.input(id, 0);
  if (!any_labelled(x)) {
    return;
  }
  const auto axes = ops::axes_of(c.graph(), id);
  if (!axes) {
    c.freeze_inputs(id, kUnknownShape);
    return;
  }
  const auto named = [&](std::size_t axis) {
    return std::find(axes->begin(), axes->end(), static_cast<std::int64_t>(axis)) != axes->end();
  };
  Labels out;
  if (c.graph().node(id).is("Squeeze")) {
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      if (!named(axis)) {
        out.push_back(x[axis]);
      }
    }
  } else {
    out.resize(x.size() + axes->size());
    std::size_t next = 0;
    for (std::size_t axis = 0; axis < out.size() && next < x.size(); ++axis) {
      if (!named(axis)) {
        out[axis] = x[next++];
      }
    }
  }
  c.set_output(id, 0, std::move(out));
}

// Whether a reader takes the value apart along an axis: then that axis tells different things apart (q, k and
// v), and is not the one to shrink.
bool is_cut(const Coupling& c, ValueId value, std::size_t axis, int depth = 0) {
  for (const graph::Use& use : c.graph().uses(value)) {
    const graph::Node& node = c.graph().node(use.node);
    if (use.input != 0 || depth > 4) {
      continue;
    }
    std::size_t at = axis;
    if (node.is("Split") || node.is("Gather")) {
      const auto cut = ops::axis_of(c.graph(), use.node, c.opset());
      if (cut && static_cast<std::size_t>(*cut) == axis) {
        return true;
      }
    } else if (node.is("Slice")) {
      const auto slice = ops::slice_form(c.graph(), use.node);
      if (slice && std::find(slice->axes.begin(), slice->axes.end(), static_cast<std::int64_t>(axis)) !=
                       slice->axes.end()) {
        return true;
      }
    } else if (node.is("Transpose")) {
      const auto permutation = ops::permutation_of(c.graph(), use.node);
      if (!permutation) {
        continue;
      }
      at = static_cast<std::size_t>(
          std::find(permutation->begin(), permutation->end(), static_cast<std::int64_t>(axis)) -
          permutation->begin());
      if (is_cut(c, c.graph().output(use.node), at, depth + 1)) {
        return true;
      }
    }
  }
  return false;
}

// The axis after a Reshape that carries the labels of an axis before: the one that holds it, else of those
// that it is cut into the first that nothing takes apart.
std::optional<AxisRelation> choose_relation(const Coupling& c, NodeId id,
                                            const std::vector<AxisRelation>& relations, std::size_t axis) {
  std::optional<AxisRelation> chosen;
  for (const AxisRelation& relation : relations) {
    if (relation.before != axis) {
      continue;
    }
    if (relation.merge || !is_cut(c, c.graph().output(id), relation.after)) {
      return relation;
    }
    chosen = chosen ? chosen : relation;
  }
  return chosen;
}

Axis carry_over(Coupling& c, NodeId id, const Axis& axis, const AxisRelation& relation,
                std::size_t size_after) {
  const auto step = static_cast<std::size_t>(relation.step);
  const auto count = static_cast<std::size_t>(relation.count);
  Axis carried(size_after);
  if (relation.merge) {
    for (std::size_t j = 0; j < size_after; ++j) {
      carried[j] = axis[j / step % count];
    }
    return carried;
  }
  std::copy_n(axis.begin(), size_after, carried.begin());
  std::vector<Axis> same(size_after);
  for (std::size_t i = 0; i < axis.size(); ++i) {
    same[i / step % count].push_back(axis[i]);
  }
  for (std::size_t j = 0; j < size_after; ++j) {
    for (const Atom atom : same[j]) {
      c.unite(Axis{same[j].front()}, Axis{atom}, id);
    }
    carried[j] = same[j].front();
  }
  return carried;
}

// Entries of the shape input: labelled axes must be able to shrink, opaque ones may not be read from a shape
// that does.
void follow_shape_input(Coupling& c, NodeId id, std::size_t input, const Labels& out) {
  const std::vector<SizeEntry> entries = c.sizes(c.graph().input(id, input));
  for (std::size_t axis = 0; axis < std::max(out.size(), entries.size()); ++axis) {
    const bool from_axis = axis < entries.size() && entries[axis].kind == SizeEntry::Kind::kAxis;
    if (axis < out.size() && (is_labelled(out[axis]) || from_axis)) {
      c.follow_size(id, input, axis, out[axis]);
    }
  }
}

void couple_reshape(Coupling& c, NodeId id) {
  const ValueId source = c.graph().input(id, 0);
  const auto after = output_shape(c, id);
  if (c.has_sizes(source)) {
    if (after && after->size() <= 1) {
      c.set_sizes(c.graph().output(id), c.sizes(source));
    } else {
      c.freeze_sizes(id, source);
    }
  }
  const Labels x = c.input(id, 0);
  const auto before = input_shape(c.graph(), id, 0);
  const bool flatten = c.graph().node(id).is("Flatten");
  if (!before || !after || (!flatten && !c.graph().input(id, 1).valid())) {
    c.freeze_inputs(id, kUnknownShape);
    c.freeze_sizes(id, c.graph().input(id, 1));
    return;
  }
  const std::vector<AxisRelation> relations = relate_axes(*before, *after);
  const std::vector<SizeEntry> entries = flatten ? std::vector<SizeEntry>{} : c.sizes(c.graph().input(id, 1));
  const bool zero_copies = c.graph().attribute<std::int64_t>(id, "allowzero", 0) == 0;
  Labels out(after->size());
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    if (x[axis].empty()) {
      continue;
    }
    const auto relation = choose_relation(c, id, relations, axis);
    const bool copied =
        relation && relation->after < entries.size() && zero_copies && relation->after != axis &&
        entries[relation->after].kind == SizeEntry::Kind::kConstant && entries[relation->after].number == 0;
    if (!relation || copied || is_labelled(out[relation->after])) {
      c.freeze(x[axis], id, "channels are mixed with other axes");
      continue;
    }
    out[relation->after] =
        carry_over(c, id, x[axis], *relation, static_cast<std::size_t>((*after)[relation->after].value));
  }
  if (!flatten) {
    follow_shape_input(c, id, 1, out);
  }
  c.set_output(id, 0, std::move(out));
}

void couple_expand(Coupling& c, NodeId id) {
  const Labels x = c.input(id, 0);
  const auto before = input_shape(c.graph(), id, 0);
  const auto after = output_shape(c, id);
  if (!before || !after || after->size() < x.size()) {
    c.freeze_inputs(id, kUnknownShape);
    c.freeze_sizes(id, c.graph().input(id, 1));
    return;
  }
  const std::size_t missing = after->size() - x.size();
  const std::vector<SizeEntry> sizes = c.sizes(c.graph().input(id, 1));
  Labels out(after->size());
  for (std::size_t axis = 0; axis < out.size(); ++axis) {
    const bool spread = axis < missing || (*before)[axis - missing].value == 1;
    if (!spread) {
      out[axis] = x[axis - missing];
    } else if ((*after)[axis].value > 1) {
      out[axis] =
          c.fresh(static_cast<std::size_t>((*after)[axis].value));  // equal numbers: any of them may go
    }
  }
  // The shape may have fewer entries than the output has axes, and a 1 leaves the input's size.
  const std::size_t shift = out.size() - std::min(out.size(), sizes.size());
  for (std::size_t axis = 0; axis < out.size(); ++axis) {
    const bool listed = axis >= shift;
    const bool from_axis = listed && sizes[axis - shift].kind == SizeEntry::Kind::kAxis;
    if (listed && (is_labelled(out[axis]) || from_axis)) {
      c.follow_size(id, 1, axis - shift, out[axis]);
    } else if (sizes.empty()) {
      c.freeze(out[axis], id, "the size of its output is computed");
    }
  }
  c.set_output(id, 0, std::move(out));
}

// Sizes joined to a shape, [n]. False when they cannot be followed.
bool join_sizes(Coupling& c, NodeId id) {
  std::vector<SizeEntry> entries;
  for (std::size_t i = 0; i < c.graph().node(id).inputs.size(); ++i) {
    const auto shape = input_shape(c.graph(), id, i);
    if (!shape || shape->size() != 1 || !(*shape)[0].fixed()) {
      return false;
    }
    std::vector<SizeEntry> part = c.sizes(c.graph().input(id, i));
    part.resize(static_cast<std::size_t>((*shape)[0].value));
    entries.insert(entries.end(), part.begin(), part.end());
  }
  c.set_sizes(c.graph().output(id), std::move(entries));
  return true;
}

void couple_concat(Coupling& c, NodeId id) {
  const graph::Node& node = c.graph().node(id);
  const auto axis = ops::axis_of(c.graph(), id, c.opset());
  if (numeric::is_integer(ops::element_of(c.graph(), c.graph().output(id))) && join_sizes(c, id)) {
    return;
  }
  for (const ValueId input : node.inputs) {
    c.freeze_sizes(id, input);
  }
  if (!axis) {
    c.freeze_inputs(id, kUnknownShape);
    return;
  }
  const auto along = static_cast<std::size_t>(*axis);
  std::vector<Labels> inputs;
  bool joined = false;
  bool lengths = true;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const auto shape = input_shape(c.graph(), id, i);
    inputs.push_back(c.input(id, i));
    joined = joined || (along < inputs[i].size() && is_labelled(inputs[i][along]));
    lengths = lengths && shape && along < shape->size() && (*shape)[along].fixed();
  }
  if (joined && !lengths) {
    c.freeze_inputs(id, kUnknownShape);
    return;
  }
  Labels out(inputs.front().size());
  for (std::size_t at = 0; at < out.size(); ++at) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (at == along) {
        if (!joined) {
          continue;
        }
        const auto size = static_cast<std::size_t>((*input_shape(c.graph(), id, i))[along].value);
        Axis part = inputs[i][at];
        if (part.empty()) {
          part = c.fresh(size);
          c.freeze(part, id, "joined with a tensor whose size is given from outside");
        }
        out[at].insert(out[at].end(), part.begin(), part.end());
      } else if (i == 0) {
        out[at] = inputs[i][at];
      } else {
        c.unite(out[at], inputs[i].at(at), id);
      }
    }
  }
  c.set_output(id, 0, std::move(out));
}

void couple_split(Coupling& c, NodeId id) {
  const Labels x = c.input(id, 0);
  const auto form = ops::split_form(c.graph(), id);
  if (!any_labelled(x)) {
    return;
  }
  if (!form) {
    c.freeze_inputs(id, "the sizes of its parts are not known");
    return;
  }
  const auto axis = static_cast<std::size_t>(form->axis);
  Edit edit{Edit::Kind::kSplitSizes, id, 0, 0, "", {}};
  auto next = x[axis].begin();
  for (std::size_t part = 0; part < form->sizes.size(); ++part) {
    Labels out = x;
    if (is_labelled(x[axis])) {
      out[axis].assign(next, next + form->sizes[part]);
      next += form->sizes[part];
      edit.axes.push_back(out[axis]);
    }
    c.set_output(id, part, std::move(out));
  }
  if (is_labelled(x[axis])) {
    c.edit(std::move(edit));
  }
}

void couple_slice(Coupling& c, NodeId id) {
  const ValueId source = c.graph().input(id, 0);
  const auto form = ops::slice_form(c.graph(), id);
  if (c.has_sizes(source)) {
    std::vector<SizeEntry> entries = c.sizes(source);
    const auto size = static_cast<std::int64_t>(entries.size());
    if (!form || form->axes != Dims{0}) {
      c.freeze_sizes(id, source);
      return;
    }
    const ops::SliceRange range = ops::clamp_slice(form->starts[0], form->ends[0], form->steps[0], size);
    std::vector<SizeEntry> taken;
    for (std::int64_t i = 0; i < range.count; ++i) {
      taken.push_back(entries.at(static_cast<std::size_t>(range.start + i * range.step)));
    }
    c.set_sizes(c.graph().output(id), std::move(taken));
    return;
  }
  for (std::size_t i = 1; i < c.graph().node(id).inputs.size(); ++i) {
    c.freeze_sizes(id, c.graph().input(id, i));
  }
  Labels x = c.input(id, 0);
  if (!any_labelled(x)) {
    return;
  }
  if (!form) {
    c.freeze_inputs(id, "what it takes is not known before run time");
    return;
  }
  for (std::size_t k = 0; k < form->axes.size(); ++k) {
    Axis& axis = x[static_cast<std::size_t>(form->axes[k])];
    if (axis.empty()) {
      continue;
    }
    const auto size = static_cast<std::int64_t>(axis.size());
    const ops::SliceRange range = ops::clamp_slice(form->starts[k], form->ends[k], form->steps[k], size);
    if (range.step != 1 || range.count == 0) {
      c.freeze(axis, id, "every other channel is taken");
      axis.clear();
      continue;
    }
    const auto begin = axis.begin() + range.start;
    const Axis taken(begin, begin + range.count);
    if (range.count < size) {
      c.edit({Edit::Kind::kSliceRange, id, 0, k, "", {Axis(axis.begin(), begin), taken}});
    }
    axis = taken;
  }
  c.set_output(id, 0, std::move(x));
}

void couple_gather(Coupling& c, NodeId id) {
  const ValueId source = c.graph().input(id, 0);
  const auto axis = ops::axis_of(c.graph(), id, c.opset());
  const auto indices = ops::constant_ints(c.graph(), c.graph().input(id, 1));
  const auto index_shape = input_shape(c.graph(), id, 1);
  c.freeze_sizes(id, c.graph().input(id, 1));
  if (c.has_sizes(source)) {
    const std::vector<SizeEntry> entries = c.sizes(source);
    if (!indices) {
      c.freeze_sizes(id, source);
      return;
    }
    std::vector<SizeEntry> taken;
    for (const std::int64_t index : *indices) {
      const auto at = ops::normalize_axis(index, static_cast<std::int64_t>(entries.size()));
      taken.push_back(at ? entries[static_cast<std::size_t>(*at)] : SizeEntry{});
    }
    c.set_sizes(c.graph().output(id), std::move(taken));
    return;
  }
  const Labels x = c.input(id, 0);
  if (!any_labelled(x)) {
    return;
  }
  if (!axis || !index_shape) {
    c.freeze_inputs(id, kUnknownShape);
    return;
  }
  const auto at = static_cast<std::size_t>(*axis);
  Labels out(x.begin(), x.begin() + *axis);
  out.resize(out.size() + index_shape->size());
  out.insert(out.end(), x.begin() + *axis + 1, x.end());
  if (is_labelled(x[at]) && !(indices && index_shape->size() <= 1)) {
    c.freeze(x[at], id, "which channels it takes is not known before run time");
  } else if (is_labelled(x[at])) {
    Axis taken;
    for (const std::int64_t index : *indices) {
      const auto resolved = ops::normalize_axis(index, static_cast<std::int64_t>(x[at].size()));
      taken.push_back(x[at].at(static_cast<std::size_t>(resolved.value_or(0))));
    }
    if (index_shape->empty()) {
      c.freeze(taken, id, "this one channel is taken");
    } else if (taken.size() > 1) {
      out[at] = taken;
    } else {
      c.freeze(taken, id, "this one channel is taken");
    }
    c.edit({Edit::Kind::kGatherIndices, id, 1, 0, "", {x[at]}});
  }
  c.set_output(id, 0, std::move(out));
}

void couple_tile(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  const auto repeats = ops::constant_ints(c.graph(), c.graph().input(id, 1));
  c.freeze_sizes(id, c.graph().input(id, 1));
  if (!repeats || repeats->size() != x.size()) {
    c.freeze_inputs(id, "how often it repeats is not known");
    return;
  }
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    const Axis once = x[axis];
    for (std::int64_t i = 1; i < (*repeats)[axis] && is_labelled(once); ++i) {
      x[axis].insert(x[axis].end(), once.begin(), once.end());
    }
  }
  c.set_output(id, 0, std::move(x));
}

void couple_pad(Coupling& c, NodeId id) {
  Labels x = c.input(id, 0);
  const auto form = ops::pad_form(c.graph(), id);
  if (!form || form->begin.size() != x.size()) {
    c.freeze_inputs(id, "how much it adds is not known");
    return;
  }
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    if (form->begin[axis] != 0 || form->end[axis] != 0) {
      c.freeze(x[axis], id, "channels are added");
      x[axis].clear();
    }
  }
  c.set_output(id, 0, std::move(x));
}

// Axes of size times 1 stay as they are; the others are resampled.
void couple_resize(Coupling& c, NodeId id) {
  const graph::Graph& graph = c.graph();
  Labels x = c.input(id, 0);
  const auto before = input_shape(graph, id, 0);
  const auto after = output_shape(c, id);
  const bool by_sizes = graph.input(id, 3).valid();
  const bool crop =
      graph.attribute<std::string>(id, "coordinate_transformation_mode", "") == "tf_crop_and_resize";
  const auto named = graph.attribute<Dims>(id, "axes", {});
  if (!before || !after || crop) {
    c.freeze_inputs(id, kUnknownShape);
    c.freeze_sizes(id, graph.input(id, 3));
    return;
  }
  const std::vector<SizeEntry> sizes = by_sizes ? c.sizes(graph.input(id, 3)) : std::vector<SizeEntry>{};
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    std::size_t entry = named.empty() ? axis : sizes.size();  // beyond the end: not listed
    for (std::size_t k = 0; k < named.size(); ++k) {
      if (ops::normalize_axis(named[k], static_cast<std::int64_t>(x.size())) ==
          static_cast<std::int64_t>(axis)) {
        entry = k;
      }
    }
    if (is_labelled(x[axis]) && (*after)[axis].value != static_cast<std::int64_t>(x[axis].size())) {
      c.freeze(x[axis], id, "the channels are resampled");
      x[axis].clear();
    }
    const bool listed = entry < sizes.size();
    if (listed && (is_labelled(x[axis]) || sizes[entry].kind == SizeEntry::Kind::kAxis)) {
      c.follow_size(id, 3, entry, x[axis]);
    } else if (by_sizes && sizes.empty()) {
      c.freeze(x[axis], id, "the size of its output is computed");
    }
  }
  c.set_output(id, 0, std::move(x));
}

// [N, C r r, H, W] -> [N, C, r H, r W]: the r*r channels that make one go together.
void couple_depth_to_space(Coupling& c, NodeId id) {
  const Labels x = c.input(id, 0);
  const auto block = c.graph().attribute<std::int64_t>(id, "blocksize", 1);
  const bool interleaved = c.graph().attribute<std::string>(id, "mode", "DCR") == "CRD";
  if (x.size() != 4 || block < 1) {
    c.freeze_inputs(id, kUnknownShape);
    return;
  }
  c.freeze(x[2], id, "this axis is enlarged");
  c.freeze(x[3], id, "this axis is enlarged");
  Labels out(4);
  const std::size_t squares = static_cast<std::size_t>(block) * static_cast<std::size_t>(block);
  const std::size_t channels = x[1].size() / squares;
  for (std::size_t i = 0; i < channels; ++i) {
    Axis same;
    for (std::size_t k = 0; k < squares; ++k) {
      same.push_back(x[1][interleaved ? i * squares + k : k * channels + i]);
    }
    out[1].push_back(c.unite_blocks(same, same.size()).front());
  }
  if (out[1].size() == 1) {
    c.freeze(out[1], id, "one channel is left");
    out[1].clear();
  }
  c.set_output(id, 0, std::move(out));
}

// [N, C, r H, r W] -> [N, r r C, H, W].
void couple_space_to_depth(Coupling& c, NodeId id) {
  const Labels x = c.input(id, 0);
  const auto block = c.graph().attribute<std::int64_t>(id, "blocksize", 1);
  if (x.size() != 4 || block < 1) {
    c.freeze_inputs(id, kUnknownShape);
    return;
  }
  c.freeze(x[2], id, "this axis is reduced");
  c.freeze(x[3], id, "this axis is reduced");
  Labels out(4);
  for (std::int64_t k = 0; k < block * block; ++k) {
    out[1].insert(out[1].end(), x[1].begin(), x[1].end());
  }
  c.set_output(id, 0, std::move(out));
}

void couple_shape(Coupling& c, NodeId id) {
  const auto shape = input_shape(c.graph(), id, 0);
  if (!shape) {
    return;
  }
  const auto rank = static_cast<std::int64_t>(shape->size());
  const ops::SliceRange range = ops::clamp_slice(c.graph().attribute<std::int64_t>(id, "start", 0),
                                                 c.graph().attribute<std::int64_t>(id, "end", rank), 1, rank);
  std::vector<SizeEntry> entries;
  for (std::int64_t i = 0; i < range.count; ++i) {
    entries.push_back(
        {SizeEntry::Kind::kAxis, c.graph().input(id, 0), static_cast<std::size_t>(range.start + i), 0});
  }
  c.set_sizes(c.graph().output(id), std::move(entries));
}

void couple_constant(Coupling&, NodeId) {}

constexpr Rule kRules[] = {
    {"Concat", couple_concat},
    {"Constant", couple_constant},
    {"DepthToSpace", couple_depth_to_space},
    {"Expand", couple_expand},
    {"Flatten", couple_reshape},
    {"Gather", couple_gather},
    {"Pad", couple_pad},
    {"Reshape", couple_reshape},
    {"Resize", couple_resize},
    {"Shape", couple_shape},
    {"Slice", couple_slice},
    {"SpaceToDepth", couple_space_to_depth},
    {"Split", couple_split},
    {"Squeeze", couple_squeeze},
    {"Tile", couple_tile},
    {"Transpose", couple_transpose},
    {"Unsqueeze", couple_squeeze},
    {"Upsample", couple_resize},
};

}  // namespace

std::span<const Rule> layout_rules() { return kRules; }

}  // namespace tempera::compress
