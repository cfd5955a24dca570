#include "tempera/compress/quantize/hessians.h"

#include <algorithm>
#include <optional>

#include "tempera/compress/quantize/weight_view.h"
#include "tempera/ops/access.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::Tensor;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Whether columns of the weight, as view_of orders them, are elements of the vectors that add() takes.
bool is_taken(const graph::Graph& graph, const Layer& layer) {
  if (!layer.has_weight() || layer.weight_input != 1) {
    return false;
  }
  const graph::ValueId entering = graph.input(layer.node, 1);
  if (layer.op_type == "Conv") {
    const std::string pad = graph.attribute<std::string>(layer.node, "auto_pad", "NOTSET");
    return entering == layer.weight && (pad == "NOTSET" || pad == "VALID") && ops::conv_form(graph, layer.node).has_value();
  }
  if (layer.op_type == "Gemm") {
    return graph.attribute<std::int64_t>(layer.node, "transA", 0) == 0;
  }
  const std::optional<Dims> dims = ops::dims_of(graph, entering);
  return layer.op_type == "MatMul" && dims.has_value() && dims->size() >= 2 &&
         std::all_of(dims->begin(), dims->end() - 2, [](std::int64_t size) { return size == 1; });
}

}  // namespace

HessianCollector::HessianCollector(const graph::Graph& graph, const std::vector<Layer>& layers, std::int64_t vectors,
                                   std::uint64_t seed)
    : graph_(graph), vectors_(vectors), random_(seed) {
  for (const Layer& layer : layers) {
    if (is_taken(graph, layer)) {
      const WeightView view = view_of(layer, graph.constant(layer.weight)->dims());
      hessians_.emplace(layer.name, make_hessian(view.columns, layer.op_type == "Conv" ? layer.group : 1));
      readers_.emplace(graph.value(layer.input).name, layer);
    }
  }
}

std::vector<std::string> HessianCollector::tensors() const {
  std::vector<std::string> names;
  for (const auto& [name, layer] : readers_) {
    if (names.empty() || names.back() != name) {
      names.push_back(name);
    }
  }
  return names;
}

void HessianCollector::add(std::string_view name, const Tensor& value) {
  if (value.type() != graph::DataType::kFloat32 || value.size() == 0) {
    return;
  }
  const auto [begin, end] = readers_.equal_range(name);
  for (auto reader = begin; reader != end; ++reader) {
    Hessian& hessian = hessians_.find(reader->second.name)->second;
    if (reader->second.op_type == "Conv") {
      add_patches(reader->second, value, hessian);
    } else {
      add_rows(value, hessian);
    }
  }
}

void HessianCollector::add_rows(const Tensor& x, Hessian& hessian) {
  const std::int64_t rows = x.size() / hessian.columns;
  const std::span<const float> values = x.values<float>();
  if (rows <= vectors_) {
    add_vectors(hessian, 0, values);
    return;
  }
  std::vector<float> taken;
  for (std::int64_t i = 0; i < vectors_; ++i) {
    const auto row = values.subspan(random_.below(drawn_++, index(rows)) * index(hessian.columns), index(hessian.columns));
    taken.insert(taken.end(), row.begin(), row.end());
  }
  add_vectors(hessian, 0, taken);
}

// x [N, C, s..]: at output position o, column (c, k..) is x[n, g C/G + c, o stride - pad + k dilation..], 0 outside.
void HessianCollector::add_patches(const Layer& layer, const Tensor& x, Hessian& hessian) {
  const ops::ConvForm form = *ops::conv_form(graph_, layer.node);
  const std::size_t axes = form.kernel.size();
  if (x.dims().size() != axes + 2) {
    return;
  }
  Dims outputs = {x.dims()[0]};
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t reach = form.dilations[i] * (form.kernel[i] - 1) + 1;
    const std::int64_t padded = x.dims()[i + 2] + form.pads_begin[i] + form.pads_end[i];
    if (padded < reach) {
      return;
    }
    outputs.push_back((padded - reach) / form.strides[i] + 1);
  }
  const std::int64_t positions = graph::element_count(outputs);
  const std::int64_t channels = x.dims()[1] / form.group;
  const std::int64_t pixels = graph::element_count(Dims(x.dims().begin() + 2, x.dims().end()));
  const std::int64_t taps = graph::element_count(form.kernel);
  const std::span<const float> values = x.values<float>();
  std::vector<std::int64_t> offsets(index(taps));  // of each tap within a channel; -1 outside
  const std::int64_t count = std::min(positions, vectors_);
  std::vector<std::vector<float>> patches(index(form.group), std::vector<float>(index(count * channels * taps)));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t position = positions <= vectors_ ? i : static_cast<std::int64_t>(random_.below(drawn_++, index(positions)));
    Dims start(axes);  // of the window, in x
    for (std::size_t axis = axes; axis-- > 0;) {
      start[axis] = position % outputs[axis + 1] * form.strides[axis] - form.pads_begin[axis];
      position /= outputs[axis + 1];
    }
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::int64_t rest = tap;
      std::int64_t offset = 0;
      std::int64_t step = 1;
      for (std::size_t axis = axes; axis-- > 0;) {
        const std::int64_t place = start[axis] + rest % form.kernel[axis] * form.dilations[axis];
        rest /= form.kernel[axis];
        const bool inside = place >= 0 && place < x.dims()[axis + 2];
        offset = offset < 0 || !inside ? -1 : offset + place * step;
        step *= x.dims()[axis + 2];
      }
      offsets[index(tap)] = offset;
    }
    for (std::int64_t group = 0; group < form.group; ++group) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t base = ((position * form.group + group) * channels + c) * pixels;
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          const std::int64_t offset = offsets[index(tap)];
          patches[index(group)][index((i * channels + c) * taps + tap)] = offset < 0 ? 0.0F : values[index(base + offset)];
        }
      }
    }
  }
  for (std::int64_t group = 0; group < form.group; ++group) {
    add_vectors(hessian, group, patches[index(group)]);
  }
}

}  // namespace tempera::compress
