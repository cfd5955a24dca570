#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tempera/graph/tensor.h"
#include "tempera/graph/type.h"

namespace tempera::graph {

class Graph;

/// A graph held as an attribute (a body of If, Loop, Scan); copying it copies the whole graph.
class Body {
 public:
  explicit Body(Graph graph);
  Body(const Body& other);
  Body(Body&& other) noexcept;
  Body& operator=(const Body& other);
  Body& operator=(Body&& other) noexcept;
  ~Body();

  [[nodiscard]] Graph& graph() { return *graph_; }
  [[nodiscard]] const Graph& graph() const { return *graph_; }

 private:
  std::unique_ptr<Graph> graph_;  // never null except when moved from
};

/// ONNX's sparse tensor: `values` [nnz], `indices` [nnz] linear or [nnz, rank].
struct SparseTensor {
  Tensor values;
  Tensor indices;
  Dims dims;
};

/// Inside a function's body: the attribute of the calling node with this name; `type` is ONNX's AttributeType number.
struct AttributeReference {
  std::string name;
  int type = 0;
};

using Attribute = std::variant<float, std::int64_t, std::string, Tensor, Body, SparseTensor, ValueType, std::vector<float>,
                               std::vector<std::int64_t>, std::vector<std::string>, std::vector<Tensor>, std::vector<Body>,
                               std::vector<SparseTensor>, std::vector<ValueType>, AttributeReference>;

/// Equal kind and content; tensors by bytes; bodies by graph::same_graph.
[[nodiscard]] bool same_attribute(const Attribute& a, const Attribute& b);

}  // namespace tempera::graph
