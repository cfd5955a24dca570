#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// A pixel unshuffle in front of a 1x1 convolution becomes one convolution with a stride.
///
///   Before:  a = Reshape(x [N,C,r h,r w], [N,C,h,r,w,r]);  b = Transpose(a, 0,1,3,5,2,4);  c = Reshape(b, [N,C r r,h,w])
///            y = Conv(c, W [O,C r r,1,1])
///   After:   y = Conv(x, W as [O,C,r,r], strides r)
///
/// Also from SpaceToDepth, whose channels run block first: W is permuted then.
///
/// Fires when:  channels, height and width are fixed; nothing else reads the steps between; the convolution is 1x1 with
///   stride 1, no padding and one group, its weights constant.
/// Must not fire when:  a value between is a graph output, captured or read twice; the blocks are not square.
/// Formula:  c[n, (c r + i) r + j, y, x] = x[n, c, r y + i, r x + j]: the same products, nothing moved.
PassResult fuse_unshuffle(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
