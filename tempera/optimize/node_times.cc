#include "tempera/optimize/node_times.h"

#include <algorithm>

namespace tempera::optimize {
namespace {

double total_us(const std::vector<engine::NodeTime>& times) {
  double sum = 0.0;
  for (const engine::NodeTime& time : times) {
    sum += time.time_us;
  }
  return sum;
}

}  // namespace

std::vector<engine::NodeTime> node_times(const engine::Engine& engine, const Subject& subject,
                                         const Candidate& candidate) {
  engine::CompileOptions options = candidate.options;
  options.profile = true;
  const auto session = engine.compile(*candidate.model, options);
  const auto inputs = input_sets(subject, load_samples(subject, subject.split.search, 1), *session).at(0);
  constexpr int kRuns = 5;
  std::vector<std::vector<engine::NodeTime>> runs;
  for (int i = 0; i < kRuns; ++i) {
    (void)session->run(inputs);
    runs.push_back(session->profile());
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return total_us(a) < total_us(b); });
  return runs[kRuns / 2];
}

}  // namespace tempera::optimize
