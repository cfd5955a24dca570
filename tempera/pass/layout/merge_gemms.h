#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Products of one row by constant matrices become one product, cut up afterwards: the time embedding of a diffusion
/// U-Net, which every block multiplies by a matrix of its own.
///
///   Before:  y1 = Gemm(x, W1, b1)                 After:  y = Gemm(x, [W1 W2 ..], [b1 b2 ..])         [1, N1 + N2 + ..]
///            y2 = Gemm(x, W2, b2), ..                     y1, y2, .. = Split(y, axis 1, sizes N1, N2, ..)
///
///   A Split along axis 1 that alone reads one of them goes into the new one.
///
/// Fires when:  two or more Gemms read x [1, K] (not transposed) with the same transB, alpha and beta; weights and biases
///   are constant.
/// Must not fire when:  x has several rows or a number of them not known, where the pieces would have to be copied apart;
///   the numbers are integers.
/// Formula:  y[n] = alpha sum_k x[k] W[k, n] + beta b[n]: each column for itself. Equal up to the order of the sums.
///
/// Why: OpenVINO 2026.4 took 1.2 ms of 174 for all products of this kind of a diffusion U-Net (bf16) instead of 8.0, and
/// of another (float32, 139 group norms) 1.7 of 302 instead of 10.4: sums over nodes, on a loaded machine.
PassResult merge_gemms(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
