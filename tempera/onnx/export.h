#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tempera/graph/model.h"
#include "tempera/onnx/proto.h"

namespace tempera::onnx {

/// Where a tensor stands in a model.
enum class Place : std::uint8_t {
  kMainInitializer,  ///< an initialiser of the main graph
  kInner,            ///< an initialiser of a body, or an attribute
};

/// Puts a tensor's content into its proto, whose type and dimensions are set already; the default is tensor_to's way.
using StoreTensor = std::function<void(const graph::Tensor& tensor, Place place, pb::TensorProto& proto)>;

struct ExportOptions {
  StoreTensor store;  ///< empty: everything inline
  /// Initialisers of the main graph of at least so many bytes become typed inputs instead; negative: none do.
  std::int64_t inputs_from_bytes = -1;
};

/// A proto of a model, and how its names relate to the model's.
struct Exported {
  pb::ModelProto proto;
  /// Initialisers turned into inputs, in order.
  std::vector<graph::ValueId> replaced;
  /// By graph (the main one, bodies, functions' bodies): the name each value was written under, by value index; empty
  /// for captures, which are written under the name of the outer value.
  std::map<const graph::Graph*, std::vector<std::string>> names;
};

/// The model as ONNX's own structure, at its opset. Values inside bodies whose names would hide outer ones get new
/// names; the IR version is raised when what the model holds needs it.
///
/// \pre each graph of the model is sorted
[[nodiscard]] Exported export_model(const graph::Model& model, const ExportOptions& options = {});

/// Lowest IR version whose files may hold all that the model holds, and not below the model's own.
[[nodiscard]] std::int64_t needed_ir_version(const graph::Model& model);

}  // namespace tempera::onnx
