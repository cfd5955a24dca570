#include "tempera/compress/prune/groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tempera/ops/access.h"
#include "tempera/ops/operators.h"
#include "tempera/pass/rewrite.h"

namespace tempera::compress {
namespace {

// Whether the constant enters a product, maybe turned or reshaped before it.
bool is_weight(const graph::Graph& graph, graph::Use use) {
  const graph::Node& node = graph.node(use.node);
  const auto constant = graph.constant(graph.input(use.node, use.input));
  const bool moved = node.is("Transpose") || node.is("Reshape") || node.is("Identity");
  return constant && constant->rank() >= 2 && ops::is_arithmetic_float(constant->type()) &&
         (moved || ops::has_trait(node, ops::kMultiply));
}

// ||w[k]||_p for every index k along an axis.
std::vector<double> norms_along(const std::vector<double>& numbers, const graph::Dims& dims, std::size_t axis,
                                WeightNorm norm) {
  std::vector<double> sums(static_cast<std::size_t>(dims[axis]), 0.0);
  const std::size_t inner =
      static_cast<std::size_t>(std::accumulate(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                                               dims.end(), std::int64_t{1}, std::multiplies<>()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double magnitude = std::abs(numbers[i]);
    sums[i / inner % sums.size()] += norm == WeightNorm::kL1 ? magnitude : magnitude * magnitude;
  }
  if (norm == WeightNorm::kL2) {
    std::for_each(sums.begin(), sums.end(), [](double& sum) { sum = std::sqrt(sum); });
  }
  return sums;
}

struct Class {
  std::vector<std::size_t> sites;      // (use, axis) pairs that hold it, numbered
  std::vector<std::size_t> producers;  // indices into producers()
  std::int64_t width = 0;              // of the first producer
  double importance = 0.0;
};

void push_new(std::vector<std::size_t>& list, std::size_t item) {
  if (list.empty() || list.back() != item) {
    list.push_back(item);
  }
}

std::map<Atom, Class> find_classes(const Coupling& coupling, WeightNorm norm) {
  const Atoms& atoms = coupling.atoms();
  std::map<Atom, Class> classes;
  for (std::size_t i = 0; i < coupling.producers().size(); ++i) {
    for (const Atom atom : coupling.producers()[i].axis) {
      if (!atoms.frozen(atom)) {
        Class& found = classes[atoms.find(atom)];
        push_new(found.producers, i);
        found.width += found.producers.front() == i ? 1 : 0;
      }
    }
  }
  std::size_t site = 0;
  for (const auto& [use, labels] : coupling.weights()) {
    const bool counts = is_weight(coupling.graph(), use);
    std::vector<double> numbers;
    for (std::size_t axis = 0; axis < labels.size(); ++axis, ++site) {
      const bool held = std::any_of(labels[axis].begin(), labels[axis].end(),
                                    [&](Atom atom) { return classes.contains(atoms.find(atom)); });
      if (!held) {
        continue;
      }
      const graph::Tensor tensor =
          coupling.graph().constant(coupling.graph().input(use.node, use.input)).value();
      std::vector<double> norms(labels[axis].size(), 0.0);
      if (counts) {
        if (numbers.empty()) {
          numbers = to_doubles(tensor);
        }
        norms = norms_along(numbers, tensor.dims(), axis, norm);
      }
      for (std::size_t k = 0; k < labels[axis].size(); ++k) {
        if (const auto found = classes.find(atoms.find(labels[axis][k])); found != classes.end()) {
          push_new(found->second.sites, site);
          found->second.importance += norms[k];
        }
      }
    }
  }
  return classes;
}

}  // namespace

std::vector<ChannelGroup> find_groups(const Coupling& coupling, WeightNorm norm) {
  std::map<std::pair<std::vector<std::size_t>, std::vector<std::size_t>>, std::size_t> numbers;
  std::vector<ChannelGroup> groups;
  for (const auto& [atom, found] : find_classes(coupling, norm)) {
    const auto [entry, fresh] = numbers.try_emplace({found.producers, found.sites}, groups.size());
    if (fresh) {
      ChannelGroup group;
      for (const std::size_t producer : found.producers) {
        group.layers.push_back(pass::site(coupling.graph(), coupling.producers()[producer].node));
      }
      group.name = group.layers.front();
      group.width = found.width;
      groups.push_back(std::move(group));
    }
    ChannelGroup& group = groups[entry->second];
    group.channels.push_back(atom);
    group.importance.push_back(found.importance);
    group.approximate = group.approximate || coupling.approximate(atom);
  }
  for (ChannelGroup& group : groups) {
    const double mean = std::accumulate(group.importance.begin(), group.importance.end(), 0.0) /
                        static_cast<double>(group.importance.size());
    for (double& importance : group.importance) {
      importance = mean > 0.0 ? importance / mean : 1.0;
    }
  }
  return groups;
}

std::vector<Barrier> find_barriers(const Coupling& coupling) {
  std::vector<Barrier> barriers;
  for (const Producer& producer : coupling.producers()) {
    std::map<const Reason*, std::int64_t> counts;
    for (const Atom atom : producer.axis) {
      if (const Reason* reason = coupling.atoms().reason(atom)) {
        ++counts[reason];
      }
    }
    for (const auto& [reason, count] : counts) {
      const std::string layer = pass::site(coupling.graph(), producer.node);
      const std::string node = reason->node.valid() ? pass::site(coupling.graph(), reason->node) : "";
      const auto same = std::find_if(barriers.begin(), barriers.end(), [&](const Barrier& barrier) {
        return barrier.layer == layer && barrier.node == node && barrier.reason == reason->text;
      });
      if (same != barriers.end()) {
        same->channels += count;
      } else {
        barriers.push_back(
            {layer, count, static_cast<std::int64_t>(producer.axis.size()), node, reason->text});
      }
    }
  }
  return barriers;
}

}  // namespace tempera::compress
