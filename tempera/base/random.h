#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tempera {

/// Ten rounds of Philox-4x32: a bijection of 128-bit counters, keyed. Equal inputs give equal bits on every
/// machine.
///
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", SC11, section 3.3.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                                         std::array<std::uint32_t, 2> key);

/// Random numbers addressed by position: element `i` of draw `draw` under `seed` never depends on the batch
/// it is made in or on the thread that makes it. A value type without state; safe to share.
///
/// Counter = (i / 4, draw), key = seed; element i takes word i % 4.
class CounterRng {
 public:
  explicit CounterRng(std::uint64_t seed, std::uint64_t draw = 0) : seed_(seed), draw_(draw) {}

  /// 32 random bits.
  [[nodiscard]] std::uint32_t bits(std::uint64_t i) const;

  /// Uniform in [0, 1) on a grid of 2^-24, so exact in float.
  [[nodiscard]] float uniform(std::uint64_t i) const;

  /// Standard normal by Box and Muller, computed in double: elements 2k and 2k+1 are the cosine and sine of
  /// one pair,
  ///   r = sqrt(-2 ln((u + 1) 2^-32)), angle = 2 pi v 2^-32, with u and v the words of 2k and 2k+1.
  [[nodiscard]] float normal(std::uint64_t i) const;

  /// Uniform integer in [0, n), n >= 1, by multiplying 64 bits (words 2i and 2i+1) into the range; bias below
  /// n 2^-64.
  [[nodiscard]] std::uint64_t below(std::uint64_t i, std::uint64_t n) const;

  void fill_uniform(std::span<float> values) const;
  void fill_normal(std::span<float> values) const;

 private:
  std::uint64_t seed_;
  std::uint64_t draw_;
};

}  // namespace tempera
