#include "tempera/compress/prune/channels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/prune/cut.h"
#include "tempera/pass/rewrite.h"

namespace tempera::compress {
namespace {

constexpr double kLeastKept = 0.1;  // of a group, when all are ranked together

// Order in which the channels of a group go.
std::vector<std::size_t> least_first(const ChannelGroup& group) {
  std::vector<std::size_t> order(group.channels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return group.importance[a] != group.importance[b] ? group.importance[a] < group.importance[b] : a > b;
  });
  return order;
}

// The least number of channels not below `wanted` whose outputs are a multiple of `align`; all when there is
// none.
std::size_t aligned(const ChannelGroup& group, std::size_t wanted, std::int64_t align) {
  const auto step = static_cast<std::size_t>(align / std::gcd(align, group.width));
  return std::min((std::max<std::size_t>(wanted, 1) + step - 1) / step * step, group.channels.size());
}

std::vector<std::size_t> keep_in_each(const std::vector<ChannelGroup>& groups,
                                      const ChannelOptions& options) {
  std::vector<std::size_t> keep;
  for (const ChannelGroup& group : groups) {
    const double count = static_cast<double>(group.channels.size());
    const auto gone = static_cast<std::size_t>(std::floor(options.pruning_ratio * count + 1e-9));
    keep.push_back(aligned(group, group.channels.size() - gone, options.align));
  }
  return keep;
}

std::vector<std::size_t> keep_globally(const std::vector<ChannelGroup>& groups,
                                       const ChannelOptions& options) {
  struct Candidate {
    double importance;
    std::size_t group;
    std::size_t place;  // in the order in which the group's go
  };
  std::vector<Candidate> candidates;
  std::vector<std::size_t> keep;
  double total = 0.0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::size_t> order = least_first(groups[g]);
    for (std::size_t place = 0; place < order.size(); ++place) {
      candidates.push_back({groups[g].importance[order[place]], g, place});
    }
    keep.push_back(order.size());
    total += static_cast<double>(order.size()) * static_cast<double>(groups[g].width);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.importance < b.importance; });
  double left = options.pruning_ratio * total;
  for (const Candidate& candidate : candidates) {
    const auto width = static_cast<double>(groups[candidate.group].width);
    const double least = kLeastKept * static_cast<double>(groups[candidate.group].channels.size());
    if (left >= width && static_cast<double>(keep[candidate.group] - 1) >= std::max(least, 1.0)) {
      --keep[candidate.group];
      left -= width;
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    keep[g] = aligned(groups[g], keep[g], options.align);
  }
  return keep;
}

void require_ranges(const ChannelOptions& options) {
  if (!(options.pruning_ratio >= 0.0 && options.pruning_ratio < 1.0)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the pruning ratio is {}, expected 0 to below 1", options.pruning_ratio));
  }
  if (options.align < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the alignment is {}, expected at least 1", options.align));
  }
}

// Classes that go, by the atom that stands for each.
class Removal {
 public:
  explicit Removal(const Coupling& coupling) : coupling_(coupling) {}

  void remove(Atom atom, double importance) { gone_[coupling_.atoms().find(atom)] = importance; }
  [[nodiscard]] bool gone(Atom atom) const { return gone_.contains(coupling_.atoms().find(atom)); }

  // An axis that would become empty keeps its most important class.
  void keep_one(const Axis& axis) {
    const bool empty =
        !axis.empty() && std::all_of(axis.begin(), axis.end(), [&](Atom atom) { return gone(atom); });
    if (!empty) {
      return;
    }
    const auto of = [&](Atom atom) { return gone_.at(coupling_.atoms().find(atom)); };
    gone_.erase(coupling_.atoms().find(
        *std::max_element(axis.begin(), axis.end(), [&](Atom a, Atom b) { return of(a) < of(b); })));
  }

  [[nodiscard]] std::vector<bool> flags() const {
    std::vector<bool> removed(coupling_.atoms().size());
    for (Atom atom = 0; atom < removed.size(); ++atom) {
      removed[atom] = gone(atom);
    }
    return removed;
  }

 private:
  const Coupling& coupling_;
  std::map<Atom, double> gone_;
};

// Where a layer's weight is summed over, and where its outputs lie.
struct WeightAxes {
  std::size_t inputs;
  std::size_t outputs;
};

std::optional<WeightAxes> weight_axes(const graph::Graph& graph, graph::Use use) {
  const graph::Node& node = graph.node(use.node);
  if (use.input != 1) {
    return std::nullopt;
  }
  if (node.is("Conv") && graph.attribute<std::int64_t>(use.node, "group", 1) == 1) {
    return WeightAxes{1, 0};
  }
  if (node.is("Gemm") && graph.attribute<std::int64_t>(use.node, "transB", 0) != 0) {
    return WeightAxes{1, 0};
  }
  const bool product = node.is("Gemm") || node.is("MatMul");
  return product ? std::optional(WeightAxes{0, 1}) : std::nullopt;
}

std::vector<Reader> find_readers(const Coupling& coupling, const std::vector<bool>& removed) {
  const graph::Graph& graph = coupling.graph();
  std::vector<Reader> readers;
  for (const graph::NodeId id : graph.nodes()) {
    const graph::Use use{id, 1};
    const auto labels = coupling.weights().find(use);
    const auto axes = weight_axes(graph, use);
    if (labels == coupling.weights().end() || !axes || axes->inputs >= labels->second.size()) {
      continue;
    }
    const Axis& inputs = labels->second[axes->inputs];
    if (count_kept(inputs, removed) == static_cast<std::int64_t>(inputs.size())) {
      continue;
    }
    Reader reader{id, pass::site(graph, id), {}};
    for (const Atom atom : labels->second[axes->outputs]) {
      reader.outputs_kept.push_back(!removed[atom]);
    }
    if (reader.outputs_kept.empty()) {
      reader.outputs_kept = {true};  // an axis of one is not labelled
    }
    readers.push_back(std::move(reader));
  }
  return readers;
}

}  // namespace

ChannelPlan plan_channels(const Coupling& coupling, const ChannelOptions& options) {
  require_ranges(options);
  const std::vector<ChannelGroup> groups = find_groups(coupling, options.norm);
  const std::vector<std::size_t> keep =
      options.global ? keep_globally(groups, options) : keep_in_each(groups, options);
  Removal removal(coupling);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::size_t> order = least_first(groups[g]);
    for (std::size_t place = 0; place + keep[g] < order.size(); ++place) {
      removal.remove(groups[g].channels[order[place]], groups[g].importance[order[place]]);
    }
  }
  for (const auto& [value, labels] : coupling.values()) {
    std::for_each(labels.begin(), labels.end(), [&](const Axis& axis) { removal.keep_one(axis); });
  }
  for (const auto& [use, labels] : coupling.weights()) {
    std::for_each(labels.begin(), labels.end(), [&](const Axis& axis) { removal.keep_one(axis); });
  }
  ChannelPlan plan;
  plan.removed = removal.flags();
  for (const ChannelGroup& group : groups) {
    GroupRecord record{group.name, group.layers, 0, 0, 0.0, group.approximate};
    double lost = 0.0;
    double all = 0.0;
    std::int64_t kept = 0;
    for (std::size_t k = 0; k < group.channels.size(); ++k) {
      const bool gone = plan.removed[group.channels[k]];
      all += group.importance[k];
      lost += gone ? group.importance[k] : 0.0;
      kept += gone ? 0 : 1;
    }
    record.channels_before = static_cast<std::int64_t>(group.channels.size()) * group.width;
    record.channels_after = kept * group.width;
    record.importance_lost = all > 0.0 ? lost / all : 0.0;
    plan.groups.push_back(std::move(record));
  }
  return plan;
}

ChannelPruned prune_channels(const graph::Model& model, const ChannelOptions& options) {
  const Coupling coupling(model, options.ignore);
  ChannelPlan plan = plan_channels(coupling, options);
  ChannelPruned pruned;
  pruned.model = cut_channels(model, coupling, plan.removed);
  pruned.groups = std::move(plan.groups);
  pruned.barriers = find_barriers(coupling);
  pruned.readers = find_readers(coupling, plan.removed);
  return pruned;
}

}  // namespace tempera::compress
