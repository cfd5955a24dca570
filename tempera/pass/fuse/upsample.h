#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Doubling by nearest neighbour in front of a 3x3 convolution becomes one transposed convolution.
///
///   Before:  y = Conv(Resize(x, nearest, 2x), W [O,I,3,3], pads 1)
///   After:   y = ConvTranspose(x, V [I,O,4,4], strides 2, pads 1)
///
/// Fires when:  the target is "openvino"; the Resize doubles height and width alone, each new pixel being the one at half
///   its index, and has no other reader; the convolution is 3x3 with stride and dilation 1, padding 1 on every side and one
///   group; its weights are constant floats of fixed shape.
/// Must not fire when:  the scales vary, or another rounding picks other pixels; the sums leave the weights' type (float16).
/// Formula:  up[2i + a] = x[i], so neighbouring taps meet the same pixel and add up:
///   V[i,o] = A W[o,i] A^T with A = [0 0 1; 0 1 1; 1 1 0; 1 0 0], 16 products for each input pixel in place of 36.
PassResult fuse_upsample(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
