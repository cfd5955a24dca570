#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tempera/compress/prune/rules.h"
#include "tempera/ops/access.h"
#include "tempera/ops/einsum.h"

namespace tempera::compress {
namespace {

using graph::NodeId;

// The bias of a product [.., N]: one number for each channel, or one for all.
void couple_bias(Coupling& c, NodeId id, std::size_t input, const Axis& channels) {
  const Labels bias = c.input(id, input);
  const auto shape = input_shape(c.graph(), id, input);
  if (!bias.empty() && shape && shape->back().value != 1) {
    c.unite(channels, bias.back(), id);
  }
}

// Channels of a convolution with groups: whole groups go, and their number is an attribute.
void couple_groups(Coupling& c, NodeId id, std::int64_t group, const Axis& in, const Axis& out) {
  const auto count = static_cast<std::size_t>(group);
  if (in.size() % count != 0 || out.size() % count != 0 || out.empty()) {
    c.freeze(in, id, "its groups do not divide its channels");
    c.freeze(out, id, "its groups do not divide its channels");
    return;
  }
  const Axis groups = c.unite_blocks(out, out.size() / count);
  c.unite(in.empty() ? Axis{} : c.unite_blocks(in, in.size() / count), groups, id);
  c.edit({Edit::Kind::kCount, id, 0, 0, "group", {groups}});
}

// x [N, C, d..], weight [M, C/group, k..]; transposed: [C, M/group, k..].
void couple_conv(Coupling& c, NodeId id) {
  const bool transposed = c.graph().node(id).is("ConvTranspose");
  const Labels x = c.input(id, 0);
  Labels weight = c.input(id, 1);
  const auto group = c.graph().attribute<std::int64_t>(id, "group", 1);
  if (x.size() < 3 || weight.size() != x.size() || group < 1) {
    c.freeze_inputs(id, "the rank of its input or weight is not known");
    return;
  }
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    if (axis != 1) {
      c.freeze(x[axis], id, "a convolution moves along this axis");
    }
    if (axis > 1) {
      c.freeze(weight[axis], id, "a convolution moves along this axis");
    }
  }
  const Axis& weight_in = weight[transposed ? 0 : 1];
  Axis out = weight[transposed ? 1 : 0];
  if (group == 1) {
    c.unite(x[1], weight_in, id);
  } else if (transposed) {
    const auto shape = input_shape(c.graph(), id, 1);
    const std::int64_t each = (*shape)[1].value;
    c.freeze(weight[1], id, "channels of one group");
    c.unite(x[1], weight_in, id);
    out = each > 0 ? c.fresh(static_cast<std::size_t>(group * each)) : Axis{};
    couple_groups(c, id, group, weight_in, out);
  } else {
    c.freeze(weight[1], id, "channels of one group");
    couple_groups(c, id, group, x[1], out);
  }
  couple_bias(c, id, 2, out);
  if (c.is_fixed(c.graph().input(id, 1))) {
    c.produce(id, out);
  }
  Labels labels(x.size());
  labels[1] = out;
  c.set_output(id, 0, std::move(labels));
}

// A' [M, K] times B' [K, N], plus a bias that broadcasts to [M, N].
void couple_gemm(Coupling& c, NodeId id) {
  const Labels a = c.input(id, 0);
  const Labels b = c.input(id, 1);
  if (a.size() != 2 || b.size() != 2) {
    c.freeze_inputs(id, "the rank of a factor is not 2");
    return;
  }
  const std::size_t rows = c.graph().attribute<std::int64_t>(id, "transA", 0) != 0 ? 1 : 0;
  const std::size_t columns = c.graph().attribute<std::int64_t>(id, "transB", 0) != 0 ? 0 : 1;
  c.unite(a[1 - rows], b[1 - columns], id);
  Labels out = {a[rows], b[columns]};
  const auto bias = input_shape(c.graph(), id, 2);
  couple_bias(c, id, 2, out[1]);
  if (bias && bias->size() == 2 && (*bias)[0].value != 1) {
    c.unite(out[0], c.input(id, 2)[0], id);
  }
  if (c.is_fixed(c.graph().input(id, 1))) {
    c.produce(id, out[1]);
  }
  if (c.is_fixed(c.graph().input(id, 0))) {
    c.produce(id, out[0]);
  }
  c.set_output(id, 0, std::move(out));
}

// A [.., M, K] times B [.., K, N].
void couple_matmul(Coupling& c, NodeId id) {
  std::vector<Labels> leading;
  std::vector<graph::Shape> shapes;
  for (const std::size_t i : {0U, 1U}) {
    const auto shape = input_shape(c.graph(), id, i);
    if (!shape || shape->size() < 2) {
      c.freeze_inputs(id, "a factor is a vector, or its rank is not known");
      return;
    }
    shapes.push_back(*shape);
    leading.push_back(c.input(id, i));
  }
  const Labels a = leading[0];
  const Labels b = leading[1];
  c.unite(a.back(), b[b.size() - 2], id);
  for (Labels& labels : leading) {
    labels.resize(labels.size() - 2);
  }
  Labels out = couple_leading(c, id, leading, shapes);
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  if (c.is_fixed(c.graph().input(id, 1))) {
    c.produce(id, out.back());
  }
  if (c.is_fixed(c.graph().input(id, 0))) {
    c.produce(id, out[out.size() - 2]);
  }
  c.set_output(id, 0, std::move(out));
}

// Each letter is one axis, wherever it stands.
void couple_einsum(Coupling& c, NodeId id) {
  const auto form = ops::parse_einsum(c.graph().attribute<std::string>(id, "equation", ""));
  const graph::Node& node = c.graph().node(id);
  bool understood = form && form->operands.size() == node.inputs.size();
  std::vector<Labels> inputs;
  std::vector<graph::Shape> shapes;
  for (std::size_t i = 0; understood && i < node.inputs.size(); ++i) {
    inputs.push_back(c.input(id, i));
    const auto shape = input_shape(c.graph(), id, i);
    std::string letters = form->operands[i];
    std::sort(letters.begin(), letters.end());
    understood = shape && inputs[i].size() == letters.size() &&
                 std::adjacent_find(letters.begin(), letters.end()) == letters.end();
    shapes.push_back(shape.value_or(graph::Shape{}));
  }
  if (!understood) {
    c.freeze_inputs(id, "its equation is not followed");
    return;
  }
  std::map<char, std::vector<const Axis*>> axes;
  std::map<char, bool> varies;  // read from an operand that is no weight
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t k = 0; k < inputs[i].size(); ++k) {
      const char letter = form->operands[i][k];
      varies[letter] = varies[letter] || !c.is_fixed(c.graph().input(id, i));
      if (shapes[i][k].value != 1) {
        axes[letter].push_back(&inputs[i][k]);
      }
    }
  }
  std::map<char, Axis> united;
  for (const auto& [letter, meeting] : axes) {
    const auto labelled =
        std::find_if(meeting.begin(), meeting.end(), [](const Axis* axis) { return !axis->empty(); });
    if (labelled == meeting.end()) {
      continue;
    }
    united[letter] = **labelled;
    for (const Axis* axis : meeting) {
      c.unite(united[letter], *axis, id);
    }
  }
  Labels out;
  for (const char letter : form->result) {
    out.push_back(united[letter]);
    if (!varies[letter]) {
      c.produce(id, out.back());
    }
  }
  c.set_output(id, 0, std::move(out));
}

constexpr Rule kRules[] = {
    {"Conv", couple_conv},     {"ConvTranspose", couple_conv}, {"Gemm", couple_gemm},
    {"MatMul", couple_matmul}, {"Einsum", couple_einsum},
};

}  // namespace

std::span<const Rule> layer_rules() { return kRules; }

}  // namespace tempera::compress
