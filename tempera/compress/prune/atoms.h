#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::compress {

/// One index along one axis of one tensor, numbered through the graph.
using Atom = std::uint32_t;

/// The indices along an axis. Empty: the axis is opaque, nothing along it can be removed.
using Axis = std::vector<Atom>;

/// One entry for each axis of a tensor. Empty: all are opaque.
using Labels = std::vector<Axis>;

/// Why something stays whole: the node that does not allow it, and a sentence.
struct Reason {
  graph::NodeId node;  ///< none: the graph itself
  std::string text;
};

/// Which indices must be removed together: a union-find whose classes are *channels*. A class that holds one
/// index that may not go is frozen as a whole.
class Atoms {
 public:
  Axis add(std::size_t count);
  [[nodiscard]] std::size_t size() const noexcept { return parent_.size(); }

  /// The atom that stands for the class.
  [[nodiscard]] Atom find(Atom atom) const;

  void unite(Atom a, Atom b);

  /// The first reason given for a class is kept.
  void freeze(Atom atom, const Reason& reason);
  void freeze(const Axis& axis, const Reason& reason);

  [[nodiscard]] bool frozen(Atom atom) const { return reason_[find(atom)] != kNone; }
  /// Null when the class is free.
  [[nodiscard]] const Reason* reason(Atom atom) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  mutable std::vector<Atom> parent_;
  std::vector<std::uint32_t> reason_;  // of roots: index into reasons_
  std::vector<Reason> reasons_;
};

}  // namespace tempera::compress
