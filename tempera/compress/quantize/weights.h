#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/compress/quantize/emit.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

/// The least opset in which the layer's weight can be stored so; 0 when nothing is stored anew.
[[nodiscard]] std::int64_t opset_for(const graph::Graph& graph, const Layer& layer, const LayerFormat& format,
                                     const QuantizeOptions& options);

/// Bytes that the layer's weight will take, scales included, without encoding it (scales as float16 where they may be).
[[nodiscard]] std::int64_t stored_bytes(const graph::Graph& graph, const Layer& layer, const LayerFormat& format);

/// Replaces float weights of one model by stored ones, for all their readers: those in bodies, and a Transpose in the
/// backward part of a force field, see the same decoded numbers.
///
/// A weight is stored once. One that several layers read takes the format of the first; so does an initialiser with the
/// same content, and one that is the matrix transposed becomes a Transpose of the decoded.
class WeightWriter {
 public:
  /// \param model  kept; its opset must be what opset_for() says of every layer
  WeightWriter(graph::Model& model, const QuantizeOptions& options) : model_(model), options_(options) {}

  /// \throws Error{kBadModel} naming tensor and element when the weight holds a NaN or an infinity
  LayerRecord write(const Layer& layer, const LayerFormat& format, const EncodeOptions& encode = {});

 private:
  struct Written {
    std::string layer;
    LayerFormat format;
    graph::Tensor original;
    graph::ValueId decoded;
    double relative_l2 = 0.0;
  };

  [[nodiscard]] std::optional<std::size_t> same_content(const graph::Tensor& weight) const;
  [[nodiscard]] std::optional<std::size_t> transposed_content(const graph::Tensor& weight) const;
  LayerRecord take_over(LayerRecord record, std::size_t done, std::string_view how) const;
  graph::ValueId write_half(const graph::Tensor& weight, const std::vector<float>& values, WeightFormat format,
                            const std::string& name, LayerRecord& record);
  void replace(graph::ValueId from, graph::ValueId to);

  graph::Model& model_;
  const QuantizeOptions& options_;
  std::map<graph::ValueId, std::size_t> by_weight_;  ///< index into written_, by the float weight as it was
  std::vector<Written> written_;
};

}  // namespace tempera::compress
