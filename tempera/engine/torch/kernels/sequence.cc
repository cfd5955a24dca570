/// Operators on sequences and optionals.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

/// A position in a sequence, counted from the front. `end` is the first one outside.
std::size_t place(const KernelContext& context, std::size_t input, std::size_t length, std::size_t end) {
  std::int64_t i = context.scalar_int(input);
  const std::int64_t asked = i;
  i = i < 0 ? i + static_cast<std::int64_t>(length) : i;
  if (i < 0 || i >= static_cast<std::int64_t>(end)) {
    context.fail(fmt::format("position {} in a sequence of {}", asked, length));
  }
  return static_cast<std::size_t>(i);
}

void construct(KernelContext& context) {
  Sequence sequence;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    sequence.push_back(context.value(i));
  }
  context.set(0, Value(std::move(sequence)));
}

void empty(KernelContext& context) { context.set(0, Value(Sequence{})); }

void insert(KernelContext& context) {
  Sequence sequence = context.sequence(0);
  const std::size_t at = context.has(2) ? place(context, 2, sequence.size(), sequence.size() + 1) : sequence.size();
  sequence.insert(sequence.begin() + static_cast<std::ptrdiff_t>(at), context.value(1));
  context.set(0, Value(std::move(sequence)));
}

void erase(KernelContext& context) {
  Sequence sequence = context.sequence(0);
  if (sequence.empty()) {
    context.fail("nothing to erase in an empty sequence");
  }
  const std::size_t at = context.has(1) ? place(context, 1, sequence.size(), sequence.size()) : sequence.size() - 1;
  sequence.erase(sequence.begin() + static_cast<std::ptrdiff_t>(at));
  context.set(0, Value(std::move(sequence)));
}

void element(KernelContext& context) {
  const Sequence& sequence = context.sequence(0);
  context.set(0, sequence[place(context, 1, sequence.size(), sequence.size())]);
}

void length(KernelContext& context) {
  const auto count = static_cast<std::int64_t>(context.sequence(0).size());
  context.set(0, at::full({}, count, at::TensorOptions(context.device()).dtype(at::kLong)));
}

/// Parts of the given size (the last one shorter) or sizes; without sizes single elements, the axis dropped unless kept.
void split(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.integer("axis", 0), x.data.dim());
  const std::int64_t total = x.data.size(axis);
  std::vector<std::int64_t> sizes;
  bool drop_axis = false;
  if (!context.has(1)) {
    sizes.assign(static_cast<std::size_t>(total), 1);
    drop_axis = context.integer("keepdims", 1) == 0;
  } else if (context.tensor(1).dim() == 0) {
    const std::int64_t size = context.scalar_int(1);
    if (size <= 0) {
      context.fail(fmt::format("parts of {} elements", size));
    }
    for (std::int64_t done = 0; done < total; done += size) {
      sizes.push_back(std::min(size, total - done));
    }
  } else {
    sizes = context.ints(1);
  }
  Sequence sequence;
  for (const at::Tensor& part : at::split_with_sizes(x.data, sizes, axis)) {
    sequence.emplace_back(Array{drop_axis ? part.squeeze(axis) : part, x.type});
  }
  context.set(0, Value(std::move(sequence)));
}

void concat(KernelContext& context) {
  std::vector<at::Tensor> parts;
  DataType type = DataType::kFloat32;
  for (const Value& part : context.sequence(0)) {
    if (part.array() == nullptr) {
      context.unsupported("a sequence of other things than numeric tensors cannot be joined");
    }
    parts.push_back(part.array()->data);
    type = part.array()->type;
  }
  if (parts.empty()) {
    context.fail("nothing to join");
  }
  const bool fresh = context.integer("new_axis", 0) != 0;
  const std::int64_t axis = context.axis(context.integer("axis", 0), parts.front().dim() + (fresh ? 1 : 0));
  context.set(0, fresh ? at::stack(parts, axis) : at::cat(parts, axis), type);
}

/// The input itself, or an empty optional.
void optional(KernelContext& context) { context.set(0, context.has(0) ? context.value(0) : Value()); }

void has_element(KernelContext& context) {
  context.set(0, at::full({}, context.has(0), at::TensorOptions(context.device()).dtype(at::kBool)));
}

void get_element(KernelContext& context) {
  if (!context.has(0)) {
    context.fail("the optional is empty");
  }
  context.set(0, context.value(0));
}

constexpr Kernel kKernels[] = {
    {"ConcatFromSequence", concat},
    {"Optional", optional},
    {"OptionalGetElement", get_element},
    {"OptionalHasElement", has_element},
    {"SequenceAt", element},
    {"SequenceConstruct", construct},
    {"SequenceEmpty", empty},
    {"SequenceErase", erase},
    {"SequenceInsert", insert},
    {"SequenceLength", length},
    {"SplitToSequence", split},
};

}  // namespace

std::span<const Kernel> sequence_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
