#pragma once

#include <cstddef>
#include <cstdint>

/// The innermost loop of calibration; private to Histogram.
namespace tempera::compress {

/// Bins of each sign, a power of two.
inline constexpr std::size_t kBinsOfSide = 4096;
inline constexpr int kBinBits = 12;

/// Counts values other than zero into `bins` [2 kBinsOfSide]: bin floor(|x| inverse_width) of the positive
/// side, or of the negative one behind it.
///
/// \param values         `count` finite floats, |x| inverse_width < kBinsOfSide
/// \param inverse_width  a power of two, so that the product is exact
/// \return how many values are zero
std::size_t count_bins(const float* values, std::size_t count, float inverse_width, std::uint32_t* bins);

/// The same without instructions that only some CPUs have.
std::size_t count_bins_portable(const float* values, std::size_t count, float inverse_width,
                                std::uint32_t* bins);

}  // namespace tempera::compress
