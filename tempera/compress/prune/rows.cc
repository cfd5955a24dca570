#include "tempera/compress/prune/rows.h"

#include <algorithm>

#include "tempera/ops/access.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;

bool is_conv(const Graph& graph, NodeId id) { return graph.node(id).is("Conv"); }

// Whether the weight is stored [outputs, inputs]: Conv, and Gemm with transB.
bool is_turned(const Graph& graph, NodeId id) {
  return is_conv(graph, id) || graph.attribute<std::int64_t>(id, "transB", 0) != 0;
}

std::int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return graph::element_count(Dims(begin, end));
}

}  // namespace

std::optional<RowForm> row_form(const Graph& graph, NodeId id, const Dims& input, const Dims& output) {
  const graph::Node& node = graph.node(id);
  const auto weight = graph.input(id, 1).valid() ? graph.constant(graph.input(id, 1)) : std::nullopt;
  if (!weight || weight->type() != graph::DataType::kFloat32) {
    return std::nullopt;
  }
  const Dims& dims = weight->dims();
  if (node.is("Conv")) {
    const auto form = ops::conv_form(graph, id);
    if (!form || form->group != 1 || form->auto_pad != "NOTSET" || dims.size() != input.size()) {
      return std::nullopt;
    }
    return RowForm{output[0] * product(output.begin() + 2, output.end()),
                   product(dims.begin() + 1, dims.end()), dims[0]};
  }
  const bool gemm = node.is("Gemm") && graph.attribute<std::int64_t>(id, "transA", 0) == 0 &&
                    graph.attribute<float>(id, "alpha", 1.0F) == 1.0F &&
                    graph.attribute<float>(id, "beta", 1.0F) == 1.0F;
  if ((gemm || node.is("MatMul")) && dims.size() == 2 && input.size() >= 2) {
    const std::int64_t outputs = dims[is_turned(graph, id) ? 0 : 1];
    return RowForm{product(input.begin(), input.end() - 1), input.back(), outputs};
  }
  return std::nullopt;
}

void input_row(const Graph& graph, NodeId id, const graph::Tensor& input, const Dims& output,
               std::int64_t place, float* row) {
  const auto values = input.values<float>();
  const Dims& dims = input.dims();
  if (!is_conv(graph, id)) {
    const auto length = static_cast<std::size_t>(dims.back());
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(length) * place, length, row);
    return;
  }
  const ops::ConvForm form = ops::conv_form(graph, id).value();
  const std::size_t spatial = form.kernel.size();
  std::vector<std::int64_t> start(spatial);  // of the window, maybe outside
  std::int64_t rest = place;
  for (std::size_t i = spatial; i-- > 0;) {
    start[i] = rest % output[i + 2] * form.strides[i] - form.pads_begin[i];
    rest /= output[i + 2];
  }
  const std::int64_t sample = rest;
  const std::int64_t taps = graph::element_count(form.kernel);
  const std::int64_t plane = product(dims.begin() + 2, dims.end());
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    std::int64_t offset = 0;
    std::int64_t stride = 1;
    std::int64_t left = tap;
    bool inside = true;
    for (std::size_t i = spatial; i-- > 0;) {
      const std::int64_t at = start[i] + left % form.kernel[i] * form.dilations[i];
      left /= form.kernel[i];
      inside = inside && at >= 0 && at < dims[i + 2];
      offset += at * stride;
      stride *= dims[i + 2];
    }
    for (std::int64_t channel = 0; channel < dims[1]; ++channel) {
      row[channel * taps + tap] =
          inside ? values[static_cast<std::size_t>((sample * dims[1] + channel) * plane + offset)] : 0.0F;
    }
  }
}

void output_row(const Graph& graph, NodeId id, const graph::Tensor& output, std::int64_t place, float* row) {
  const auto values = output.values<float>();
  const Dims& dims = output.dims();
  if (!is_conv(graph, id)) {
    const auto length = static_cast<std::size_t>(dims.back());
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(length) * place, length, row);
    return;
  }
  const std::int64_t plane = product(dims.begin() + 2, dims.end());
  const std::int64_t sample = place / plane;
  for (std::int64_t channel = 0; channel < dims[1]; ++channel) {
    row[channel] = values[static_cast<std::size_t>((sample * dims[1] + channel) * plane + place % plane)];
  }
}

std::vector<double> weight_columns(const Graph& graph, NodeId id) {
  const graph::Tensor weight = graph.constant(graph.input(id, 1)).value();
  std::vector<double> numbers = to_doubles(weight);
  if (!is_turned(graph, id)) {
    return numbers;
  }
  const auto outputs = static_cast<std::size_t>(weight.dims()[0]);
  const std::size_t inputs = numbers.size() / std::max<std::size_t>(outputs, 1);
  std::vector<double> columns(numbers.size());
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t i = 0; i < inputs; ++i) {
      columns[i * outputs + o] = numbers[o * inputs + i];
    }
  }
  return columns;
}

std::vector<double> weight_from_columns(const Graph& graph, NodeId id, const std::vector<double>& columns) {
  if (!is_turned(graph, id)) {
    return columns;
  }
  const graph::Tensor weight = graph.constant(graph.input(id, 1)).value();
  const auto outputs = static_cast<std::size_t>(weight.dims()[0]);
  const std::size_t inputs = columns.size() / std::max<std::size_t>(outputs, 1);
  std::vector<double> numbers(columns.size());
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t i = 0; i < inputs; ++i) {
      numbers[o * inputs + i] = columns[i * outputs + o];
    }
  }
  return numbers;
}

}  // namespace tempera::compress
