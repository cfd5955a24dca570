#pragma once

#include <cstdint>

/// Sixteen floats at a time in GCC's vector extension, which compiles to whatever the CPU has: one AVX-512
/// register, two of AVX2, four of SSE. Results are the same bits on all of them: no operation is reordered or
/// contracted.
namespace tempera::compress {

inline constexpr std::size_t kLanes = 16;
using FloatLanes [[gnu::vector_size(64)]] = float;
using IntLanes [[gnu::vector_size(64)]] = std::int32_t;

/// Loops over vectors are compiled once for each of these; the best that the CPU has is taken when the
/// program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define TEMPERA_FOR_EACH_CPU [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define TEMPERA_FOR_EACH_CPU
#endif

}  // namespace tempera::compress
