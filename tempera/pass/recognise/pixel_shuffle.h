#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Pixel shuffle and unshuffle written as Reshape, Transpose, Reshape become the operator that says so.
///
///   Before:  a = Reshape(x [N,C r r,h,w], [N,C,r,r,h,w]);  b = Transpose(a, 0,1,4,2,5,3);  y = Reshape(b, [N,C,h r,w r])
///   After:   y = DepthToSpace(x, r, mode CRD)
///
///            [N,r,r,C,h,w] by 0,3,4,1,5,2                                   DepthToSpace(x, r, mode DCR)
///            [N,C,h,r,w,r] by 0,3,5,1,2,4 to [N,r r C,h,w]                  SpaceToDepth(x, r)
///
/// Fires when:  channels, height and width are fixed and the opset is 11 or higher (13 knows more types).
/// Must not fire when:  the steps between are read elsewhere, graph outputs or captured; the block is not square; the
///   channels of an unshuffle run before the block (0,1,3,5,2,4), which no operator says: fuse_unshuffle handles that one.
PassResult pixel_shuffle(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
