#pragma once

#include <vector>

#include "tempera/compress/prune/coupling.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

/// Removes channels: slices weights along labelled axes, renumbers what the edits name, and narrows declared
/// shapes.
///
/// \param model    the one the coupling was found in
/// \param removed  for each atom, whether its class goes; equal within a class, false for frozen ones
/// \return the smaller model, types inferred anew; inputs and outputs as they were
[[nodiscard]] graph::Model cut_channels(const graph::Model& model, const Coupling& coupling,
                                        const std::vector<bool>& removed);

/// How many indices of an axis stay.
[[nodiscard]] std::int64_t count_kept(const Axis& axis, const std::vector<bool>& removed);

/// The tensor without the indices along `axis` whose atoms went. Any type of whole bytes.
[[nodiscard]] graph::Tensor without(const graph::Tensor& tensor, std::size_t axis, const Axis& labels,
                                    const std::vector<bool>& removed);

}  // namespace tempera::compress
