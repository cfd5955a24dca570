#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Enlarging by nearest neighbour in front of a convolution: the convolution runs at the low resolution.
///
///   Before:  y = Conv(Resize(x, nearest, r times), W [O,I,k,k], B, pads (k - 1) / 2)
///
///   After, when O r r <= 64:        y = DepthToSpace(Conv(x, W' [O r r,I,K,K], B'), r, CRD)
///   After, when r = 2 and k = 3:    y = ConvTranspose(x, V [I,O,4,4], B, strides 2, pads 1)
///
/// Fires when:  the target is "openvino"; the Resize enlarges height and width alone, by the same whole number from 2 to 8,
///   each new pixel j being pixel floor(j / r), and has no other reader; the convolution has an odd square kernel, stride and
///   dilation 1, the padding that keeps the size, and one group; its weights are constant floats. N, H and W may be dynamic.
/// Must not fire when:  the scales vary, or another rounding picks other pixels; the sums leave the weights' type (float16).
/// Formula:  with h = (k - 1) / 2, tap y of phase a (0 <= a < r) meets pixel floor((a + y - h) / r), and taps that meet the same
///   pixel add up:
///     W'[(o r + a) r + b, i, s, t] = sum of W[o,i,y,x] over floor((a + y - h) / r) - lo = s, floor((b + x - h) / r) - lo = t
///     lo = floor(-h / r), hi = floor((r - 1 + h) / r), K = hi - lo + 1, pads -lo before and hi after, B'[(o r + a) r + b] = B[o]
///   For r = 2, k = 3 the same sums as a transposed convolution: V[i,o] = A W[o,i] A^T, A = [0 0 1; 0 1 1; 1 1 0; 1 0 0].
///   Exact at the border too: zero padding and nearest neighbour commute.
///
/// Why: a convolution to few channels wastes most of a 16-wide register, and the first form makes O r r of them. Measured on
/// OpenVINO 2026.4: a 4x super-resolution network 1.6x faster; beyond 64 channels the shuffling costs more than it saves.
PassResult fuse_upsample(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
