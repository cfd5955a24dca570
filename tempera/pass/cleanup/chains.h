#pragma once

#include "tempera/pass/pass.h"

/// Two moves of the same kind in a row become one. In all of these the first node stays when others read it too.
namespace tempera::pass {

///   Before:  y = Cast(Cast(x, t1), t2)      After:  y = Cast(x, t2)
///
/// Fires when:  t1 holds every value of x's type.
/// Must not fire when:  t1 rounds or cuts off (float -> int -> float); x's type is unknown.
PassResult merge_casts(graph::Graph& graph, const PassContext& context);

///   Before:  y = Transpose(Transpose(x, p1), p2)      After:  y = Transpose(x, p)   or x itself
///
/// Fires when:  both permutations are known.
/// Formula:  p[i] = p1[p2[i]].
PassResult merge_transposes(graph::Graph& graph, const PassContext& context);

///   Before:  y = Reshape(Reshape(x, s1), s2)      After:  y = Reshape(x, s2)
///
/// Reshape, Squeeze, Unsqueeze and Flatten all count.
///
/// Fires when:  y's shape is fixed, or the last is a Reshape whose constant target copies no dimension of the middle shape
///   (a 0) that x does not have at the same place.
/// Must not fire when:  the target is computed at run time.
PassResult merge_reshapes(graph::Graph& graph, const PassContext& context);

///   Before:  y = Slice(Slice(x, a), b)      After:  y = Slice(x, c)
///
/// Fires when:  all limits are constant; the size of every axis cut by both is known (axes cut by one only need not be).
/// Must not fire when:  a slice is empty.
/// Formula:  along an axis, elements s1 + k1 (s2 + k2 i): start s1 + k1 s2, step k1 k2, count that of b. Steps may be
///   negative; an end before the first element is written as -(size + 1), since -1 would mean the last.
PassResult merge_slices(graph::Graph& graph, const PassContext& context);

///   Before:  y = Concat(Concat(a, b), c)        After:  y = Concat(a, b, c)
///   Before:  y = Concat(Split(x))               After:  y = x
///
/// Fires when:  the axes are the same and the inner Concat has no other reader; or the inputs are all the outputs of one
///   Split along that axis, in order.
/// Must not fire when:  the inner Concat is a graph output, read elsewhere or captured by a body.
PassResult merge_concats(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
