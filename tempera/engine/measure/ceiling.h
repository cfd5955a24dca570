#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/engine/engine.h"

namespace tempera::engine {

/// Fastest rate seen for products of large square matrices in one number format, through an engine.
struct MatmulCeiling {
  std::string format;        ///< "f32", "bf16", "f16", "int8"
  double gflop_per_s = 0.0;  ///< 10^9 multiplications and additions a second
  std::string kernel;        ///< as the engine calls it: tells whether the format was really used
};

/// What this machine can do at best: beside it a model's speed shows what is left to gain.
struct Ceiling {
  std::vector<MatmulCeiling> matmul;  ///< the engine's native precisions, then int8
  double copy_gb_per_s = 0.0;         ///< 10^9 bytes read and written a second, by plain copies, all threads together
  int threads = 0;
  std::int64_t size = 0;
};

struct CeilingOptions {
  int threads = 0;                          ///< 0: one for each core of this process
  std::int64_t size = 2048;                 ///< rows and columns of each matrix
  int depth = 4;                            ///< products in a row, so that reading the input costs little
  double budget_ms = 1500.0;                ///< for each format, and for copying
  std::int64_t copy_bytes = std::int64_t{256} << 20;  ///< of source and of target; the larger, the less a cache helps
};

/// \throws Error{kInvalidArgument} for sizes below 1; Error{kCancelled}; what the engine throws
[[nodiscard]] Ceiling measure_ceiling(const Engine& engine, const CeilingOptions& options, const Host& host);

/// x [size, size] times `depth` constant matrices, in float; or with every operand quantised to int8 and back, which an
/// engine with integer kernels computes in int8.
///
///   y = x W_1 W_2 ... W_depth,    operations = 2 size^3 depth
[[nodiscard]] graph::Model matmul_chain(std::int64_t size, int depth, bool int8);

}  // namespace tempera::engine
