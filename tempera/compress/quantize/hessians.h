#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/base/random.h"
#include "tempera/compress/quantize/gptq.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/graph/graph.h"
#include "tempera/graph/tensor.h"

namespace tempera::compress {

/// Sums up the second moments of layers' inputs while a model runs on calibration samples.
///
/// Of a convolution, each output position sees a patch of its input; of a matrix product, each row of its left factor is one
/// vector. From each sample at most `vectors` of them are taken, at seeded random places.
///
/// Left out (their weights are rounded on their own): ConvTranspose, products whose constant is the left factor or a batch
/// of matrices, convolutions with auto_pad or whose weight passes through a Transpose or Reshape.
class HessianCollector {
 public:
  /// \param graph  kept
  HessianCollector(const graph::Graph& graph, const std::vector<Layer>& layers, std::int64_t vectors, std::uint64_t seed);

  /// Tensors that add() wants to see, for every sample.
  [[nodiscard]] std::vector<std::string> tensors() const;

  /// One tensor of one sample. Others than float32 and those not wanted are passed over.
  void add(std::string_view name, const graph::Tensor& value);

  [[nodiscard]] Hessians take() { return std::move(hessians_); }

 private:
  void add_patches(const Layer& layer, const graph::Tensor& x, Hessian& hessian);
  void add_rows(const graph::Tensor& x, Hessian& hessian);

  const graph::Graph& graph_;
  std::int64_t vectors_;
  CounterRng random_;
  std::uint64_t drawn_ = 0;
  std::multimap<std::string, Layer, std::less<>> readers_;  // by the tensor read
  Hessians hessians_;
};

}  // namespace tempera::compress
