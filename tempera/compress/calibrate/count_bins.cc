#include "tempera/compress/calibrate/count_bins.h"

#include <cmath>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#define TEMPERA_HAS_AVX512_PATH
#include <immintrin.h>
#endif

namespace tempera::compress {
namespace {

std::size_t bin_of(float value, float inverse_width) {
  return static_cast<std::size_t>(std::fabs(value) * inverse_width) + (std::signbit(value) ? kBinsOfSide : 0);
}

#ifdef TEMPERA_HAS_AVX512_PATH

// Zeros, more than half of the values behind a ReLU, are squeezed out before counting: a run of increments of
// one counter would wait for each other. Counting from a buffer of indices, two to a load, leaves one store a
// value as the limit.
__attribute__((target("avx512f,popcnt"))) std::size_t count_bins_avx512(const float* values,
                                                                        std::size_t count,
                                                                        float inverse_width,
                                                                        std::uint32_t* bins) {
  constexpr std::size_t kLanes = 16;
  constexpr std::size_t kBlock = 1024;
  constexpr __mmask16 kAll = 0xFFFF;
  alignas(64) std::uint32_t indices[kBlock + kLanes];
  const __m512 scale = _mm512_set1_ps(inverse_width);
  const __m512i magnitude_mask = _mm512_set1_epi32(0x7FFFFFFF);
  const __m512i negative = _mm512_set1_epi32(static_cast<int>(kBinsOfSide));
  std::size_t other_than_zero = 0;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = count - begin < kBlock ? count - begin : kBlock;
    std::size_t used = 0;
    for (std::size_t i = 0; i < size; i += kLanes) {
      const auto lanes = static_cast<__mmask16>(size - i >= kLanes ? 0xFFFFU : (1U << (size - i)) - 1U);
      const __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(lanes, values + begin + i));
      const __m512i magnitude = _mm512_and_si512(bits, magnitude_mask);
      const __mmask16 keep = _mm512_test_epi32_mask(magnitude, magnitude);
      // With masks of all lanes: GCC 12 warns of uninitialised values inside the plain forms.
      __m512i bin = _mm512_maskz_cvttps_epi32(kAll, _mm512_mul_ps(_mm512_castsi512_ps(magnitude), scale));
      bin = _mm512_or_si512(bin, _mm512_and_si512(_mm512_maskz_srai_epi32(kAll, bits, 31), negative));
      _mm512_storeu_si512(indices + used, _mm512_maskz_compress_epi32(keep, bin));
      used += static_cast<std::size_t>(_mm_popcnt_u32(keep));
    }
    std::size_t i = 0;
    for (; i + 4 <= used; i += 4) {
      std::uint64_t pair[2];
      std::memcpy(pair, indices + i, sizeof pair);
      ++bins[pair[0] & 0xFFFFFFFFU];
      ++bins[pair[0] >> 32U];
      ++bins[pair[1] & 0xFFFFFFFFU];
      ++bins[pair[1] >> 32U];
    }
    for (; i < used; ++i) {
      ++bins[indices[i]];
    }
    other_than_zero += used;
  }
  return count - other_than_zero;
}

#endif

}  // namespace

std::size_t count_bins_portable(const float* values, std::size_t count, float inverse_width,
                                std::uint32_t* bins) {
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] == 0.0F) {
      ++zeros;
    } else {
      ++bins[bin_of(values[i], inverse_width)];
    }
  }
  return zeros;
}

std::size_t count_bins(const float* values, std::size_t count, float inverse_width, std::uint32_t* bins) {
#ifdef TEMPERA_HAS_AVX512_PATH
  static const bool has_avx512 = __builtin_cpu_supports("avx512f") != 0;
  if (has_avx512) {
    return count_bins_avx512(values, count, inverse_width, bins);
  }
#endif
  return count_bins_portable(values, count, inverse_width, bins);
}

}  // namespace tempera::compress
