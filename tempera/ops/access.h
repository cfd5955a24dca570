#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tempera/graph/graph.h"

/// Attributes of standard operators read the same way whatever the opset of the graph: many moved from an attribute to an
/// input over the years. Every function answers "nothing" when the fact is not known before run time, and throws
/// Error{kBadModel} when the node contradicts itself.
namespace tempera::ops {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// -- constants and shapes ----------------------------------------------------------------------------------------------

/// Elements of a constant integer tensor, flattened.
[[nodiscard]] std::optional<Dims> constant_ints(const Graph& graph, ValueId id);

/// The one element of a constant numeric tensor of any rank with exactly one element.
[[nodiscard]] std::optional<double> constant_scalar(const Graph& graph, ValueId id);

/// The one value that all elements of a constant numeric tensor share (at most 2^16 elements are looked at).
[[nodiscard]] std::optional<double> constant_uniform(const Graph& graph, ValueId id);

[[nodiscard]] std::optional<std::int64_t> rank_of(const Graph& graph, ValueId id);
[[nodiscard]] std::optional<Dims> dims_of(const Graph& graph, ValueId id);
/// One dimension when it is a number; negative axes count from the end.
[[nodiscard]] std::optional<std::int64_t> dim_of(const Graph& graph, ValueId id, std::int64_t axis);
[[nodiscard]] graph::DataType element_of(const Graph& graph, ValueId id);  ///< kUndefined when unknown

/// float32, float64, float16 or bfloat16: the types arithmetic is done in.
[[nodiscard]] bool is_arithmetic_float(graph::DataType type);

/// Adds `rank` to a negative axis; nothing when it is out of range.
[[nodiscard]] std::optional<std::int64_t> normalize_axis(std::int64_t axis, std::int64_t rank);

// -- attributes or inputs ----------------------------------------------------------------------------------------------

/// The list `name`, else constant input `input`. Nothing when neither is there or the input varies.
[[nodiscard]] std::optional<Dims> ints_of(const Graph& graph, NodeId id, std::string_view name, std::size_t input);

/// Whether the list is given at all, as an attribute or as an input.
[[nodiscard]] bool is_given(const Graph& graph, NodeId id, std::string_view name, std::size_t input);

/// Axes of Squeeze, Unsqueeze or Reduce*, sorted, none negative, defaults resolved (Squeeze: every axis of size 1).
[[nodiscard]] std::optional<Dims> axes_of(const Graph& graph, NodeId id);

[[nodiscard]] bool keep_dims(const Graph& graph, NodeId id);  ///< of Reduce*

/// Permutation of a Transpose, resolved for the input's rank.
[[nodiscard]] std::optional<Dims> permutation_of(const Graph& graph, NodeId id);

/// Axis of Concat, Split, Gather or of Softmax-like operators that work along one axis, not negative. Softmax, LogSoftmax
/// and Hardmax before opset 13 flatten the axes after `axis`: nothing unless that comes to the same (axis is the last).
[[nodiscard]] std::optional<std::int64_t> axis_of(const Graph& graph, NodeId id, std::int64_t opset);

/// What a Slice takes along each axis it names. Starts and ends are as written (not clamped).
struct SliceForm {
  Dims starts;
  Dims ends;
  Dims axes;   ///< not negative
  Dims steps;  ///< not zero
};
[[nodiscard]] std::optional<SliceForm> slice_form(const Graph& graph, NodeId id);

/// One axis of a slice over `size` elements: first index taken, step, and how many.
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};
[[nodiscard]] SliceRange clamp_slice(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size);

struct SplitForm {
  std::int64_t axis = 0;  ///< not negative
  Dims sizes;             ///< one for each output
};
[[nodiscard]] std::optional<SplitForm> split_form(const Graph& graph, NodeId id);

struct PadForm {
  std::string mode = "constant";
  Dims begin;  ///< one for each axis of the input
  Dims end;
  double value = 0.0;
};
[[nodiscard]] std::optional<PadForm> pad_form(const Graph& graph, NodeId id);

/// Limits of a Clip; an absent limit is minus or plus infinity.
struct ClipForm {
  double low;
  double high;
};
[[nodiscard]] std::optional<ClipForm> clip_form(const Graph& graph, NodeId id);

/// Attributes of Conv and ConvTranspose, defaults resolved from the weight's rank.
struct ConvForm {
  Dims kernel;
  Dims strides;
  Dims dilations;
  Dims pads_begin;
  Dims pads_end;
  std::int64_t group = 1;
  std::string auto_pad = "NOTSET";
};
[[nodiscard]] std::optional<ConvForm> conv_form(const Graph& graph, NodeId id);

/// Whether a Dropout, BatchNormalization or the like works in training mode, or might.
[[nodiscard]] bool is_training(const Graph& graph, NodeId id);

/// Whether an element-wise node broadcasts as numpy does. Before opset 7 the attributes `broadcast` and `axis` did it
/// another way.
[[nodiscard]] bool is_numpy_broadcast(const Graph& graph, NodeId id);

}  // namespace tempera::ops
