#include "tempera/pass/runner.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/infer.h"
#include "tempera/pass/origins.h"

namespace tempera::pass {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void check_names(const std::vector<std::string>& names, std::span<const Step> steps) {
  std::vector<std::string> known;
  std::transform(steps.begin(), steps.end(), std::back_inserter(known),
                 [](const Step& step) { return std::string(step.pass.name); });
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(ErrorCode::kInvalidArgument, unknown_name("pass", name, known));
    }
  }
}

void append(PassResult& all, PassResult one) {
  std::move(one.rewrites.begin(), one.rewrites.end(), std::back_inserter(all.rewrites));
  std::move(one.skipped.begin(), one.skipped.end(), std::back_inserter(all.skipped));
}

PassResult run_everywhere(const Pass& pass, graph::Graph& graph, const PassContext& context) {
  PassResult all;
  try {
    graph::for_each_graph(graph, [&](graph::Graph& one) { append(all, pass.run(one, context)); });
    if (!all.rewrites.empty()) {
      graph.remove_dead();  // a body that reads less may leave outer values unread
      graph.sort();
      graph::for_each_graph(graph, derive_origins);
      graph::verify(graph);
    }
  } catch (Error& error) {
    error.in(fmt::format("pass {}", pass.name));
    throw;
  }
  return all;
}

}  // namespace

std::size_t RunReport::rewrites() const {
  std::size_t count = 0;
  for (const PassReport& pass : passes) {
    count += pass.rewrites.size();
  }
  return count;
}

RunReport run_passes(graph::Model& model, const RunOptions& options, std::span<const Step> steps) {
  check_names(options.skip, steps);
  const Clock::time_point start = Clock::now();
  RunReport report;
  std::vector<const Step*> wanted;
  for (const Step& step : steps) {
    if (std::find(options.skip.begin(), options.skip.end(), step.pass.name) == options.skip.end()) {
      wanted.push_back(&step);
      report.passes.push_back({std::string(step.pass.name), {}, {}, 0.0});
    }
  }
  PassContext context = options.context;
  context.opset = model.opset();
  const auto infer = [&] {
    const Clock::time_point began = Clock::now();
    onnx::infer_types(model, report.rounds == 0 ? options.input_shapes : std::map<std::string, graph::Dims>{});
    report.infer_ms += ms_since(began);
  };

  infer();
  bool late = false;
  while (!report.converged && report.rounds < options.max_rounds) {
    ++report.rounds;
    bool changed = false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]->late && !late) {
        continue;
      }
      const Clock::time_point began = Clock::now();
      PassResult result = run_everywhere(wanted[i]->pass, model.graph, context);
      PassReport& into = report.passes[i];
      into.time_ms += ms_since(began);
      into.skipped = std::move(result.skipped);
      if (!result.rewrites.empty()) {
        changed = true;
        std::move(result.rewrites.begin(), result.rewrites.end(), std::back_inserter(into.rewrites));
        if (options.after_pass) {
          options.after_pass(wanted[i]->pass.name, model);
        }
      }
    }
    const bool all_ran = late || std::none_of(wanted.begin(), wanted.end(), [](const Step* step) { return step->late; });
    report.converged = !changed && all_ran;
    late = late || !changed;
    if (changed) {
      infer();
    }
  }
  report.total_ms = ms_since(start);
  return report;
}

}  // namespace tempera::pass
