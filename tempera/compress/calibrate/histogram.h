#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tempera/compress/calibrate/count_bins.h"

namespace tempera::compress {

/// Least and largest of some values.
struct Extremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  bool finite = true;  ///< no NaN and no infinity among them; else min and max mean nothing

  void merge(const Extremes& other) {
    min = other.min < min ? other.min : min;
    max = other.max > max ? other.max : max;
    finite = finite && other.finite;
  }
};

[[nodiscard]] Extremes extremes_of(std::span<const float> values);

/// Counts of values in bins whose width is a power of two:
///
///   bin k of a side holds  k w <= |x| < (k + 1) w,   w = 2^exponent,   0 <= k < kBins
///
/// positive and negative values apart, zeros by themselves. w is the least power of two (from 2^-126 on) that
/// has room for the largest magnitude, so that at least half of the bins lie below it. Doubling w joins bins
/// 2k and 2k + 1, exactly: one pass counts values whose range is not known beforehand, and the result depends
/// neither on the order in which values came nor on how they were split between histograms merged later.
class Histogram {
 public:
  static constexpr std::size_t kBins = kBinsOfSide;

  /// Counts the values when they are all finite; nothing of the span is counted for certain otherwise.
  Extremes add(std::span<const float> values);

  /// Counts as if the values of `other` had been added here.
  void merge(const Histogram& other);

  /// Back to an empty histogram; keeps the memory.
  void clear();

  [[nodiscard]] const Extremes& extremes() const { return extremes_; }
  [[nodiscard]] std::uint64_t zeros() const { return zeros_; }
  [[nodiscard]] std::uint64_t total() const { return total_; }  ///< zeros included
  [[nodiscard]] double width() const;  ///< w; of no meaning while there are only zeros

  /// Counts by bin, without the empty ones at the end. Zeros are in neither.
  [[nodiscard]] std::vector<std::uint64_t> positive() const;
  [[nodiscard]] std::vector<std::uint64_t> negative() const;

  bool operator==(const Histogram& other) const;

  /// Everything above, as bytes that from_bytes() turns back; empty bins at the ends take no room.
  void append_to(std::vector<std::byte>& bytes) const;
  /// Takes what append_to() wrote from the front of `bytes`. \throws Error{kIo} when it is cut short or
  /// malformed
  [[nodiscard]] static Histogram take_from(std::span<const std::byte>& bytes);

 private:
  void make_room(float largest);
  void widen(int exponent);
  void flush();
  [[nodiscard]] std::vector<std::uint64_t> side(std::size_t first) const;

  static constexpr int kNone = std::numeric_limits<int>::min();

  int exponent_ = kNone;               // while every value is zero
  std::vector<std::uint32_t> fresh_;   // [2 kBins]: positive, negative; hot, so of 32 bits
  std::uint64_t fresh_total_ = 0;      // at least the sum of fresh_, which stays below 2^32
  std::vector<std::uint64_t> counts_;  // [2 kBins], or empty: what fresh_ no longer holds
  std::uint64_t zeros_ = 0;
  std::uint64_t total_ = 0;
  Extremes extremes_;
};

}  // namespace tempera::compress
