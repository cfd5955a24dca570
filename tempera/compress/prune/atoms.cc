#include "tempera/compress/prune/atoms.h"

#include <algorithm>
#include <numeric>

namespace tempera::compress {

Axis Atoms::add(std::size_t count) {
  Axis axis(count);
  std::iota(axis.begin(), axis.end(), static_cast<Atom>(parent_.size()));
  parent_.insert(parent_.end(), axis.begin(), axis.end());
  reason_.resize(parent_.size(), kNone);
  return axis;
}

Atom Atoms::find(Atom atom) const {
  while (parent_[atom] != atom) {
    parent_[atom] = parent_[parent_[atom]];
    atom = parent_[atom];
  }
  return atom;
}

void Atoms::unite(Atom a, Atom b) {
  a = find(a);
  b = find(b);
  if (a == b) {
    return;
  }
  // The older one stands for both: atoms are numbered in graph order, so a class is named by where it begins.
  const auto [old, young] = std::minmax(a, b);
  parent_[young] = old;
  reason_[old] = std::min(reason_[old], reason_[young]);
}

void Atoms::freeze(Atom atom, const Reason& reason) {
  const Atom root = find(atom);
  if (reason_[root] == kNone) {
    reason_[root] = static_cast<std::uint32_t>(reasons_.size());
    reasons_.push_back(reason);
  }
}

void Atoms::freeze(const Axis& axis, const Reason& reason) {
  for (const Atom atom : axis) {
    freeze(atom, reason);
  }
}

const Reason* Atoms::reason(Atom atom) const {
  const std::uint32_t index = reason_[find(atom)];
  return index == kNone ? nullptr : &reasons_[index];
}

}  // namespace tempera::compress
