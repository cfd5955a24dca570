#include "tempera/compress/prune/cut.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/infer.h"
#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/weights.h"

namespace tempera::compress {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

std::int64_t count_kept(const Axis& axis, const std::vector<bool>& removed) {
  return std::count_if(axis.begin(), axis.end(), [&](Atom atom) { return !removed[atom]; });
}

Tensor without(const Tensor& tensor, std::size_t axis, const Axis& labels, const std::vector<bool>& removed) {
  TEMPERA_CHECK(tensor.dims().at(axis) == static_cast<std::int64_t>(labels.size()),
                "labels do not fit the tensor");
  Dims dims = tensor.dims();
  dims[axis] = count_kept(labels, removed);
  const auto middle = tensor.dims().begin() + static_cast<std::ptrdiff_t>(axis);
  const auto outer = static_cast<std::size_t>(graph::element_count(Dims(tensor.dims().begin(), middle)));
  const std::size_t rows = outer * labels.size();
  const std::size_t row = rows == 0 ? 0 : tensor.bytes().size() / rows;
  Tensor::Writable made = Tensor::allocate(tensor.type(), std::move(dims));
  std::byte* target = made.bytes.data();
  for (std::size_t i = 0; i < rows; ++i) {
    if (!removed[labels[i % labels.size()]]) {
      std::memcpy(target, tensor.bytes().data() + i * row, row);
      target += row;
    }
  }
  return std::move(made.tensor);
}

namespace {

class Cutter {
 public:
  Cutter(const graph::Model& model, const Coupling& coupling, const std::vector<bool>& removed)
      : model_(model), graph_(model_.graph), coupling_(coupling), removed_(removed) {}

  graph::Model run() {
    cut_weights();
    for (const Edit& edit : coupling_.edits()) {
      const bool touched =
          std::any_of(edit.axes.begin(), edit.axes.end(), [&](const Axis& axis) { return is_cut(axis); });
      if (touched) {
        apply(edit);
      }
    }
    narrow_types();
    graph_.remove_dead();
    graph_.sort();
    graph::verify(graph_);
    try {
      onnx::infer_types(model_);
    } catch (Error& error) {
      error.in("the model after channels were removed");
      throw;
    }
    return std::move(model_);
  }

 private:
  [[nodiscard]] std::int64_t kept(const Axis& axis) const { return count_kept(axis, removed_); }
  [[nodiscard]] bool is_cut(const Axis& axis) const {
    return kept(axis) != static_cast<std::int64_t>(axis.size());
  }

  // A constant read alike everywhere is replaced under its name; else each use gets one of its own, equal
  // ones once.
  void cut_weights() {
    std::map<ValueId, std::vector<std::pair<Tensor, ValueId>>> made;
    for (const auto& [use, labels] : coupling_.weights()) {
      const ValueId old = graph_.input(use.node, use.input);
      Tensor tensor = graph_.constant(old).value();
      bool changed = false;
      for (std::size_t axis = 0; axis < labels.size(); ++axis) {
        if (is_cut(labels[axis])) {
          tensor = without(tensor, axis, labels[axis], removed_);
          changed = true;
        }
      }
      if (changed) {
        replace_constant(use.node, use.input, old, std::move(tensor), made[old]);
      }
    }
  }

  void replace_constant(NodeId node, std::size_t input, ValueId old, Tensor tensor,
                        std::vector<std::pair<Tensor, ValueId>>& made) {
    if (graph_.has_single_use(old) && graph_.value(old).constant) {
      graph_.set_type(old, graph::ValueType::tensor(tensor.type(), graph::shape_of(tensor.dims())));
      graph_.set_constant(old, std::move(tensor));
      return;
    }
    for (const auto& [known, value] : made) {
      if (known.same_bytes(tensor)) {
        graph_.set_input(node, input, value);
        return;
      }
    }
    const ValueId fresh = graph_.add_initializer(graph_.value(old).name, tensor);
    made.emplace_back(std::move(tensor), fresh);
    graph_.set_input(node, input, fresh);
  }

  void apply(const Edit& edit) {
    switch (edit.kind) {
      case Edit::Kind::kShapeEntry: return change_shape(edit);
      case Edit::Kind::kSplitSizes: return change_split(edit);
      case Edit::Kind::kSliceRange: return change_slice(edit);
      case Edit::Kind::kGatherIndices: return change_indices(edit);
      case Edit::Kind::kCount: return graph_.set_attribute(edit.node, edit.attribute, kept(edit.axes[0]));
      case Edit::Kind::kRmsScale: return change_rms_scale(edit);
    }
  }

  // A constant is rewritten; to sizes that are computed the difference is added.
  void change_shape(const Edit& edit) {
    const ValueId shape = graph_.input(edit.node, edit.input);
    const Axis& axis = edit.axes[0];
    if (const auto constant = ops::constant_ints(graph_, shape)) {
      Dims sizes = *constant;
      sizes.at(edit.entry) = kept(axis);
      set_ints(edit.node, edit.input, std::move(sizes));
      return;
    }
    Dims difference(coupling_.sizes(coupling_.graph().input(edit.node, edit.input)).size(), 0);
    difference.at(edit.entry) = kept(axis) - static_cast<std::int64_t>(axis.size());
    ops::Builder builder(graph_, model_.opset(), graph_.value(shape).name);
    graph_.set_input(
        edit.node, edit.input,
        builder.node("Add", {shape, builder.ints(std::move(difference))}, {}, graph_.value(shape).type));
  }

  void set_ints(NodeId node, std::size_t input, Dims values) {
    const ValueId old = graph_.input(node, input);
    const std::string& stem = old.valid() ? graph_.value(old).name : graph_.value(graph_.output(node)).name;
    const auto size = static_cast<std::int64_t>(values.size());
    const DataType type = old.valid() ? ops::element_of(graph_, old) : DataType::kInt64;
    Tensor tensor = Tensor::from<std::int64_t>({size}, std::span<const std::int64_t>(values));
    if (type == DataType::kInt32) {
      const std::vector<std::int32_t> narrow(values.begin(), values.end());
      tensor = Tensor::from<std::int32_t>({size}, std::span<const std::int32_t>(narrow));
    }
    const ValueId fresh = graph_.add_initializer(stem, std::move(tensor));
    std::vector<ValueId> inputs = graph_.node(node).inputs;
    inputs.resize(std::max(inputs.size(), input + 1));
    inputs[input] = fresh;
    graph_.set_inputs(node, std::move(inputs));
  }

  void change_split(const Edit& edit) {
    Dims sizes;
    for (const Axis& axis : edit.axes) {
      sizes.push_back(kept(axis));
    }
    graph_.remove_attribute(edit.node, "num_outputs");
    if (model_.opset() < 13) {
      graph_.set_attribute(edit.node, "split", sizes);
    } else {
      set_ints(edit.node, 1, std::move(sizes));
    }
  }

  void change_slice(const Edit& edit) {
    const ops::SliceForm form = ops::slice_form(graph_, edit.node).value();
    Dims starts = form.starts;
    Dims ends = form.ends;
    starts.at(edit.entry) = kept(edit.axes[0]);
    ends.at(edit.entry) = kept(edit.axes[0]) + kept(edit.axes[1]);
    if (graph_.has_attribute(edit.node, "starts")) {
      graph_.set_attribute(edit.node, "starts", std::move(starts));
      graph_.set_attribute(edit.node, "ends", std::move(ends));
    } else {
      set_ints(edit.node, 1, std::move(starts));
      set_ints(edit.node, 2, std::move(ends));
    }
  }

  void change_indices(const Edit& edit) {
    const Axis& axis = edit.axes[0];
    const auto size = static_cast<std::int64_t>(axis.size());
    const ValueId indices = graph_.input(edit.node, edit.input);
    const Dims numbers = ops::constant_ints(graph_, indices).value();
    Dims renumbered;
    for (const std::int64_t index : numbers) {
      const auto at = static_cast<std::size_t>(index < 0 ? index + size : index);
      if (!removed_[axis.at(at)]) {
        renumbered.push_back(kept(Axis(axis.begin(), axis.begin() + static_cast<std::ptrdiff_t>(at))));
      }
    }
    const bool scalar = graph_.constant(indices)->rank() == 0;
    set_ints(edit.node, edit.input, renumbered);
    if (scalar) {
      const ValueId fresh = graph_.input(edit.node, edit.input);
      const Tensor one = graph_.constant(fresh)->reshaped({});
      graph_.set_type(fresh, graph::ValueType::tensor(one.type(), graph::Shape{}));
      graph_.set_constant(fresh, one);
    }
  }

  // With S the sum of squares, D numbers before and D' after, removed ones being zero:
  //   x / sqrt(S/D + eps) g = x / sqrt(S/D' + eps D/D') g sqrt(D/D')
  void change_rms_scale(const Edit& edit) {
    const Axis& axis = edit.axes[0];
    const double ratio = static_cast<double>(axis.size()) / static_cast<double>(kept(axis));
    const Tensor scale = graph_.constant(graph_.input(edit.node, edit.input)).value();
    std::vector<double> numbers = to_doubles(scale);
    std::for_each(numbers.begin(), numbers.end(), [&](double& number) { number *= std::sqrt(ratio); });
    auto scaled = pass::encode_weights(scale.type(), scale.dims(), numbers);
    TEMPERA_CHECK(scaled.has_value(), "a scale left the range of its type");
    const ValueId fresh =
        graph_.add_initializer(graph_.value(graph_.input(edit.node, edit.input)).name, *scaled);
    graph_.set_input(edit.node, edit.input, fresh);
    const float epsilon = graph_.attribute<float>(edit.node, "epsilon", 1e-5F);
    graph_.set_attribute(edit.node, "epsilon", static_cast<float>(epsilon * ratio));
  }

  void narrow_types() {
    for (const auto& [value, labels] : coupling_.values()) {
      graph::ValueType type = graph_.value(value).type;
      bool changed = false;
      for (std::size_t axis = 0; axis < labels.size(); ++axis) {
        if (is_cut(labels[axis])) {
          type.shape->at(axis) = graph::Dim(kept(labels[axis]));
          changed = true;
        }
      }
      if (!changed) {
        continue;
      }
      graph_.set_type(value, std::move(type));
      if (auto origin = graph_.value(value).origin) {
        origin->equal = false;
        graph_.set_origin(value, std::move(*origin));
      }
    }
  }

  using DataType = graph::DataType;

  graph::Model model_;
  Graph& graph_;
  const Coupling& coupling_;
  const std::vector<bool>& removed_;
};

}  // namespace

graph::Model cut_channels(const graph::Model& model, const Coupling& coupling,
                          const std::vector<bool>& removed) {
  return Cutter(model, coupling, removed).run();
}

}  // namespace tempera::compress
