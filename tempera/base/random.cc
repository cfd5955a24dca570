#include "tempera/base/random.h"

#include <cmath>
#include <numbers>

namespace tempera {

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  // Multipliers and key increments of Salmon et al. 2011, table 2 and section 3.2 (Weyl sequence).
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

namespace {

std::array<std::uint32_t, 4> block(std::uint64_t seed, std::uint64_t draw, std::uint64_t index) {
  const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  return philox4x32_10({low(index), high(index), low(draw), high(draw)}, {low(seed), high(seed)});
}

struct Pair {
  float cosine;
  float sine;
};

Pair normal_pair(std::uint32_t u, std::uint32_t v) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(u) + 1.0) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(v) * 0x1p-32;
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace

std::uint32_t CounterRng::bits(std::uint64_t i) const { return block(seed_, draw_, i / 4)[i % 4]; }

float CounterRng::uniform(std::uint64_t i) const { return static_cast<float>(bits(i) >> 8) * 0x1p-24F; }

float CounterRng::normal(std::uint64_t i) const {
  const auto words = block(seed_, draw_, i / 4);
  const Pair pair = normal_pair(words[i % 4 & 2U], words[(i % 4 & 2U) + 1]);
  return i % 2 == 0 ? pair.cosine : pair.sine;
}

std::uint64_t CounterRng::below(std::uint64_t i, std::uint64_t n) const {
  const auto words = block(seed_, draw_, i / 2);
  const std::size_t first = i % 2 * 2;
  const std::uint64_t value = static_cast<std::uint64_t>(words[first + 1]) << 32 | words[first];
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(value) * n >> 64);
}

void CounterRng::fill_uniform(std::span<float> values) const {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto words = block(seed_, draw_, i / 4);
    for (std::size_t k = 0; k < 4 && i + k < values.size(); ++k) {
      values[i + k] = static_cast<float>(words[k] >> 8) * 0x1p-24F;
    }
  }
}

void CounterRng::fill_normal(std::span<float> values) const {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const auto words = block(seed_, draw_, i / 4);
    const Pair first = normal_pair(words[0], words[1]);
    const Pair second = normal_pair(words[2], words[3]);
    const std::array<float, 4> four = {first.cosine, first.sine, second.cosine, second.sine};
    for (std::size_t k = 0; k < 4 && i + k < values.size(); ++k) {
      values[i + k] = four[k];
    }
  }
}

}  // namespace tempera
