#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tempera/graph/type.h"

namespace tempera::compress {

/// Two axes before and after a Reshape whose indices follow from each other, as row-major order wants it.
///
///   split:  the axis before is cut into several, this is one of them:   after = (before / step) mod count
///   merge:  the axis after holds the one before as a factor:            before = (after / step) mod count
struct AxisRelation {
  std::size_t before = 0;
  std::size_t after = 0;
  bool merge = false;  ///< also when both are the same axis: step 1, count the size
  std::int64_t step = 1;
  std::int64_t count = 1;  ///< size of the smaller axis
};

/// Every pair of axes, of known size above 1, that are related in this way. One axis before may be split into
/// several after, in their order. Sizes that are not known are allowed where the others tell enough:
/// [N,64,H,W] -> [N,8,8,H*W].
[[nodiscard]] std::vector<AxisRelation> relate_axes(const graph::Shape& before, const graph::Shape& after);

}  // namespace tempera::compress
