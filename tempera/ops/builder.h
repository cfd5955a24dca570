#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::ops {

/// Appends nodes to a graph in the form that its opset wants, and gives their outputs a type where it follows from the
/// inputs. Names derive from the stem given at construction.
class Builder {
 public:
  /// \param opset  of ai.onnx in `graph`
  /// \param stem   of the names of new nodes, values and constants
  Builder(graph::Graph& graph, std::int64_t opset, std::string_view stem) : graph_(graph), opset_(opset), stem_(stem) {}

  using Attributes = std::map<std::string, graph::Attribute, std::less<>>;

  /// Any operator whose form did not change.
  graph::ValueId node(std::string_view op_type, std::vector<graph::ValueId> inputs, Attributes attributes = {},
                      graph::ValueType type = {});

  graph::ValueId constant(graph::Tensor tensor);
  graph::ValueId ints(std::vector<std::int64_t> values);  ///< int64 [n]
  /// A rank-0 constant of a float type (rounded to it) or an integer type.
  graph::ValueId scalar(double value, graph::DataType type);

  graph::ValueId reshape(graph::ValueId x, std::vector<std::int64_t> shape);
  graph::ValueId transpose(graph::ValueId x, std::vector<std::int64_t> perm);
  graph::ValueId squeeze(graph::ValueId x, std::vector<std::int64_t> axes);
  graph::ValueId unsqueeze(graph::ValueId x, std::vector<std::int64_t> axes);
  /// \param op_type  "ReduceSum", "ReduceMean", ...
  graph::ValueId reduce(std::string_view op_type, graph::ValueId x, std::vector<std::int64_t> axes, bool keep_dims);
  graph::ValueId slice(graph::ValueId x, std::vector<std::int64_t> starts, std::vector<std::int64_t> ends,
                       std::vector<std::int64_t> axes, std::vector<std::int64_t> steps = {});
  std::vector<graph::ValueId> split(graph::ValueId x, std::int64_t axis, std::vector<std::int64_t> sizes);
  /// Constant padding by zeros. \param begin,end  one for each axis
  graph::ValueId pad(graph::ValueId x, const std::vector<std::int64_t>& begin, const std::vector<std::int64_t>& end);
  graph::ValueId clip(graph::ValueId x, double low, double high);  ///< infinite: no limit on that side

 private:
  [[nodiscard]] graph::DataType element(graph::ValueId x) const;
  graph::ValueId with_list(std::string_view op_type, graph::ValueId x, std::string_view list,
                           std::vector<std::int64_t> values, std::int64_t input_since, Attributes attributes = {});

  graph::Graph& graph_;
  std::int64_t opset_;
  std::string stem_;
};

}  // namespace tempera::ops
