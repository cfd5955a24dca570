#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tempera/compress/prune/coupling.h"
#include "tempera/compress/prune/groups.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

struct ChannelOptions {
  double pruning_ratio = 0.3;  ///< share of the channels that goes: 0 to below 1
  bool global = false;         ///< rank all channels together; else the ratio holds in each group
  WeightNorm norm = WeightNorm::kL1;
  std::int64_t align = 1;  ///< channels kept are a multiple of this: 8, 16 or 32 suit an engine's blocks
  std::vector<std::string> ignore;  ///< layers whose weights stay whole, by the names of their nodes
};

/// What becomes of one group.
struct GroupRecord {
  std::string name;
  std::vector<std::string> layers;
  std::int64_t channels_before = 0;  ///< outputs of the first layer
  std::int64_t channels_after = 0;
  double importance_lost = 0.0;  ///< share of the group's importance in what goes
  bool approximate = false;  ///< zeros would not have gone unnoticed: a mean or a LayerNorm runs over them
};

/// Which channels go.
struct ChannelPlan {
  std::vector<bool> removed;  ///< for each atom of the coupling
  std::vector<GroupRecord> groups;
};

/// Chooses the least important channels. Every group keeps at least one channel (a tenth of them when ranked
/// globally), and no axis of a tensor becomes empty. Among equals the later go first.
///
/// \throws Error{kInvalidArgument} for a ratio or alignment out of range
[[nodiscard]] ChannelPlan plan_channels(const Coupling& coupling, const ChannelOptions& options);

/// A layer that lost inputs: a product with a weight that is summed over them.
struct Reader {
  graph::NodeId node;  ///< in the original and in the pruned model
  std::string name;
  std::vector<bool> outputs_kept;  ///< of its output channels in the original model
};

struct ChannelPruned {
  graph::Model model;
  std::vector<GroupRecord> groups;
  std::vector<Barrier> barriers;
  std::vector<Reader>
      readers;  ///< in graph order; Conv without groups, Gemm and MatMul with the weight in input 1
};

/// Structured pruning: the model without its least important channels; genuinely smaller tensors, same inputs
/// and outputs. What the analysis does not understand stays whole and is named in `barriers`.
///
/// \param model  types inferred; local functions inlined
[[nodiscard]] ChannelPruned prune_channels(const graph::Model& model, const ChannelOptions& options);

}  // namespace tempera::compress
