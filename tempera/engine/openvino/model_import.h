#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <openvino/core/model.hpp>
#include <openvino/frontend/frontend.hpp>

#include "tempera/engine/engine.h"
#include "tempera/engine/openvino/layer_names.h"
#include "tempera/graph/model.h"

namespace tempera::engine::openvino {

/// Weights of at least this size are shared with OpenVINO; below it, a copy inside the serialised graph costs less than
/// an input that stands for it.
inline constexpr std::int64_t kSharedWeightBytes = 16 << 10;

/// A model in OpenVINO's form.
struct Imported {
  std::shared_ptr<ov::Model> model;
  LayerNames names;
};

/// Reads models with OpenVINO's own ONNX reader. Const methods are safe to call together.
class Importer {
 public:
  /// \throws Error{kEngineUnavailable} when OpenVINO's ONNX reader cannot be loaded
  Importer();

  /// The model with functions inlined. Large weights are constants over the model's own memory.
  /// \throws Error{kUnsupported} naming the nodes that OpenVINO cannot take
  [[nodiscard]] Imported import(const graph::Model& model) const;

  /// The nodes that OpenVINO's reader has no conversion for.
  [[nodiscard]] std::vector<Unsupported> unconvertible(const graph::Model& model) const;

 private:
  [[nodiscard]] std::shared_ptr<ov::Model> convert(const graph::Model& model, bool partially) const;

  ov::frontend::FrontEnd::Ptr reader_;
};

}  // namespace tempera::engine::openvino
