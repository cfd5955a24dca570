#include "tempera/compress/prune/repair.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"
#include "tempera/compress/prune/rows.h"

namespace tempera::compress {
namespace {

using graph::Tensor;
using graph::ValueId;

// A model compiled with some of its values as outputs.
class Tapped {
 public:
  // \param cut  the first graph output gives way, so that the engine may leave out what the taps do not need
  Tapped(graph::Model model, const std::vector<ValueId>& values, bool cut, const engine::Engine& engine,
         const engine::CompileOptions& options) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      names_.push_back(model.graph.value(values[i]).name);
      if (model.graph.is_output(values[i])) {
        continue;
      }
      if (cut && i == 0 && model.graph.outputs().size() == 1) {
        model.graph.set_output(0, values[i]);
      } else {
        model.graph.add_output(values[i]);
      }
    }
    model.graph.remove_dead();
    model.graph.sort();
    session_ = engine.compile(model, options);
  }

  std::vector<Tensor> run(std::size_t sample, const NamedInputs& inputs) {
    std::vector<std::string> wanted;
    for (const engine::Port& port : session_->inputs()) {
      wanted.push_back(port.name);
    }
    const std::vector<Tensor> outputs = session_->run(inputs(sample, wanted));
    std::vector<Tensor> tapped;
    for (const std::string& name : names_) {
      const auto& ports = session_->outputs();
      const auto found = std::find_if(ports.begin(), ports.end(),
                                      [&](const engine::Port& port) { return port.name == name; });
      TEMPERA_CHECK(found != ports.end(), fmt::format("the engine lost the output '{}'", name));
      tapped.push_back(outputs[static_cast<std::size_t>(found - ports.begin())]);
    }
    return tapped;
  }

 private:
  std::vector<std::string> names_;
  std::unique_ptr<engine::Session> session_;
};

// What one layer gave in the original model, at the places to be fitted.
struct Target {
  std::vector<std::vector<std::int64_t>> places;  // for each sample
  std::vector<float> rows;                        // [all places, outputs kept]
};

std::vector<std::int64_t> choose_places(std::int64_t available, std::int64_t wanted,
                                        const CounterRng& random) {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < std::min(available, wanted); ++i) {
    places.push_back(available <= wanted
                         ? i
                         : static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(i),
                                                                  static_cast<std::uint64_t>(available))));
  }
  std::sort(places.begin(), places.end());
  return places;
}

double norm(const std::vector<float>& numbers) {
  double sum = 0.0;
  for (const float number : numbers) {
    sum += static_cast<double>(number) * number;
  }
  return std::sqrt(sum);
}

class Repair {
 public:
  Repair(const graph::Model& original, graph::Model& pruned, const std::vector<Reader>& readers,
         std::size_t samples, const NamedInputs& inputs, const engine::Engine& engine,
         const engine::Evaluator& evaluator, const RepairOptions& options, const Host& host)
      : original_(original),
        pruned_(pruned),
        readers_(readers),
        samples_(samples),
        inputs_(inputs),
        engine_(engine),
        evaluator_(evaluator),
        options_(options),
        host_(host) {}

  std::vector<RepairRecord> run() {
    std::vector<RepairRecord> records;
    if (readers_.empty() || samples_ == 0) {
      return records;
    }
    note_targets();
    host_.progress.begin("fitting layers anew", static_cast<std::int64_t>(readers_.size()));
    for (std::size_t i = 0; i < readers_.size(); ++i) {
      host_.cancel.throw_if_cancelled();
      records.push_back(fit(readers_[i], targets_[i]));
      host_.progress.advance(1);
    }
    host_.progress.end();
    return records;
  }

 private:
  void note_targets() {
    std::vector<ValueId> taps;
    for (const Reader& reader : readers_) {
      taps.push_back(original_.graph.output(reader.node));
    }
    Tapped session(original_, taps, false, engine_, options_.compile);
    targets_.resize(readers_.size());
    const auto per_sample =
        (options_.places + static_cast<std::int64_t>(samples_) - 1) / static_cast<std::int64_t>(samples_);
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      host_.cancel.throw_if_cancelled();
      const std::vector<Tensor> outputs = session.run(sample, inputs_);
      for (std::size_t i = 0; i < readers_.size(); ++i) {
        const std::vector<bool>& kept = readers_[i].outputs_kept;
        const auto channels = static_cast<std::int64_t>(kept.size());
        const CounterRng random(options_.seed, i * samples_ + sample);
        targets_[i].places.push_back(choose_places(outputs[i].size() / channels, per_sample, random));
        std::vector<float> row(kept.size());
        for (const std::int64_t place : targets_[i].places.back()) {
          output_row(original_.graph, readers_[i].node, outputs[i], place, row.data());
          for (std::size_t channel = 0; channel < kept.size(); ++channel) {
            if (kept[channel]) {
              targets_[i].rows.push_back(row[channel]);
            }
          }
        }
      }
    }
  }

  // X^T Y, summed in float32 over one sample's places.
  Tensor product(const Tensor& x, const Tensor& y) const {
    graph::Node node;
    node.op_type = "Gemm";
    node.inputs = {ValueId{0}, ValueId{1}};
    node.outputs = {ValueId{2}};
    node.attributes["transA"] = std::int64_t{1};
    const std::array<Tensor, 2> inputs = {x, y};
    return evaluator_.evaluate(node, 13, inputs).value().at(0);
  }

  // Why the layer cannot be fitted; empty when it can.
  std::string obstacle(const Reader& reader, const std::optional<RowForm>& form) const {
    const ValueId weight = pruned_.graph.input(reader.node, 1);
    if (!form) {
      return "its form is not one that is fitted";
    }
    if (!pruned_.graph.has_single_use(weight) || !pruned_.graph.value(weight).constant) {
      return "other layers share its weight";
    }
    if (form->inputs > options_.largest) {
      return fmt::format("{} weights for one output are more than {}", form->inputs, options_.largest);
    }
    return {};
  }

  RepairRecord fit(const Reader& reader, const Target& target) {
    RepairRecord record{reader.name, 0.0, 0.0, {}};
    const ValueId input = pruned_.graph.input(reader.node, 0);
    const ValueId output = pruned_.graph.output(reader.node);
    Tapped session(pruned_, {output, input}, true, engine_, options_.compile);
    std::vector<double> gram;      // [n, n] with n = inputs + 1, the last for the intercept
    std::vector<double> residual;  // X^T (Y - Y'), [n, outputs]
    std::vector<float> gap;
    std::size_t at = 0;
    std::size_t n = 0;
    std::size_t outputs = 0;
    for (std::size_t sample = 0; sample < samples_; ++sample) {
      const std::vector<Tensor> taps = session.run(sample, inputs_);
      const auto form = row_form(pruned_.graph, reader.node, taps[1].dims(), taps[0].dims());
      record.skipped = obstacle(reader, form);
      if (!record.skipped.empty()) {
        return record;
      }
      n = static_cast<std::size_t>(form->inputs) + 1;
      outputs = static_cast<std::size_t>(form->outputs);
      const std::vector<std::int64_t>& places = target.places[sample];
      Tensor::Writable x =
          Tensor::allocate(graph::DataType::kFloat32, {std::ssize(places), static_cast<std::int64_t>(n)});
      Tensor::Writable y = Tensor::allocate(graph::DataType::kFloat32,
                                            {std::ssize(places), static_cast<std::int64_t>(outputs)});
      for (std::size_t i = 0; i < places.size(); ++i) {
        float* row = x.values<float>().data() + i * n;
        float* difference = y.values<float>().data() + i * outputs;
        input_row(pruned_.graph, reader.node, taps[1], taps[0].dims(), places[i], row);
        row[n - 1] = 1.0F;
        output_row(pruned_.graph, reader.node, taps[0], places[i], difference);
        for (std::size_t o = 0; o < outputs; ++o, ++at) {
          difference[o] = target.rows.at(at) - difference[o];
          gap.push_back(difference[o]);
        }
      }
      add(gram, product(x.tensor, x.tensor));
      add(residual, product(x.tensor, y.tensor));
    }
    const double length = std::max(norm(target.rows), 1e-30);
    record.error_before = norm(gap) / length;
    double trace = 0.0;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      trace += gram[i * n + i];
    }
    const double lambda = options_.ridge * trace / static_cast<double>(n) + 1e-12;
    std::vector<double> change = residual;
    std::vector<double> factor = gram;
    if (!solve_ridge(factor, change, n, outputs, lambda)) {
      record.skipped = "its inputs do not determine it";
      return record;
    }
    // ||r - X D||^2 = ||r||^2 - 2 <D, X^T r> + <D, X^T X D>
    double after = norm(gap) * norm(gap);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double moved = 0.0;
        for (std::size_t k = 0; k < n; ++k) {
          moved += gram[i * n + k] * change[k * outputs + o];
        }
        after += change[i * outputs + o] * (moved - 2.0 * residual[i * outputs + o]);
      }
    }
    record.error_after = std::sqrt(std::max(after, 0.0)) / length;
    apply(reader, change, n, outputs);
    return record;
  }

  static void add(std::vector<double>& sum, const Tensor& tensor) {
    const auto values = tensor.values<float>();
    sum.resize(values.size(), 0.0);
    std::transform(values.begin(), values.end(), sum.begin(), sum.begin(),
                   [](float value, double so_far) { return so_far + static_cast<double>(value); });
  }

  void apply(const Reader& reader, const std::vector<double>& change, std::size_t n, std::size_t outputs) {
    graph::Graph& graph = pruned_.graph;
    std::vector<double> columns = weight_columns(graph, reader.node);
    for (std::size_t i = 0; i < columns.size(); ++i) {
      columns[i] += change[i];
    }
    const ValueId weight = graph.input(reader.node, 1);
    const graph::Dims dims = graph.constant(weight)->dims();
    graph.set_constant(weight, as_float(dims, weight_from_columns(graph, reader.node, columns)));
    if (graph.node(reader.node).is("MatMul")) {
      return;  // has no bias
    }
    std::vector<double> bias(outputs, 0.0);
    const ValueId old = graph.input(reader.node, 2);
    if (old.valid()) {
      const std::optional<Tensor> constant = graph.constant(old);
      if (!constant || constant->size() != static_cast<std::int64_t>(outputs)) {
        return;
      }
      bias = to_doubles(*constant);
    }
    for (std::size_t o = 0; o < outputs; ++o) {
      bias[o] += change[(n - 1) * outputs + o];
    }
    const graph::Dims shape =
        old.valid() ? graph.constant(old)->dims() : graph::Dims{static_cast<std::int64_t>(outputs)};
    const std::string stem = graph.value(old.valid() ? old : weight).name + (old.valid() ? "" : "_bias");
    std::vector<ValueId> inputs = graph.node(reader.node).inputs;
    inputs.resize(3);
    inputs[2] = graph.add_initializer(stem, as_float(shape, bias));
    graph.set_inputs(reader.node, std::move(inputs));
    graph.remove_dead();
  }

  static Tensor as_float(const graph::Dims& dims, const std::vector<double>& numbers) {
    const std::vector<float> narrow(numbers.begin(), numbers.end());
    return Tensor::from<float>(dims, std::span<const float>(narrow));
  }

  const graph::Model& original_;
  graph::Model& pruned_;
  const std::vector<Reader>& readers_;
  std::size_t samples_;
  const NamedInputs& inputs_;
  const engine::Engine& engine_;
  const engine::Evaluator& evaluator_;
  const RepairOptions& options_;
  const Host& host_;
  std::vector<Target> targets_;
};

// Four sums side by side, which the compiler may keep in one register.
double dot(const double* a, const double* b, std::size_t n) {
  double sums[4] = {0.0, 0.0, 0.0, 0.0};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      sums[k] += a[i + k] * b[i + k];
    }
  }
  for (; i < n; ++i) {
    sums[0] += a[i] * b[i];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

bool solve_ridge(std::vector<double>& a, std::vector<double>& b, std::size_t n, std::size_t m,
                 double lambda) {
  // A = L L^T, row by row; L replaces the lower triangle.
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      a[i * n + j] = (a[i * n + j] - dot(&a[i * n], &a[j * n], j)) / a[j * n + j];
    }
    const double rest = a[i * n + i] + lambda - dot(&a[i * n], &a[i * n], i);
    if (!(rest > 0.0)) {
      return false;
    }
    a[i * n + i] = std::sqrt(rest);
  }
  const auto subtract = [&](std::size_t from, std::size_t to,
                            double factor) {  // row `to` -= factor * row `from`
    for (std::size_t k = 0; k < m; ++k) {
      b[to * m + k] -= factor * b[from * m + k];
    }
  };
  const auto divide = [&](std::size_t row) {
    for (std::size_t k = 0; k < m; ++k) {
      b[row * m + k] /= a[row * n + row];
    }
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      subtract(j, i, a[i * n + j]);
    }
    divide(i);
  }
  for (std::size_t i = n; i-- > 0;) {
    divide(i);
    for (std::size_t j = 0; j < i; ++j) {
      subtract(i, j, a[i * n + j]);
    }
  }
  return true;
}

std::vector<RepairRecord> repair(const graph::Model& original, graph::Model& pruned,
                                 const std::vector<Reader>& readers, std::size_t samples,
                                 const NamedInputs& inputs, const engine::Engine& engine,
                                 const engine::Evaluator& evaluator, const RepairOptions& options,
                                 const Host& host) {
  return Repair(original, pruned, readers, samples, inputs, engine, evaluator, options, host).run();
}

}  // namespace tempera::compress
