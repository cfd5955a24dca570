#include "tempera/graph/elements.h"

#include "tempera/numeric/convert.h"

namespace tempera::graph {

Dims index_of(std::int64_t position, const Dims& dims) {
  Dims index(dims.size());
  for (std::size_t i = dims.size(); i > 0; --i) {
    index[i - 1] = position % dims[i - 1];
    position /= dims[i - 1];
  }
  return index;
}

void decode_elements(const Tensor& tensor, std::int64_t begin, std::span<double> values) {
  const std::size_t offset = numeric::bytes_of(tensor.type(), begin);
  numeric::decode(tensor.type(), tensor.bytes().subspan(offset), values);
}

}  // namespace tempera::graph
