#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tempera/compress/prune/atoms.h"
#include "tempera/graph/graph.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

/// What has to change in a node, apart from its weights, when indices go.
struct Edit {
  enum class Kind : std::uint8_t {
    kShapeEntry,  ///< entry `entry` of the shape in input `input` becomes the size left of axes[0]
    kSplitSizes,  ///< parts of a Split: the sizes left of axes[0], axes[1], ..
    kSliceRange,  ///< entry `entry` of a Slice starts behind what is left of axes[0] and takes what is left
                  ///< of axes[1]
    kGatherIndices,  ///< constant indices along axes[0], renumbered; those that went are left out
    kCount,          ///< the attribute `attribute` becomes the size left of axes[0]
    kRmsScale,  ///< RMSNormalization over axes[0]: scale and epsilon keep the mean over all that there was
  };
  Kind kind = Kind::kCount;
  graph::NodeId node;
  std::size_t input = 0;
  std::size_t entry = 0;
  std::string attribute;
  std::vector<Axis> axes;
};

/// The output channels of one layer.
struct Producer {
  graph::NodeId node;
  Axis axis;
};

/// One element of a tensor of sizes: a constant, the size of an axis, or something else.
struct SizeEntry {
  enum class Kind : std::uint8_t { kConstant, kAxis, kOther };
  Kind kind = Kind::kOther;
  graph::ValueId value;  ///< kAxis: of this value
  std::size_t axis = 0;
  std::int64_t number = 0;  ///< kConstant
};

/// Which indices along which axes of a graph's tensors belong together.
///
/// The dependency graph of DepGraph (Fang et al. 2023, arXiv:2301.12900, sec. 3.2), with single indices as
/// nodes: an operator unites the indices of its inputs, outputs and weights that must go together, whatever
/// moves them about (Concat, Split, Reshape, Transpose, ..). What it does not understand freezes everything
/// it touches.
///
/// Weights are labelled at each use apart, so a constant that several layers read (an exporter keeps equal
/// ones once) does not tie them together.
class Coupling {
 public:
  /// \param model   types inferred; looked at while building only
  /// \param ignore  names of layers whose weights stay whole: the node's, or its first output's when it has none
  /// \throws Error{kNotFound} for a name in `ignore` that no node has
  Coupling(const graph::Model& model, const std::vector<std::string>& ignore);

  [[nodiscard]] const Atoms& atoms() const noexcept { return atoms_; }
  /// Values of the main graph that have a labelled axis.
  [[nodiscard]] const std::map<graph::ValueId, Labels>& values() const noexcept { return labels_; }
  /// Labels of constants, by the node input that reads them.
  [[nodiscard]] const std::map<graph::Use, Labels>& weights() const noexcept { return weights_; }
  [[nodiscard]] const std::vector<Producer>& producers() const noexcept { return producers_; }
  [[nodiscard]] const std::vector<Edit>& edits() const noexcept { return edits_; }
  /// Reduced or normalised over: removing zeros changes these a little (a mean over fewer numbers).
  [[nodiscard]] bool approximate(Atom atom) const { return approximate_.contains(atoms_.find(atom)); }

  // -- for the rules of operators
  // ------------------------------------------------------------------------------------

  [[nodiscard]] const graph::Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] std::int64_t opset() const noexcept { return opset_; }

  /// Labels of an input, one entry for each axis: of the value, or of the constant at this use (every axis
  /// longer than 1 has labels of its own then). Empty when the rank is not known.
  [[nodiscard]] Labels input(graph::NodeId id, std::size_t i);
  void set_output(graph::NodeId id, std::size_t i, Labels labels);

  /// The two are one axis. An opaque one freezes the other.
  void unite(const Axis& a, const Axis& b, graph::NodeId why);
  void freeze(const Axis& axis, graph::NodeId node, std::string text) {
    atoms_.freeze(axis, {node, std::move(text)});
  }
  void freeze_inputs(graph::NodeId id, const std::string& text);
  [[nodiscard]] Axis fresh(std::size_t count) { return atoms_.add(count); }
  /// Each block of `block` neighbours goes together. \return one atom for each block
  Axis unite_blocks(const Axis& axis, std::size_t block);
  void produce(graph::NodeId id, const Axis& axis) { producers_.push_back({id, axis}); }
  void edit(Edit edit) { edits_.push_back(std::move(edit)); }
  void mark_approximate(const Axis& axis) { marked_.insert(marked_.end(), axis.begin(), axis.end()); }

  /// The entries of a tensor of sizes (int64 [n]); nothing when it is not one that can be followed.
  [[nodiscard]] std::vector<SizeEntry> sizes(graph::ValueId id) const;
  void set_sizes(graph::ValueId id, std::vector<SizeEntry> entries) { sizes_[id] = std::move(entries); }
  [[nodiscard]] bool has_sizes(graph::ValueId id) const { return sizes_.contains(id); }
  /// What the sizes were read from may not change.
  void freeze_sizes(graph::NodeId id, graph::ValueId sizes);
  /// Output axis `axis` of a node whose input `input` says the sizes: it must be able to shrink along.
  void follow_size(graph::NodeId id, std::size_t input, std::size_t entry, const Axis& axis);
  /// Made from constants alone.
  [[nodiscard]] bool is_fixed(graph::ValueId id) const;

 private:
  void visit(graph::NodeId id);
  void freeze_pinned();
  void freeze_ignored(const std::vector<std::string>& ignore);

  const graph::Graph& graph_;
  std::int64_t opset_ = 0;
  Atoms atoms_;
  std::map<graph::ValueId, Labels> labels_;
  std::map<graph::Use, Labels> weights_;
  std::map<graph::ValueId, std::vector<SizeEntry>> sizes_;
  std::vector<Producer> producers_;
  std::vector<Edit> edits_;
  std::set<graph::ValueId> fixed_;
  Axis marked_;
  std::set<Atom> approximate_;
};

}  // namespace tempera::compress
