#pragma once

#include <vector>

#include <openvino/core/model.hpp>
#include <openvino/runtime/profiling_info.hpp>

#include "tempera/engine/engine.h"
#include "tempera/engine/openvino/layer_names.h"

namespace tempera::engine::openvino {

/// Times of the layers that ran, longest first, under the names of the graph's nodes.
///
/// \param layers   of one run
/// \param runtime  the compiled model as OpenVINO runs it: says which layers were fused into which
[[nodiscard]] std::vector<NodeTime> node_times(const std::vector<ov::ProfilingInfo>& layers, const ov::Model& runtime,
                                               const LayerNames& names);

}  // namespace tempera::engine::openvino
