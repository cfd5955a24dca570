#include "tempera/compress/quantize/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"
#include "tempera/numeric/float_format.h"
#include "tempera/ops/builder.h"

namespace tempera::compress {
namespace {

using graph::Tensor;
using graph::ValueId;

constexpr std::int64_t kHalfOpset = 13;  // Cast takes bfloat16

std::vector<float> floats_of(const Tensor& weight) {
  std::vector<float> values(static_cast<std::size_t>(weight.size()));
  numeric::decode(weight.type(), weight.bytes(), std::span<float>(values));
  return values;
}

// Index within the dimensions of an element, one number for each axis.
std::string place_of(std::int64_t element, const graph::Dims& dims) {
  graph::Dims at(dims.size());
  for (std::size_t i = at.size(); i-- > 0;) {
    at[i] = element % dims[i];
    element /= dims[i];
  }
  return graph::to_string(at);
}

void require_finite(const std::vector<float>& values, const Tensor& weight, const std::string& name,
                    const std::string& layer) {
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) {
    return;
  }
  throw Error(ErrorCode::kBadModel,
              fmt::format("element {} of weight '{}' is {}, expected a finite number",
                          place_of(bad - values.begin(), weight.dims()), name, *bad))
      .in(fmt::format("layer '{}'", layer));
}

// Whether b holds the elements of a with the last two axes exchanged. Looks no further than the first that differs.
bool is_exchanged(const Tensor& a, const Tensor& b) {
  const std::size_t rank = a.dims().size();
  if (rank < 2 || b.dims().size() != rank || a.type() != b.type() || a.dims()[rank - 1] != b.dims()[rank - 2] ||
      a.dims()[rank - 2] != b.dims()[rank - 1] ||
      !std::equal(a.dims().begin(), a.dims().end() - 2, b.dims().begin())) {
    return false;
  }
  const auto bytes = static_cast<std::size_t>(numeric::bits_of(a.type()) / 8);
  const auto rows = static_cast<std::size_t>(a.dims()[rank - 2]);
  const auto columns = static_cast<std::size_t>(a.dims()[rank - 1]);
  const auto count = static_cast<std::size_t>(a.size());
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t matrix = i / (rows * columns) * rows * columns;
    const std::size_t row = i / columns % rows;
    const std::size_t column = i % columns;
    if (std::memcmp(a.bytes().data() + i * bytes, b.bytes().data() + (matrix + column * rows + row) * bytes, bytes) != 0) {
      return false;
    }
  }
  return true;
}

// The last two axes exchanged.
std::vector<std::int64_t> exchange(std::size_t rank) {
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return perm;
}

double relative_l2(const std::vector<float>& decoded, const std::vector<float>& wanted) {
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error += std::pow(static_cast<double>(decoded[i]) - wanted[i], 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return norm > 0.0 ? std::sqrt(error / norm) : 0.0;
}

}  // namespace

std::int64_t opset_for(const graph::Graph& graph, const Layer& layer, const LayerFormat& format,
                       const QuantizeOptions& options) {
  if (!layer.has_weight() || format.weights == WeightFormat::kFloat) {
    return 0;
  }
  if (!has_scales(format.weights)) {
    return kHalfOpset;
  }
  const WeightView view = view_of(layer, graph.constant(layer.weight)->dims());
  return stored_format(view, format.weights, format.granularity, options).opset;
}

std::int64_t stored_bytes(const graph::Graph& graph, const Layer& layer, const LayerFormat& format) {
  const Tensor weight = *graph.constant(layer.weight);
  if (format.weights == WeightFormat::kFloat) {
    return static_cast<std::int64_t>(weight.bytes().size());
  }
  if (!has_scales(format.weights)) {
    return 2 * weight.size();
  }
  const WeightView view = view_of(layer, weight.dims());
  const int bits = code_book(format.weights).bits;
  const std::int64_t block =
      format.granularity.kind == Granularity::Kind::kBlock ? format.granularity.block : std::max<std::int64_t>(view.columns, 1);
  const std::int64_t scales = format.granularity.kind == Granularity::Kind::kTensor
                                  ? 1
                                  : view.rows * ((view.columns + block - 1) / block);
  return (weight.size() * bits + 7) / 8 + scales * (bits <= 4 ? 2 : 4);
}

std::optional<std::size_t> WeightWriter::same_content(const Tensor& weight) const {
  for (std::size_t i = 0; i < written_.size(); ++i) {
    if (written_[i].original.same_bytes(weight)) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> WeightWriter::transposed_content(const Tensor& weight) const {
  for (std::size_t i = 0; i < written_.size(); ++i) {
    if (is_exchanged(written_[i].original, weight)) {
      return i;
    }
  }
  return std::nullopt;
}

LayerRecord WeightWriter::take_over(LayerRecord record, std::size_t done, std::string_view how) const {
  const Written& first = written_[done];
  record.format = first.format;
  record.weight_relative_l2 = first.relative_l2;
  record.why = fmt::format("its weight is that of layer '{}'{}", first.layer, how);
  record.bytes_after = 0;
  return record;
}

void WeightWriter::replace(ValueId from, ValueId to) {
  graph::Graph& graph = model_.graph;
  const std::optional<graph::Origin> origin = graph.value(from).origin;
  if (origin) {
    graph.set_origin(to, {origin->tensor, false});
  }
  graph.replace_uses(from, to);
}

ValueId WeightWriter::write_half(const Tensor& weight, const std::vector<float>& values, WeightFormat format,
                                 const std::string& name, LayerRecord& record) {
  const DataType type = format == WeightFormat::kFloat16 ? DataType::kFloat16 : DataType::kBfloat16;
  const double largest = numeric::float_format(type)->max_finite();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) > largest) {
      record.why = fmt::format("element {} of weight '{}' is {}, beyond the {} that {} holds",
                               place_of(static_cast<std::int64_t>(i), weight.dims()), name, values[i], largest, numeric::to_string(type));
      return {};
    }
  }
  Tensor::Writable half = Tensor::allocate(type, weight.dims());
  numeric::encode(type, values, half.bytes);
  record.bytes_after = static_cast<std::int64_t>(half.tensor.bytes().size());
  record.weight_relative_l2 = relative_l2(floats_of(half.tensor), values);
  graph::Graph& graph = model_.graph;
  const ValueId stored = graph.add_initializer(name + "_" + std::string(numeric::to_string(type)), half.tensor);
  return ops::Builder(graph, model_.opset(), name)
      .node("Cast", {stored}, {{"to", static_cast<std::int64_t>(weight.type())}},
            graph::ValueType::tensor(weight.type(), graph::shape_of(weight.dims())));
}

LayerRecord WeightWriter::write(const Layer& layer, const LayerFormat& format, const EncodeOptions& encode) {
  graph::Graph& graph = model_.graph;
  LayerRecord record;
  record.layer = layer.name;
  record.op_type = layer.op_type;
  if (!layer.has_weight()) {
    record.why = format.weights == WeightFormat::kFloat ? "" : "it multiplies two activations";
    return record;
  }
  if (const auto done = by_weight_.find(layer.weight); done != by_weight_.end()) {
    return take_over(std::move(record), done->second, "");
  }
  const Tensor weight = *graph.constant(layer.weight);
  const std::string name = graph.value(layer.weight).name;
  const std::int64_t bytes = static_cast<std::int64_t>(weight.bytes().size());
  record.bytes_before = bytes;
  record.bytes_after = bytes;
  if (format.weights == WeightFormat::kFloat || weight.size() == 0) {
    return record;
  }
  if (graph.is_output(layer.weight)) {
    record.why = fmt::format("weight '{}' is an output of the graph", name);
    return record;
  }
  const std::vector<float> values = floats_of(weight);
  require_finite(values, weight, name, layer.name);
  if (const std::optional<std::size_t> twin = same_content(weight)) {
    by_weight_.emplace(layer.weight, *twin);
    replace(layer.weight, written_[*twin].decoded);
    return take_over(std::move(record), *twin, "");
  }
  if (const std::optional<std::size_t> twin = transposed_content(weight)) {
    by_weight_.emplace(layer.weight, *twin);
    replace(layer.weight, ops::Builder(graph, model_.opset(), name)
                              .transpose(written_[*twin].decoded, exchange(weight.dims().size())));
    return take_over(std::move(record), *twin, ", transposed");
  }
  ValueId decoded;
  if (!has_scales(format.weights)) {
    decoded = write_half(weight, values, format.weights, name, record);
    if (!decoded.valid()) {
      return record;
    }
  } else {
    const WeightView view = view_of(layer, weight.dims());
    const EncodedWeight encoded =
        encode_weight(view, to_rows(view, values), format.weights, format.granularity, encode);
    const StoredFormat stored = stored_format(view, format.weights, format.granularity, options_);
    decoded = emit_weight(graph, model_.opset(), encoded, stored, weight.type(), name);
    record.weight_relative_l2 = encoded.relative_l2;
    record.bytes_after = encoded.bytes();
  }
  record.format = {format.weights, format.granularity, ActivationFormat::kFloat};
  by_weight_.emplace(layer.weight, written_.size());
  written_.push_back({layer.name, record.format, weight, decoded, record.weight_relative_l2});
  replace(layer.weight, decoded);
  return record;
}

}  // namespace tempera::compress
