#include "tempera/compress/quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tempera::compress {
namespace {

constexpr float kStep = 0.125F;

float to_grid(float value) { return kStep * std::nearbyint(value / kStep); }

struct Problem {
  std::int64_t columns;
  std::int64_t rows;
  std::vector<float> weights;
  std::vector<std::vector<float>> inputs;
  Hessian hessian;

  Problem(std::int64_t columns, std::int64_t rows, double correlation, std::uint32_t seed)
      : columns(columns), rows(rows), hessian(make_hessian(columns, 1)) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    weights.resize(static_cast<std::size_t>(rows * columns));
    std::generate(weights.begin(), weights.end(), [&] { return normal(generator); });
    for (int sample = 0; sample < 4 * static_cast<int>(columns); ++sample) {
      const float common = normal(generator);
      std::vector<float> x(static_cast<std::size_t>(columns));
      for (std::size_t i = 0; i < x.size(); ++i) {
        x[i] = (normal(generator) + static_cast<float>(correlation) * common) * (1.0F + 0.2F * static_cast<float>(i));
      }
      add_vectors(hessian, 0, x);
      inputs.push_back(x);
    }
  }

  // Mean squared change of the products.
  [[nodiscard]] double output_error(const std::vector<float>& rounded) const {
    double sum = 0.0;
    for (const std::vector<float>& x : inputs) {
      for (std::int64_t row = 0; row < rows; ++row) {
        double change = 0.0;
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto i = static_cast<std::size_t>(row * columns + c);
          change += static_cast<double>(weights[i] - rounded[i]) * x[static_cast<std::size_t>(c)];
        }
        sum += change * change;
      }
    }
    return sum / static_cast<double>(inputs.size());
  }

  [[nodiscard]] std::vector<float> by_gptq() const {
    std::vector<float> rounded = weights;
    gptq_round(hessian, rounded, rows, [](std::int64_t, std::int64_t, float value) { return to_grid(value); });
    return rounded;
  }
};

using Matrix = std::vector<std::vector<double>>;

Matrix inverse(Matrix a) {
  const std::size_t n = a.size();
  Matrix result(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    result[i][i] = 1.0;
  }
  for (std::size_t p = 0; p < n; ++p) {
    const double pivot = a[p][p];
    for (std::size_t j = 0; j < n; ++j) {
      a[p][j] /= pivot;
      result[p][j] /= pivot;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = i == p ? 0.0 : a[i][p];
      for (std::size_t j = 0; j < n; ++j) {
        a[i][j] -= factor * a[p][j];
        result[i][j] -= factor * result[p][j];
      }
    }
  }
  return result;
}

// arXiv:2210.17323, algorithm 1 as printed: the inverse, its upper Cholesky factor, errors pushed to later columns.
std::vector<float> by_the_paper(const Problem& problem) {
  const auto n = static_cast<std::size_t>(problem.columns);
  Matrix moments(n, std::vector<double>(n));
  for (const std::vector<float>& x : problem.inputs) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        moments[i][j] += static_cast<double>(x[i]) * x[j];
      }
    }
  }
  double mean = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    mean += moments[i][i] / static_cast<double>(n);
  }
  for (std::size_t i = 0; i < n; ++i) {
    moments[i][i] += 0.01 * mean;
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return moments[a][a] > moments[b][b]; });
  Matrix sorted(n, std::vector<double>(n));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      sorted[i][j] = moments[order[i]][order[j]];
    }
  }
  const Matrix inverted = inverse(sorted);
  Matrix upper(n, std::vector<double>(n));  // inverted = upper^T upper
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i; j < n; ++j) {
      double rest = inverted[i][j];
      for (std::size_t k = 0; k < i; ++k) {
        rest -= upper[k][i] * upper[k][j];
      }
      upper[i][j] = i == j ? std::sqrt(rest) : rest / upper[i][i];
    }
  }
  std::vector<float> rounded(problem.weights.size());
  for (std::size_t row = 0; row < static_cast<std::size_t>(problem.rows); ++row) {
    std::vector<double> w(n);
    for (std::size_t j = 0; j < n; ++j) {
      w[j] = problem.weights[row * n + order[j]];
    }
    for (std::size_t j = 0; j < n; ++j) {
      const float level = to_grid(static_cast<float>(w[j]));
      rounded[row * n + order[j]] = level;
      const double error = (w[j] - level) / upper[j][j];
      for (std::size_t k = j + 1; k < n; ++k) {
        w[k] -= error * upper[j][k];
      }
    }
  }
  return rounded;
}

TEST(Gptq, ChoosesTheLevelsOfThePublishedAlgorithm) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const Problem problem(17, 5, 1.5, seed);
    EXPECT_EQ(problem.by_gptq(), by_the_paper(problem)) << "seed " << seed;
  }
}

TEST(Gptq, ChangesProductsOfCorrelatedInputsLessThanRoundingDoes) {
  const Problem problem(64, 16, 2.0, 3);
  std::vector<float> nearest = problem.weights;
  std::transform(nearest.begin(), nearest.end(), nearest.begin(), to_grid);
  EXPECT_LT(problem.output_error(problem.by_gptq()), 0.6 * problem.output_error(nearest));
}

TEST(Gptq, IndependentInputsAreRoundedEachByItself) {
  Problem problem(9, 3, 0.0, 5);
  problem.hessian = make_hessian(9, 1);
  for (std::size_t i = 0; i < 9; ++i) {
    std::vector<float> x(9, 0.0F);
    x[i] = 1.0F + static_cast<float>(i);
    add_vectors(problem.hessian, 0, x);
  }
  std::vector<float> nearest = problem.weights;
  std::transform(nearest.begin(), nearest.end(), nearest.begin(), to_grid);
  EXPECT_EQ(problem.by_gptq(), nearest);
}

TEST(Gptq, AnInputThatIsAlwaysZeroDoesNoHarm) {
  Hessian hessian = make_hessian(3, 1);
  add_vectors(hessian, 0, std::vector<float>{1, 0, 2});
  add_vectors(hessian, 0, std::vector<float>{2, 0, -1});
  std::vector<float> row = {0.3F, 0.7F, -0.2F};
  gptq_round(hessian, row, 1, [](std::int64_t, std::int64_t, float value) { return to_grid(value); });
  EXPECT_EQ(row[1], 0.75F);
}

TEST(Gptq, GroupsHaveMomentsOfTheirOwn) {
  Hessian hessian = make_hessian(2, 2);
  add_vectors(hessian, 0, std::vector<float>{1, 1});   // equal inputs: errors may cancel
  add_vectors(hessian, 1, std::vector<float>{1, -1});  // opposite ones: they must agree
  std::vector<float> rows = {0.4F, 0.4F, 0.4F, 0.4F};
  gptq_round(hessian, rows, 2, [](std::int64_t, std::int64_t, float value) { return std::nearbyint(value); });
  EXPECT_EQ(rows[0] + rows[1], 1.0F);
  EXPECT_EQ(rows[2] - rows[3], 0.0F);
}

TEST(Hessian, LongRowsAreCutIntoBlocks) {
  const Hessian hessian = make_hessian(kLargestHessian + 5, 1);
  EXPECT_EQ(hessian.block_count(), 2);
  EXPECT_EQ(hessian.block_size(0), kLargestHessian);
  EXPECT_EQ(hessian.block_size(1), 5);
}

}  // namespace
}  // namespace tempera::compress
