#include "tempera/compress/quantize/weight_view.h"

#include <algorithm>

namespace tempera::compress {

using graph::Dims;

namespace {

std::size_t index(std::int64_t axis) { return static_cast<std::size_t>(axis); }

// Calls visit(own, permuted) for each element: its row-major index in the weight's dimensions and in permuted ones.
template <typename Visit>
void for_each_element(const WeightView& view, Visit visit) {
  const std::size_t rank = view.dims.size();
  std::vector<std::int64_t> stride(rank, 1);  // of the weight's own axes
  for (std::size_t i = rank; i-- > 1;) {
    stride[i - 1] = stride[i] * view.dims[i];
  }
  const Dims dims = view.permuted_dims();
  Dims at(rank, 0);
  std::int64_t own = 0;
  const std::int64_t count = view.rows * view.columns;
  for (std::int64_t permuted = 0; permuted < count; ++permuted) {
    visit(static_cast<std::size_t>(own), static_cast<std::size_t>(permuted));
    for (std::size_t i = rank; i-- > 0;) {
      const std::int64_t step = stride[index(view.perm[i])];
      own += step;
      if (++at[i] < dims[i]) {
        break;
      }
      own -= step * dims[i];
      at[i] = 0;
    }
  }
}

template <typename T>
std::vector<T> back(const WeightView& view, const std::vector<T>& matrix) {
  if (view.is_plain()) {
    return matrix;
  }
  std::vector<T> values(matrix.size());
  for_each_element(view, [&](std::size_t own, std::size_t permuted) { values[own] = matrix[permuted]; });
  return values;
}

}  // namespace

bool WeightView::is_plain() const { return std::is_sorted(perm.begin(), perm.end()); }

Dims WeightView::permuted_dims() const {
  Dims result;
  for (const std::int64_t axis : perm) {
    result.push_back(dims[index(axis)]);
  }
  return result;
}

std::vector<std::int64_t> WeightView::inverse() const {
  std::vector<std::int64_t> result(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    result[index(perm[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

WeightView view_of(const Layer& layer, const Dims& dims) {
  WeightView view;
  view.dims = dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const bool convolution = layer.op_type == "Conv" || layer.op_type == "ConvTranspose";
  // Depthwise, transposed: M/g is 1, and each of the C channels has an output of its own.
  const bool depthwise = layer.op_type == "ConvTranspose" && layer.group > 1 && dims[index(layer.channel_axis)] == 1;
  const std::int64_t channel = depthwise ? layer.reduced_axis : layer.channel_axis;
  const auto is_column = [&](std::int64_t axis) {
    if (convolution) {
      return axis != channel;
    }
    // Of a batch of matrices each has rows of its own; a batch of one is no axis.
    return axis == layer.reduced_axis || (axis != channel && dims[index(axis)] == 1);
  };
  for (const bool column : {false, true}) {
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      if (is_column(axis) == column) {
        view.perm.push_back(axis);
        (column ? view.columns : view.rows) *= dims[index(axis)];
      }
    }
    if (!column) {
      view.row_axes = view.perm.size();
    }
  }
  return view;
}

std::vector<float> to_rows(const WeightView& view, const std::vector<float>& values) {
  if (view.is_plain()) {
    return values;
  }
  std::vector<float> matrix(values.size());
  for_each_element(view, [&](std::size_t own, std::size_t permuted) { matrix[permuted] = values[own]; });
  return matrix;
}

std::vector<float> from_rows(const WeightView& view, const std::vector<float>& matrix) { return back(view, matrix); }
std::vector<std::uint8_t> from_rows(const WeightView& view, const std::vector<std::uint8_t>& matrix) {
  return back(view, matrix);
}

Dims position(const WeightView& view, std::int64_t row, std::int64_t column) {
  Dims at(view.dims.size(), 0);
  const Dims dims = view.permuted_dims();
  std::int64_t rest = row * view.columns + column;
  for (std::size_t i = dims.size(); i-- > 0;) {
    at[index(view.perm[i])] = rest % dims[i];
    rest /= dims[i];
  }
  return at;
}

}  // namespace tempera::compress
