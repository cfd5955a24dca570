#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tempera/compress/prune/coupling.h"

namespace tempera::compress {

/// Channels that lie on the same axes of the same weights: they are ranked against each other.
struct ChannelGroup {
  std::string name;                 ///< the first layer that makes them
  std::vector<std::string> layers;  ///< every layer that makes them
  std::vector<Atom> channels;       ///< one for each class, in the order of their places
  std::int64_t width = 1;          ///< outputs of the first layer that one of them holds: 32 for a head of 32
  std::vector<double> importance;  ///< one for each of `channels`; the mean is 1
  bool approximate = false;        ///< a mean or a LayerNorm runs over them
};

enum class WeightNorm : std::uint8_t { kL1, kL2 };

/// The free channels of a graph in groups, in graph order, with their importance
///
///   I_k = sum over weights w of the group of ||w[k]||_p,   divided by the mean of I over the group
///
/// where w[k] are the weights that go with channel k: rows of the layers that make it and columns of those
/// that read it (DepGraph, arXiv:2301.12900, eq. 4, with the norm p of the options).
[[nodiscard]] std::vector<ChannelGroup> find_groups(const Coupling& coupling, WeightNorm norm);

/// Output channels of a layer that stay because something on their way is not followed.
struct Barrier {
  std::string layer;
  std::int64_t channels = 0;  ///< how many of its output channels
  std::int64_t of = 0;        ///< how many it has
  std::string node;           ///< what stops them, by name
  std::string reason;
};
[[nodiscard]] std::vector<Barrier> find_barriers(const Coupling& coupling);

}  // namespace tempera::compress
