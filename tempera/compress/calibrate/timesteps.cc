#include "tempera/compress/calibrate/timesteps.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"
#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/data/prefetch.h"

namespace tempera::compress {

std::vector<std::size_t> places_by_timestep(const data::Dataset& dataset, const graph::Graph& graph,
                                            const std::vector<std::size_t>& samples, const std::string& input,
                                            const Host& host) {
  const std::vector<std::string> names = data::required_inputs(graph);
  const auto found = std::find(names.begin(), names.end(), input);
  if (found == names.end()) {
    throw Error(ErrorCode::kNotFound, unknown_name("timestep input", input, names));
  }
  const auto index = static_cast<std::size_t>(found - names.begin());
  std::vector<double> times;
  data::Prefetcher prefetcher(dataset, samples, data::default_workers(), host.cancel);
  host.progress.begin("reading timesteps", static_cast<std::int64_t>(samples.size()));
  while (const std::optional<data::Sample> sample = prefetcher.next()) {
    const std::vector<double> values = graph::to_doubles(sample->inputs.at(index));
    if (values.empty()) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("the timestep input '{}' is empty", input))
          .in(fmt::format("sample '{}'", sample->name));
    }
    times.push_back(values.front());
    host.progress.advance();
  }
  host.progress.end();
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  return order;
}

std::vector<std::size_t> stratified_samples(const data::Dataset& dataset, const graph::Graph& graph,
                                            const std::vector<std::size_t>& samples,
                                            const std::string& timestep_input, std::size_t count,
                                            std::uint64_t seed, const Host& host) {
  if (samples.size() <= count) {
    return samples;
  }
  const std::vector<std::size_t> order = places_by_timestep(dataset, graph, samples, timestep_input, host);
  const CounterRng random(seed);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * order.size() / count;
    const std::size_t end = (i + 1) * order.size() / count;
    places.push_back(order[begin + random.below(i, end - begin)]);
  }
  std::sort(places.begin(), places.end());
  std::vector<std::size_t> taken;
  for (const std::size_t place : places) {
    taken.push_back(samples[place]);
  }
  return taken;
}

}  // namespace tempera::compress
