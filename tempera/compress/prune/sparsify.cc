#include "tempera/compress/prune/sparsify.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/hash.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/pass/weights.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::Tensor;
using graph::ValueId;

using Mask = std::vector<bool>;  // true: becomes zero; in row-major order

// A tensor that holds the same numbers as the first of its kind, as it is or turned around.
struct Copy {
  ValueId value;
  bool transposed = false;
};

// Weights that get the same zeros.
struct Alike {
  Tensor tensor;  // of the first
  std::vector<Copy> copies;
  std::int64_t reduced_axis = 0;  // of the first
  std::string layer;              // the first that uses it
};

Dims without_ones(const Dims& dims) {
  Dims squeezed;
  std::copy_if(dims.begin(), dims.end(), std::back_inserter(squeezed),
               [](std::int64_t dim) { return dim != 1; });
  return squeezed;
}

std::string key_of(const Tensor& tensor) {
  const Dims dims = without_ones(tensor.dims());
  return fmt::format("{} {} {}", numeric::to_string(tensor.type()),
                     graph::to_string(std::span<const std::int64_t>(dims)), to_hex(sha256(tensor.bytes())));
}

// As a matrix turned around; nothing for tensors that are no matrix.
std::optional<Tensor> turned(const Tensor& tensor) {
  const Dims dims = without_ones(tensor.dims());
  if (dims.size() != 2) {
    return std::nullopt;
  }
  return pass::transpose_tensor(tensor.reshaped(dims), std::array<std::int64_t, 2>{1, 0});
}

class Sparsifier {
 public:
  Sparsifier(const graph::Model& model, const SparsifyOptions& options) : options_(options) {
    result_.model = model;
  }

  Sparsified run() {
    require_ranges();
    collect();
    std::vector<Mask> masks = choose();
    for (std::size_t i = 0; i < alike_.size(); ++i) {
      for (const Copy& copy : alike_[i].copies) {
        write(copy, alike_[i].tensor, masks[i]);
      }
      result_.weights += static_cast<std::int64_t>(masks[i].size());
      result_.zeros_before += zeros(alike_[i].tensor);
      result_.zeros_after += zeros(graph().constant(alike_[i].copies.front().value).value());
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      result_.layers[i].zeros_after = zeros(graph().constant(layers_[i].weight).value());
    }
    return std::move(result_);
  }

 private:
  graph::Graph& graph() { return result_.model.graph; }

  void require_ranges() const {
    if (options_.pattern == SparsifyOptions::Pattern::kNOfM) {
      if (options_.m < 1 || options_.n < 0 || options_.n > options_.m) {
        throw Error(
            ErrorCode::kInvalidArgument,
            fmt::format("{} of {} cannot be kept, expected 0 <= n <= m and m >= 1", options_.n, options_.m));
      }
    } else if (!(options_.sparsity >= 0.0 && options_.sparsity <= 1.0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the sparsity is {}, expected 0 to 1", options_.sparsity));
    }
  }

  void collect() {
    std::vector<std::string> names;
    std::map<std::string, std::size_t> known;
    std::map<ValueId, std::size_t> by_value;
    for (const Layer& layer : find_layers(graph())) {
      if (!layer.weight.valid()) {
        continue;
      }
      const Tensor tensor = graph().constant(layer.weight).value();
      names.push_back(layer.name);
      layers_.push_back(layer);
      result_.layers.push_back(
          {layer.name, layer.op_type, tensor.size(), zeros(tensor), 0, skip_reason(layer, tensor)});
      if (!result_.layers.back().skipped.empty() || by_value.contains(layer.weight)) {
        continue;
      }
      require_numbers(layer, tensor);
      add(layer, tensor, known, by_value);
    }
    for (const std::string& name : options_.ignore) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        throw Error(ErrorCode::kNotFound, unknown_name("layer", name, names));
      }
    }
  }

  void add(const Layer& layer, const Tensor& tensor, std::map<std::string, std::size_t>& known,
           std::map<ValueId, std::size_t>& by_value) {
    const std::string key = key_of(tensor);
    std::optional<std::size_t> found;
    bool transposed = false;
    if (const auto same = known.find(key); same != known.end()) {
      found = same->second;
    } else if (const auto matrix = turned(tensor)) {
      if (const auto other = known.find(key_of(*matrix)); other != known.end()) {
        found = other->second;
        transposed = true;
      }
    }
    if (!found) {
      found = alike_.size();
      known.emplace(key, *found);
      alike_.push_back({tensor, {}, layer.reduced_axis, layer.name});
    }
    by_value.emplace(layer.weight, *found);
    alike_[*found].copies.push_back({layer.weight, transposed});
  }

  std::string skip_reason(const Layer& layer, const Tensor& tensor) const {
    if (std::find(options_.ignore.begin(), options_.ignore.end(), layer.name) != options_.ignore.end()) {
      return "to be ignored, as asked";
    }
    const std::int64_t reduced = tensor.dims().at(static_cast<std::size_t>(layer.reduced_axis));
    if (options_.pattern == SparsifyOptions::Pattern::kNOfM && reduced % options_.m != 0) {
      return fmt::format("sums over {} numbers, no multiple of {}", reduced, options_.m);
    }
    return {};
  }

  static void require_numbers(const Layer& layer, const Tensor& tensor) {
    const std::vector<double> numbers = to_doubles(tensor);
    if (std::any_of(numbers.begin(), numbers.end(), [](double number) { return std::isnan(number); })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a weight of layer '{}' is NaN and has no magnitude", layer.name));
    }
  }

  static std::int64_t zeros(const Tensor& tensor) {
    const std::vector<double> numbers = to_doubles(tensor);
    return std::count(numbers.begin(), numbers.end(), 0.0);
  }

  static std::vector<double> magnitudes(const Tensor& tensor) {
    std::vector<double> numbers = to_doubles(tensor);
    std::for_each(numbers.begin(), numbers.end(), [](double& number) { number = std::abs(number); });
    return numbers;
  }

  // The masks of several tensors ranked together: the `wanted` smallest magnitudes, the earlier first among
  // equals.
  std::vector<Mask> smallest(std::span<const Alike> tensors) const {
    std::vector<double> all;
    std::vector<std::size_t> sizes;
    for (const Alike& alike : tensors) {
      const std::vector<double> some = magnitudes(alike.tensor);
      all.insert(all.end(), some.begin(), some.end());
      sizes.push_back(some.size());
    }
    const auto wanted =
        static_cast<std::size_t>(std::floor(options_.sparsity * static_cast<double>(all.size()) + 0.5));
    std::vector<Mask> masks;
    double threshold = -1.0;
    std::size_t equal = 0;  // how many of those at the threshold go
    if (wanted > 0) {
      std::vector<double> order = all;
      std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(wanted) - 1, order.end());
      threshold = order[wanted - 1];
      equal = wanted - static_cast<std::size_t>(std::count_if(all.begin(), all.end(),
                                                              [&](double one) { return one < threshold; }));
    }
    std::size_t at = 0;
    for (const std::size_t size : sizes) {
      Mask mask(size);
      for (std::size_t i = 0; i < size; ++i, ++at) {
        const bool tied = all[at] == threshold && equal > 0;
        equal -= tied ? 1 : 0;
        mask[i] = all[at] < threshold || tied;
      }
      masks.push_back(std::move(mask));
    }
    return masks;
  }

  // Of every m neighbours along the reduced axis the n largest stay, the earlier among equals.
  Mask n_of_m(const Alike& alike) const {
    const std::vector<double> all = magnitudes(alike.tensor);
    const Dims& dims = alike.tensor.dims();
    const auto axis = static_cast<std::size_t>(alike.reduced_axis);
    const auto stride = static_cast<std::size_t>(std::accumulate(
        dims.begin() + alike.reduced_axis + 1, dims.end(), std::int64_t{1}, std::multiplies<>()));
    const auto length = static_cast<std::size_t>(dims[axis]);
    const auto m = static_cast<std::size_t>(options_.m);
    Mask mask(all.size());
    std::vector<std::size_t> block(m);
    for (std::size_t first = 0; first < all.size(); ++first) {
      if (first / stride % length % m != 0) {
        continue;
      }
      for (std::size_t k = 0; k < m; ++k) {
        block[k] = first + k * stride;
      }
      std::stable_sort(block.begin(), block.end(),
                       [&](std::size_t a, std::size_t b) { return all[a] > all[b]; });
      for (std::size_t k = static_cast<std::size_t>(options_.n); k < m; ++k) {
        mask[block[k]] = true;
      }
    }
    return mask;
  }

  std::vector<Mask> choose() const {
    if (options_.pattern == SparsifyOptions::Pattern::kGlobal) {
      return smallest(alike_);
    }
    std::vector<Mask> masks;
    for (const Alike& alike : alike_) {
      masks.push_back(options_.pattern == SparsifyOptions::Pattern::kNOfM
                          ? n_of_m(alike)
                          : smallest(std::span<const Alike>(&alike, 1)).front());
    }
    return masks;
  }

  void write(const Copy& copy, const Tensor& first, const Mask& mask) {
    const Tensor old = graph().constant(copy.value).value();
    Tensor::Writable made = Tensor::allocate(old.type(), old.dims());
    std::memcpy(made.bytes.data(), old.bytes().data(), old.bytes().size());
    const std::size_t element = old.bytes().size() / std::max<std::size_t>(mask.size(), 1);
    const Dims matrix = without_ones(first.dims());
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (!mask[i]) {
        continue;
      }
      std::size_t at = i;
      if (copy.transposed) {
        const auto columns = static_cast<std::size_t>(matrix[1]);
        at = i % columns * static_cast<std::size_t>(matrix[0]) + i / columns;
      }
      std::memset(made.bytes.data() + at * element, 0, element);  // the zero of every float type
    }
    const graph::NodeId maker = graph().producer(copy.value);
    if (maker.valid()) {
      graph().set_attribute(maker, "value", std::move(made.tensor));  // a Constant node
    } else {
      graph().set_constant(copy.value, std::move(made.tensor));
    }
  }

  const SparsifyOptions& options_;
  Sparsified result_;
  std::vector<Layer> layers_;
  std::vector<Alike> alike_;
};

}  // namespace

Sparsified sparsify(const graph::Model& model, const SparsifyOptions& options) {
  return Sparsifier(model, options).run();
}

}  // namespace tempera::compress
