#include "tempera/engine/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/engine/inner_tensors.h"

namespace tempera::engine {
namespace {

using graph::Graph;
using graph::TensorError;
using graph::ValueId;

using Samples = std::span<const std::vector<graph::Tensor>>;

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  std::transform(ids.begin(), ids.end(), std::back_inserter(names),
                 [&graph](ValueId id) { return graph.value(id).name; });
  return names;
}

// Inputs without a default.
std::vector<std::string> required_inputs(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.inputs()) {
    if (!graph.value(id).constant) {
      names.push_back(graph.value(id).name);
    }
  }
  return names;
}

/// A compiled side; its inputs taken from those of side a by name.
class Runner {
 public:
  Runner(const char* label, const Side& side, const graph::Model& model, const std::vector<std::string>& sample_names)
      : label_(label) {
    try {
      session_ = side.engine->compile(model, side.options);
    } catch (Error& e) {
      e.in(label_);
      throw;
    }
    for (const Port& port : session_->inputs()) {
      const auto found = std::find(sample_names.begin(), sample_names.end(), port.name);
      if (found == sample_names.end()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{} has an input '{}' that the samples do not hold", label_, port.name));
      }
      order_.push_back(static_cast<std::size_t>(found - sample_names.begin()));
    }
  }

  std::vector<graph::Tensor> run(const std::vector<graph::Tensor>& sample) {
    std::vector<graph::Tensor> inputs;
    inputs.reserve(order_.size());
    for (const std::size_t i : order_) {
      inputs.push_back(sample.at(i));
    }
    try {
      return session_->run(inputs);
    } catch (Error& e) {
      e.in(label_);
      throw;
    }
  }

 private:
  std::string label_;
  std::unique_ptr<Session> session_;
  std::vector<std::size_t> order_;  // of each input of the session among the sample's tensors
};

/// A tensor of a and the one of b that stands for it.
struct Pair {
  ValueId a;
  ValueId b;
};

/// Which of the original's tensors each node output of a graph stands for.
struct Origins {
  std::map<std::string, ValueId> equal;
  std::multimap<std::string, ValueId> derived;
  std::vector<ValueId> made_here;  // no counterpart in the original
};

bool is_comparable(const graph::Value& value) {
  return value.type.kind == graph::ValueType::Kind::kTensor || value.type.kind == graph::ValueType::Kind::kUnknown;
}

Origins origins_of(const Graph& graph) {
  Origins origins;
  for (const graph::NodeId node : graph.nodes()) {
    for (const ValueId output : graph.node(node).outputs) {
      if (!output.valid() || !is_comparable(graph.value(output))) {
        continue;
      }
      const auto& origin = graph.value(output).origin;
      if (!origin) {
        origins.made_here.push_back(output);
      } else if (origin->equal) {
        origins.equal.emplace(origin->tensor, output);
      } else {
        origins.derived.emplace(origin->tensor, output);
      }
    }
  }
  return origins;
}

std::vector<Pair> match_tensors(const Graph& a, const Graph& b, CompareReport& report) {
  const Origins from_a = origins_of(a);
  const Origins from_b = origins_of(b);
  std::vector<Pair> pairs;
  for (const auto& [tensor, id] : from_b.equal) {
    if (const auto found = from_a.equal.find(tensor); found != from_a.equal.end()) {
      pairs.push_back({found->second, id});
    } else {
      report.only_b.push_back(b.value(id).name);
    }
  }
  for (const auto& [tensor, id] : from_b.derived) {
    report.derived.push_back(b.value(id).name);
  }
  for (const auto& [tensor, id] : from_a.equal) {
    if (from_b.equal.count(tensor) == 0 && from_b.derived.count(tensor) == 0) {
      report.only_a.push_back(a.value(id).name);
    }
  }
  const auto add_names = [](const Graph& graph, const std::vector<ValueId>& ids, std::vector<std::string>& names) {
    for (const ValueId id : ids) {
      names.push_back(graph.value(id).name);
    }
  };
  add_names(a, from_a.made_here, report.only_a);
  add_names(b, from_b.made_here, report.only_b);

  std::map<ValueId, std::size_t> order;
  for (const graph::NodeId node : b.nodes()) {
    for (const ValueId output : b.node(node).outputs) {
      order.emplace(output, order.size());
    }
  }
  std::sort(pairs.begin(), pairs.end(), [&order](const Pair& x, const Pair& y) { return order.at(x.b) < order.at(y.b); });
  return pairs;
}

Compared describe(const Graph& a, const Graph& b, const Pair& pair) {
  Compared result;
  result.name = a.value(pair.a).name;
  result.name_b = b.value(pair.b).name;
  if (const graph::NodeId node = b.producer(pair.b); node.valid()) {
    result.node = b.node(node).name;
    result.op_type = b.node(node).op_type;
  }
  return result;
}

void add_sample(Compared& compared, const graph::Tensor& a, const graph::Tensor& b, double tolerance) {
  TensorError error;
  try {
    error = tensor_error(a, b);
  } catch (Error& e) {
    e.in(fmt::format("tensor '{}'", compared.name));
    throw;
  }
  compared.diverges = compared.diverges || !error.comparable() || error.relative_l2 > tolerance;
  compared.samples.push_back(std::move(error));
}

// Position of the tensor among the model's outputs, which it is added to when it is none yet.
std::size_t output_index(Graph& graph, ValueId id) {
  const auto& outputs = graph.outputs();
  const auto found = std::find(outputs.begin(), outputs.end(), id);
  if (found != outputs.end()) {
    return static_cast<std::size_t>(found - outputs.begin());
  }
  graph.add_output(id);
  return graph.outputs().size() - 1;
}

class Comparison {
 public:
  Comparison(const Side& a, const Side& b, Samples samples, const CompareOptions& options, const Host& host)
      : a_(a),
        b_(b),
        samples_(samples),
        options_(options),
        host_(host),
        input_names_(required_inputs(a.model->graph)) {
    check();
  }

  void outputs(CompareReport& report) {
    const Graph& graph_a = a_.model->graph;
    const Graph& graph_b = b_.model->graph;
    for (std::size_t i = 0; i < graph_a.outputs().size(); ++i) {
      report.outputs.push_back(describe(graph_a, graph_b, {graph_a.outputs()[i], graph_b.outputs()[i]}));
    }
    Runner run_a("side a", a_, *a_.model, input_names_);
    Runner run_b("side b", b_, *b_.model, input_names_);
    host_.progress.begin("comparing outputs", static_cast<std::int64_t>(samples_.size()));
    for (const auto& sample : samples_) {
      host_.cancel.throw_if_cancelled();
      const auto values_a = run_a.run(sample);
      const auto values_b = run_b.run(sample);
      for (std::size_t i = 0; i < report.outputs.size(); ++i) {
        add_sample(report.outputs[i], values_a.at(i), values_b.at(i), options_.tolerance);
      }
      host_.progress.advance();
    }
    host_.progress.end();
  }

  void tensors(CompareReport& report) {
    const std::vector<Pair> pairs = match_tensors(a_.model->graph, b_.model->graph, report);
    host_.progress.begin("comparing tensors", static_cast<std::int64_t>(pairs.size()));
    for (std::size_t begin = 0; begin < pairs.size();) {
      std::size_t end = begin;
      std::int64_t bytes = 0;
      while (end < pairs.size() && (end == begin || bytes < options_.batch_bytes)) {
        bytes += bytes_estimate(b_.model->graph.value(pairs[end].b).type);
        ++end;
      }
      batch(std::span(pairs).subspan(begin, end - begin), report);
      host_.progress.advance(static_cast<std::int64_t>(end - begin));
      begin = end;
    }
    host_.progress.end();
  }

 private:
  void check() const {
    if (samples_.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "no samples to compare on");
    }
    const auto outputs_a = names_of(a_.model->graph, a_.model->graph.outputs());
    const auto outputs_b = names_of(b_.model->graph, b_.model->graph.outputs());
    if (outputs_a != outputs_b) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the models have different outputs: {} against {}", fmt::join(outputs_a, ", "),
                              fmt::join(outputs_b, ", ")));
    }
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (samples_[i].size() != input_names_.size()) {
        throw Error(ErrorCode::kInvalidArgument, fmt::format("sample {} has {} tensors, expected {} for inputs {}", i,
                                                             samples_[i].size(), input_names_.size(),
                                                             fmt::join(input_names_, ", ")));
      }
    }
  }

  void batch(std::span<const Pair> pairs, CompareReport& report) {
    graph::Model model_a = *a_.model;
    graph::Model model_b = *b_.model;
    struct Place {
      std::size_t a;
      std::size_t b;
    };
    std::vector<Place> places;
    std::vector<Compared> compared;
    for (const Pair& pair : pairs) {
      places.push_back({output_index(model_a.graph, pair.a), output_index(model_b.graph, pair.b)});
      compared.push_back(describe(model_a.graph, model_b.graph, pair));
    }
    Runner run_a("side a", a_, model_a, input_names_);
    Runner run_b("side b", b_, model_b, input_names_);
    for (const auto& sample : samples_) {
      host_.cancel.throw_if_cancelled();
      const auto values_a = run_a.run(sample);
      const auto values_b = run_b.run(sample);
      for (std::size_t i = 0; i < places.size(); ++i) {
        add_sample(compared[i], values_a.at(places[i].a), values_b.at(places[i].b), options_.tolerance);
      }
    }
    std::move(compared.begin(), compared.end(), std::back_inserter(report.tensors));
  }

  const Side& a_;
  const Side& b_;
  Samples samples_;
  const CompareOptions& options_;
  const Host& host_;
  std::vector<std::string> input_names_;
};

}  // namespace

std::size_t Compared::worst_sample() const {
  const auto worst = std::max_element(samples.begin(), samples.end(), [](const TensorError& x, const TensorError& y) {
    return x.relative_l2 < y.relative_l2;
  });
  return static_cast<std::size_t>(worst - samples.begin());
}

bool CompareReport::diverges() const {
  return first_divergence.has_value() ||
         std::any_of(outputs.begin(), outputs.end(), [](const Compared& output) { return output.diverges; });
}

double Compared::mean_relative_l2() const {
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0,
                                     [](double total, const TensorError& error) { return total + error.relative_l2; });
  return samples.empty() ? 0.0 : sum / static_cast<double>(samples.size());
}

CompareReport compare(const Side& a, const Side& b, Samples samples, const CompareOptions& options, const Host& host) {
  CompareReport report;
  Comparison comparison(a, b, samples, options, host);
  comparison.outputs(report);
  if (options.tensors) {
    comparison.tensors(report);
  }
  const auto& searched = options.tensors ? report.tensors : report.outputs;
  const auto first = std::find_if(searched.begin(), searched.end(), [](const Compared& c) { return c.diverges; });
  if (first != searched.end()) {
    report.first_divergence = static_cast<std::size_t>(first - searched.begin());
  }
  return report;
}

}  // namespace tempera::engine
