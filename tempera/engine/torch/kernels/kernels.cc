#include "tempera/engine/torch/kernels/kernels.h"

#include <map>
#include <utility>

#include "tempera/base/error.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

using Family = std::span<const Kernel> (*)();

/// To add a family: its file, a line in families.h, a line here.
constexpr Family kFamilies[] = {
    activation_kernels,
    attention_kernels,
    binary_kernels,
    cast_kernels,
    constant_kernels,
    control_kernels,
    convolution_kernels,
    index_kernels,
    layout_kernels,
    matmul_kernels,
    normalization_kernels,
    order_kernels,
    pooling_kernels,
    quantize_kernels,
    random_kernels,
    recurrent_kernels,
    reduce_kernels,
    region_kernels,
    resize_kernels,
    sampling_kernels,
    sequence_kernels,
    shape_kernels,
    signal_kernels,
    softmax_kernels,
    strings_kernels,
    unary_kernels,
};

using Table = std::map<std::pair<std::string_view, std::string_view>, const Kernel*>;

Table make_table() {
  Table table;
  for (const Family family : kFamilies) {
    for (const Kernel& kernel : family()) {
      const bool fresh = table.emplace(std::pair(kernel.domain, kernel.op_type), &kernel).second;
      TEMPERA_CHECK(fresh, std::string("two kernels for ") + std::string(kernel.op_type));
    }
  }
  return table;
}

}  // namespace

const Kernel* find_kernel(std::string_view domain, std::string_view op_type) {
  static const Table table = make_table();
  const auto found = table.find(std::pair(domain == "ai.onnx" ? std::string_view() : domain, op_type));
  return found == table.end() ? nullptr : found->second;
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> all;
  for (const Family family : kFamilies) {
    const std::span<const Kernel> kernels = family();
    all.insert(all.end(), kernels.begin(), kernels.end());
  }
  return all;
}

}  // namespace tempera::engine::aten
