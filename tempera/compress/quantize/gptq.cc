#include "tempera/compress/quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::compress {
namespace {

constexpr double kDamping = 0.01;  // of the mean diagonal, as in the paper's section 3.3

std::size_t at(std::int64_t row, std::int64_t column, std::int64_t size) {
  return static_cast<std::size_t>(row * size + column);
}

// Four sums side by side: without leave to reorder additions, one sum waits for itself.
double dot(const double* a, const double* b, std::int64_t count) {
  double s0 = 0.0;
  double s1 = 0.0;
  double s2 = 0.0;
  double s3 = 0.0;
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    s0 += a[i] * b[i];
    s1 += a[i + 1] * b[i + 1];
    s2 += a[i + 2] * b[i + 2];
    s3 += a[i + 3] * b[i + 3];
  }
  for (; i < count; ++i) {
    s0 += a[i] * b[i];
  }
  return (s0 + s1) + (s2 + s3);
}

// Lower triangular L with A = L L^T, in place (the upper triangle is left as it is). A row of L is made from rows above it,
// kTile rows at a time, so that each row read serves them all.
void cholesky(std::vector<double>& a, std::int64_t size) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t first = 0; first < size; first += kTile) {
    const std::int64_t last = std::min(first + kTile, size);
    for (std::int64_t j = 0; j < last; ++j) {
      const double* row_j = &a[at(j, 0, size)];
      for (std::int64_t i = std::max(first, j); i < last; ++i) {
        double* row_i = &a[at(i, 0, size)];
        const double rest = row_i[j] - dot(row_i, row_j, j);
        if (i > j) {
          row_i[j] = rest / row_j[j];
        } else {
          TEMPERA_CHECK(rest > 0.0, fmt::format("second moments are not positive: pivot {} is {}", j, rest));
          row_i[j] = std::sqrt(rest);
        }
      }
    }
  }
}

// One block of columns, for the rows of one group.
class Block {
 public:
  // R is stored transposed: row j holds R_ij, i <= j.
  Block(std::vector<double> moments, std::int64_t size) : size_(size), order_(static_cast<std::size_t>(size)) {
    double mean = 0.0;
    for (std::int64_t i = 0; i < size; ++i) {
      mean += moments[at(i, i, size)] / static_cast<double>(size);
    }
    for (std::int64_t i = 0; i < size; ++i) {
      double& diagonal = moments[at(i, i, size)];
      diagonal = diagonal > 0.0 ? diagonal + kDamping * mean : 1.0;
    }
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
      return moments[at(a, a, size)] > moments[at(b, b, size)];
    });
    // With the columns turned round, H = L L^T; turned back, L is R.
    std::vector<double> turned(moments.size());
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        turned[at(i, j, size)] = moments[at(column(size - 1 - i), column(size - 1 - j), size)];
      }
    }
    cholesky(turned, size);
    factor_.resize(moments.size());
    for (std::int64_t j = 0; j < size; ++j) {
      for (std::int64_t i = 0; i <= j; ++i) {
        factor_[at(j, i, size)] = turned[at(size - 1 - i, size - 1 - j, size)];
      }
    }
  }

  // \param row  [size] weights of one row, replaced
  template <typename Nearest>
  void round(float* row, Nearest nearest) const {
    std::vector<double> error(static_cast<std::size_t>(size_));
    for (std::int64_t j = 0; j < size_; ++j) {
      const double* factors = &factor_[at(j, 0, size_)];
      const double pushed = dot(error.data(), factors, j) / factors[j];
      const double wanted = row[column(j)];
      const float level = nearest(column(j), static_cast<float>(wanted + pushed));
      error[static_cast<std::size_t>(j)] = wanted - static_cast<double>(level);
      row[column(j)] = level;
    }
  }

 private:
  [[nodiscard]] std::int64_t column(std::int64_t j) const { return order_[static_cast<std::size_t>(j)]; }

  std::int64_t size_;
  std::vector<std::int64_t> order_;  // columns in processing order
  std::vector<double> factor_;
};

}  // namespace

std::int64_t Hessian::block_count() const { return (columns + kLargestHessian - 1) / kLargestHessian; }
std::int64_t Hessian::block_size(std::int64_t block) const {
  return std::min(kLargestHessian, columns - block * kLargestHessian);
}
const std::vector<double>& Hessian::block_of(std::int64_t group, std::int64_t block) const {
  return blocks[static_cast<std::size_t>(group * block_count() + block)];
}

Hessian make_hessian(std::int64_t columns, std::int64_t groups) {
  Hessian hessian;
  hessian.columns = columns;
  hessian.groups = groups;
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t block = 0; block < hessian.block_count(); ++block) {
      const auto size = static_cast<std::size_t>(hessian.block_size(block));
      hessian.blocks.emplace_back(size * size);
    }
  }
  return hessian;
}

void add_vectors(Hessian& hessian, std::int64_t group, std::span<const float> vectors) {
  constexpr std::int64_t kTogether = 4;  // so that each sum is read and written once for so many
  const std::int64_t columns = hessian.columns;
  const std::int64_t count = static_cast<std::int64_t>(vectors.size()) / std::max<std::int64_t>(columns, 1);
  const std::vector<float> zeros(static_cast<std::size_t>(columns));
  for (std::int64_t first = 0; first < count; first += kTogether) {
    const float* x[kTogether];
    for (std::int64_t k = 0; k < kTogether; ++k) {
      x[k] = first + k < count ? vectors.data() + (first + k) * columns : zeros.data();
    }
    for (std::int64_t block = 0; block < hessian.block_count(); ++block) {
      const std::int64_t size = hessian.block_size(block);
      const std::int64_t offset = block * kLargestHessian;
      std::vector<double>& sums = hessian.blocks[static_cast<std::size_t>(group * hessian.block_count() + block)];
      const float* const x0 = x[0] + offset;
      const float* const x1 = x[1] + offset;
      const float* const x2 = x[2] + offset;
      const float* const x3 = x[3] + offset;
      for (std::int64_t i = 0; i < size; ++i) {
        const double a0 = x0[i];
        const double a1 = x1[i];
        const double a2 = x2[i];
        const double a3 = x3[i];
        if (a0 == 0.0 && a1 == 0.0 && a2 == 0.0 && a3 == 0.0) {  // after a Relu many are
          continue;
        }
        double* const row = &sums[at(i, 0, size)];
        for (std::int64_t j = 0; j <= i; ++j) {
          row[j] += a0 * x0[j] + a1 * x1[j] + a2 * x2[j] + a3 * x3[j];
        }
      }
    }
  }
  hessian.samples += count;
}

void gptq_round(const Hessian& hessian, std::span<float> rows, std::int64_t count,
                const std::function<float(std::int64_t, std::int64_t, float)>& nearest) {
  const std::int64_t columns = hessian.columns;
  const std::int64_t rows_a_group = std::max<std::int64_t>(count / hessian.groups, 1);
  for (std::int64_t group = 0; group < hessian.groups; ++group) {
    for (std::int64_t block = 0; block < hessian.block_count(); ++block) {
      const std::int64_t size = hessian.block_size(block);
      std::vector<double> moments = hessian.block_of(group, block);
      for (std::int64_t i = 0; i < size; ++i) {  // only the lower triangle was summed
        for (std::int64_t j = 0; j < i; ++j) {
          moments[at(j, i, size)] = moments[at(i, j, size)];
        }
      }
      const Block factored(std::move(moments), size);
      const std::int64_t offset = block * kLargestHessian;
      for (std::int64_t row = group * rows_a_group; row < (group + 1) * rows_a_group; ++row) {
        factored.round(rows.data() + row * columns + offset,
                       [&](std::int64_t column, float value) { return nearest(row, offset + column, value); });
      }
    }
  }
}

}  // namespace tempera::compress
