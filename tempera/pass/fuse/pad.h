#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// A Pad by zeros in front of a convolution becomes the convolution's own padding.
///
///   Before:  y = Conv(Pad(x, p), W, pads = q)      After:  y = Conv(x, W, pads = p + q)
///
/// Each convolution that reads the Pad takes it over; the Pad goes when all have. MaxPool takes a Pad by minus infinity (or
/// the type's lowest number); AveragePool a Pad by zeros when it counts its own padding, or has none.
///
/// Fires when:  the mode is constant, only spatial axes are padded, by constant and not negative amounts.
/// Must not fire when:  the pad value is not the neutral one; auto_pad is SAME_UPPER or SAME_LOWER; a pooling rounds its
///   size up (ceil_mode), or would be padded by as much as its kernel.
PassResult fuse_pad(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
