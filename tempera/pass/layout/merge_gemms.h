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
/// Why: in OpenVINO 2026.4 (2 threads of a loaded machine, sums over nodes of each one's 10th percentile) the products of a
/// diffusion U-Net's 19 blocks took 3.4 ms instead of 11.0 in bf16 and 5.4 instead of 8.7 in float32, those of another one's
/// 55 blocks 3.0 instead of 37 in float32. The Split takes no time: its pieces lie apart already.
PassResult merge_gemms(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
