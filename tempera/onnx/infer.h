#pragma once

#include <map>
#include <string>

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// Fills in types and shapes of all values, bodies included, by the ONNX project's own inference with data propagation;
/// known types are kept where inference says nothing, and give way where it contradicts them. Weights are not touched.
///
/// \param input_shapes  fixes inputs of the main graph by name before inferring (also replacing symbols everywhere)
/// \throws Error{kBadModel} naming the node whose inputs contradict each other, or are too few or too many; Error{kNotFound} for an unknown input;
///   Error{kInvalidArgument} for dimensions that do not fit the declared ones
void infer_types(graph::Model& model, const std::map<std::string, graph::Dims>& input_shapes = {});

}  // namespace tempera::onnx
