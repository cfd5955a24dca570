#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <openvino/core/node_output.hpp>
#include <openvino/core/type/element_type.hpp>
#include <openvino/runtime/tensor.hpp>

#include "tempera/graph/tensor.h"
#include "tempera/graph/type.h"

/// Types and tensors between the graph and OpenVINO.
namespace tempera::engine::openvino {

/// OpenVINO's element type with the same bits, or nothing when it has none (complex, fp8 "fnuz", fp6, int2, string).
[[nodiscard]] std::optional<ov::element::Type> to_openvino(graph::DataType type);
[[nodiscard]] std::optional<graph::DataType> from_openvino(const ov::element::Type& type);

[[nodiscard]] graph::Shape from_openvino(const ov::PartialShape& shape);

/// The same bytes, read-only; the tensor must outlive the result.
/// \throws Error{kUnsupported} for an element type that OpenVINO lacks
[[nodiscard]] ov::Tensor borrow(const graph::Tensor& tensor);

/// As borrow(), for an input of a request. The CPU plugin (OpenVINO 2026.4) copies a byte for each element of a type
/// below 8 bits, and so reads past packed ones: `padded` then gets a copy that is long enough, and must outlive the result.
[[nodiscard]] ov::Tensor borrow_input(const graph::Tensor& tensor, std::vector<std::byte>& padded);

/// \throws Error{kUnsupported} as borrow()
[[nodiscard]] graph::Tensor copy(const ov::Tensor& tensor);

/// The same bytes; `tensor` must outlive the result and all its copies. \throws Error{kUnsupported} as borrow()
[[nodiscard]] graph::Tensor lend(const ov::Tensor& tensor);

}  // namespace tempera::engine::openvino
