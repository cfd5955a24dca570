#include "tempera/compress/prune/reshape_map.h"

#include <algorithm>

namespace tempera::compress {
namespace {

// [begin, end) of axes of one side whose elements are those of [begin, end) of the other.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

bool same_dim(const graph::Dim& a, const graph::Dim& b) {
  return a.fixed() ? a.value == b.value : !a.symbol.empty() && a.symbol == b.symbol;
}

// Where an axis lies among the factors of the number of elements, seen from one end: it tells the multiples
// of `low` below `high` apart. From the right: low = product of what stands right of it. From the left
// likewise.
struct Place {
  std::int64_t low = 1;
  std::int64_t high = 1;
};

std::vector<std::optional<Place>> places(const graph::Shape& shape, Span span, bool from_left) {
  std::vector<std::optional<Place>> found(shape.size());
  std::int64_t product = 1;
  for (std::size_t i = 0; i < span.end - span.begin; ++i) {
    const std::size_t axis = from_left ? span.begin + i : span.end - 1 - i;
    if (!shape[axis].fixed() || shape[axis].value == 0) {
      break;
    }
    found[axis] = Place{product, product * shape[axis].value};
    product = found[axis]->high;
  }
  return found;
}

// How the axes at these places are related; nothing when they overlap partly.
std::optional<AxisRelation> relate(const Place& before, const Place& after, bool from_left) {
  const auto nested = [&](const Place& outer, const Place& inner) -> std::optional<std::int64_t> {
    if (inner.low < outer.low || inner.high > outer.high || inner.low % outer.low != 0 ||
        outer.high % inner.high != 0) {
      return std::nullopt;
    }
    return from_left ? outer.high / inner.high : inner.low / outer.low;
  };
  AxisRelation relation;
  if (const auto step = nested(after, before)) {
    relation.merge = true;
    relation.step = *step;
    relation.count = before.high / before.low;
    return relation;
  }
  if (const auto step = nested(before, after)) {
    relation.step = *step;
    relation.count = after.high / after.low;
    return relation;
  }
  return std::nullopt;
}

void relate_spans(const graph::Shape& before, Span span, const graph::Shape& after, Span other,
                  std::vector<AxisRelation>& relations) {
  for (std::size_t a = span.begin; a < span.end; ++a) {
    for (std::size_t b = other.begin; b < other.end; ++b) {
      for (const bool from_left : {false, true}) {
        const auto place = places(before, span, from_left)[a];
        const auto other_place = places(after, other, from_left)[b];
        if (!place || !other_place || before[a].value < 2 || after[b].value < 2) {
          continue;
        }
        if (auto relation = relate(*place, *other_place, from_left)) {
          relation->before = a;
          relation->after = b;
          relations.push_back(*relation);
          break;
        }
      }
    }
  }
}

}  // namespace

std::vector<AxisRelation> relate_axes(const graph::Shape& before, const graph::Shape& after) {
  // Equal axes at both ends stand for themselves; what is between is one run of elements.
  std::vector<AxisRelation> relations;
  Span left{0, before.size()};
  Span right{0, after.size()};
  const auto same = [&](std::size_t a, std::size_t b) {
    if (before[a].fixed() && before[a].value > 1) {
      relations.push_back({a, b, true, 1, before[a].value});
    }
  };
  while (left.begin < left.end && right.begin < right.end &&
         same_dim(before[left.begin], after[right.begin])) {
    same(left.begin++, right.begin++);
  }
  while (left.begin < left.end && right.begin < right.end &&
         same_dim(before[left.end - 1], after[right.end - 1])) {
    same(--left.end, --right.end);
  }
  relate_spans(before, left, after, right, relations);
  std::sort(relations.begin(), relations.end(), [](const AxisRelation& a, const AxisRelation& b) {
    return a.before != b.before ? a.before < b.before : a.after < b.after;
  });
  return relations;
}

}  // namespace tempera::compress
