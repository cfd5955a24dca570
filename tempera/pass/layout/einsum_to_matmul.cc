#include "tempera/pass/layout/einsum_to_matmul.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/ops/einsum.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Shape;
using graph::ValueId;

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

bool repeats(const std::string& labels) {
  return std::any_of(labels.begin(), labels.end(),
                     [&](char label) { return std::count(labels.begin(), labels.end(), label) > 1; });
}

// Labels by group, each in the order in which they will stand.
struct Groups {
  std::string batch;
  std::string left;
  std::string right;
  std::string summed;
};

// Nothing when a label is summed within one operand.
std::optional<Groups> group_labels(const std::string& a, const std::string& b, const std::string& result) {
  Groups groups;
  for (const char label : result) {
    const bool in_a = has(a, label);
    const bool in_b = has(b, label);
    (in_a && in_b ? groups.batch : in_a ? groups.left : groups.right).push_back(label);
  }
  for (const char label : a) {
    if (!has(result, label)) {
      if (!has(b, label)) {
        return std::nullopt;
      }
      groups.summed.push_back(label);
    }
  }
  const bool lost = std::any_of(b.begin(), b.end(), [&](char label) { return !has(result, label) && !has(a, label); });
  return lost ? std::nullopt : std::optional(groups);
}

// Where each label of `to` stands in `from`.
Dims permutation(const std::string& from, const std::string& to) {
  Dims perm;
  for (const char label : to) {
    perm.push_back(static_cast<std::int64_t>(from.find(label)));
  }
  return perm;
}

using Sizes = std::map<char, graph::Dim>;

// Records the sizes of an operand's labels; false when the rank is unknown or one contradicts what is recorded.
bool record_sizes(const Graph& graph, ValueId operand, const std::string& labels, Sizes& sizes) {
  const auto& type = graph.value(operand).type;
  if (!type.is_tensor() || !type.shape || type.shape->size() != labels.size()) {
    return false;
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const graph::Dim& dim = (*type.shape)[i];
    const auto [found, fresh] = sizes.emplace(labels[i], dim);
    if (!fresh && found->second.fixed() && dim.fixed() && found->second.value != dim.value) {
      return false;
    }
    if (!fresh && !found->second.fixed()) {
      found->second = dim;
    }
  }
  return true;
}

std::optional<std::int64_t> product(const Sizes& sizes, const std::string& labels) {
  std::int64_t result = 1;
  for (const char label : labels) {
    const graph::Dim& dim = sizes.at(label);
    if (!dim.fixed() || __builtin_mul_overflow(result, dim.value, &result)) {
      return std::nullopt;
    }
  }
  return result;
}

// Target of a Reshape from single labels to groups (or back): a number where known, 0 for a dimension that keeps its place,
// -1 for one that does not. Nothing when two would be -1, or a number is 0.
class Target {
 public:
  void keep(const graph::Dim& dim, bool same_place) {
    dims_.push_back(dim.fixed() ? dim.value : same_place ? 0 : -1);
    unknown_ += dim.fixed() || same_place ? 0 : 1;
    empty_ = empty_ || (dim.fixed() && dim.value == 0);
  }
  void merged(std::optional<std::int64_t> size) {
    dims_.push_back(size.value_or(-1));
    unknown_ += size ? 0 : 1;
    empty_ = empty_ || size == 0;
  }
  [[nodiscard]] std::optional<Dims> dims() const {
    return unknown_ > 1 || empty_ ? std::nullopt : std::optional(dims_);
  }

 private:
  Dims dims_;
  int unknown_ = 0;
  bool empty_ = false;
};

// [batch, first labels.., second labels..] -> [batch, first, second].
std::optional<Dims> merge_target(const Sizes& sizes, const std::string& batch, const std::string& first,
                                 const std::string& second) {
  Target target;
  for (const char label : batch) {
    target.keep(sizes.at(label), true);
  }
  first.size() == 1 ? target.keep(sizes.at(first[0]), true) : target.merged(product(sizes, first));
  second.size() == 1 ? target.keep(sizes.at(second[0]), first.size() == 1) : target.merged(product(sizes, second));
  return target.dims();
}

// And the other way round.
std::optional<Dims> unmerge_target(const Sizes& sizes, const std::string& batch, const std::string& first,
                                   const std::string& second) {
  Target target;
  for (const char label : batch) {
    target.keep(sizes.at(label), true);
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    target.keep(sizes.at(first[i]), first.size() == 1);
  }
  for (std::size_t i = 0; i < second.size(); ++i) {
    target.keep(sizes.at(second[i]), first.size() == 1 && second.size() == 1);
  }
  return target.dims();
}

Shape shape_of_labels(const Sizes& sizes, const std::string& labels) {
  Shape shape;
  for (const char label : labels) {
    shape.push_back(sizes.at(label));
  }
  return shape;
}

// One operand: its labels and the two groups it ends with after the batch.
struct Side {
  ValueId value;
  std::string labels;
  std::string first;
  std::string second;
};

bool is_single(const Side& side) { return side.first.size() == 1 && side.second.size() == 1; }

struct Plan {
  Side left;
  Side right;
  std::string batch;
  std::string result;
  Sizes sizes;
  Dims left_target;    // empty: no Reshape needed
  Dims right_target;
  Dims result_target;
};

std::optional<Plan> make_plan(const Graph& graph, NodeId id, std::string& reason) {
  const auto form = ops::parse_einsum(graph.attribute<std::string>(id, "equation", ""));
  if (!form || form->operands.size() != 2 || graph.node(id).inputs.size() != 2 || repeats(form->operands[0]) ||
      repeats(form->operands[1])) {
    reason = "not two operands of different labels without an ellipsis";
    return std::nullopt;
  }
  std::size_t first = 0;
  std::optional<Groups> groups = group_labels(form->operands[0], form->operands[1], form->result);
  if (!groups) {
    reason = "a label is summed within one operand";
    return std::nullopt;
  }
  if (!groups->left.empty() && !groups->right.empty() &&
      form->result.find(groups->right[0]) < form->result.find(groups->left[0])) {
    first = 1;
    std::swap(groups->left, groups->right);
  }
  Plan plan;
  plan.batch = groups->batch;
  plan.result = form->result;
  plan.left = {graph.input(id, first), form->operands[first], groups->left, groups->summed};
  plan.right = {graph.input(id, 1 - first), form->operands[1 - first], groups->summed, groups->right};
  if (!record_sizes(graph, plan.left.value, plan.left.labels, plan.sizes) ||
      !record_sizes(graph, plan.right.value, plan.right.labels, plan.sizes)) {
    reason = "the sizes of a label differ or ranks are unknown";
    return std::nullopt;
  }
  const auto target = [&](const Side& side, Dims& into) {
    if (is_single(side)) {
      return true;
    }
    const auto dims = merge_target(plan.sizes, plan.batch, side.first, side.second);
    into = dims.value_or(Dims{});
    return dims.has_value();
  };
  bool known = target(plan.left, plan.left_target) && target(plan.right, plan.right_target);
  if (groups->left.size() != 1 || groups->right.size() != 1) {
    const auto dims = unmerge_target(plan.sizes, plan.batch, groups->left, groups->right);
    known = known && dims.has_value();
    plan.result_target = dims.value_or(Dims{});
  }
  if (!known) {
    reason = "sizes that have to be merged are not known";
    return std::nullopt;
  }
  return plan;
}

ValueId turned(ops::Builder& build, ValueId value, const std::string& from, const std::string& to) {
  return from == to ? value : build.transpose(value, permutation(from, to));
}

ValueId arrange(ops::Builder& build, const Plan& plan, const Side& side, const Dims& target) {
  const ValueId value = turned(build, side.value, side.labels, plan.batch + side.first + side.second);
  return is_single(side) ? value : build.reshape(value, target);
}

}  // namespace

PassResult einsum_to_matmul(Graph& graph, const PassContext& context) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Einsum")) {
      continue;
    }
    std::string reason;
    const std::optional<Plan> plan = make_plan(graph, id, reason);
    if (!plan) {
      decline(result, graph, id, reason);
      continue;
    }
    const auto element = ops::element_of(graph, plan->left.value);
    note(result, graph, id, fmt::format("Einsum {} -> MatMul", graph.attribute<std::string>(id, "equation", "")));
    ops::Builder build(graph, context.opset, site(graph, id));
    const ValueId left = arrange(build, *plan, plan->left, plan->left_target);
    const ValueId right = arrange(build, *plan, plan->right, plan->right_target);
    ValueId product_value = build.node("MatMul", {left, right});
    const std::string order = plan->batch + plan->left.first + plan->right.second;
    if (plan->left.first.size() != 1 || plan->right.second.size() != 1) {
      product_value = build.reshape(product_value, plan->result_target);
    }
    graph.set_type(product_value, graph::ValueType::tensor(element, shape_of_labels(plan->sizes, order)));
    substitute(graph, graph.output(id), turned(build, product_value, order, plan->result));
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
