#include "tempera/cli/probe.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <spawn.h>

#include "tempera/base/error.h"
#include "tempera/cli/shapes.h"
#include "tempera/engine/engines.h"
#include "tempera/engine/measure/memory.h"
#include "tempera/onnx/read.h"

extern char** environ;

namespace tempera::cli {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct ProbeArguments {
  std::string model;
  std::string engine = "openvino";
  std::string device = "cpu";
  std::string precision = "f32";
  int threads = 0;
  std::vector<std::string> shapes;  // "name=1,3,128,128"
};

void run_probe(const ProbeArguments& arguments) {
  engine::CompileOptions options;
  options.device = arguments.device;
  options.threads = arguments.threads;
  options.precision =
      engine::precision_from_string(arguments.precision).value_or(engine::Precision::kFloat32);
  options.input_shapes = parse_shapes(arguments.shapes);
  const auto engine = engine::make_engine(arguments.engine);
  nlohmann::json result;
  result["baseline_bytes"] = engine::resident_memory().now_bytes;
  Clock::time_point start = Clock::now();
  const graph::Model model = onnx::read_model(arguments.model);
  result["read_ms"] = ms_since(start);
  start = Clock::now();
  const auto session = engine->compile(model, options);
  result["compile_ms"] = ms_since(start);
  std::vector<graph::Tensor> inputs;
  for (const engine::Port& port : session->inputs()) {
    graph::Dims dims;
    for (const graph::Dim& dim : port.type.shape.value_or(graph::Shape{})) {
      dims.push_back(dim.fixed() ? dim.value : 1);
    }
    inputs.push_back(graph::Tensor::allocate(port.type.element, dims).tensor);
  }
  start = Clock::now();
  (void)session->run(inputs);
  result["first_run_ms"] = ms_since(start);
  const engine::ResidentMemory memory = engine::resident_memory();
  result["peak_bytes"] = memory.peak_bytes;
  result["loaded_bytes"] = memory.now_bytes;
  std::puts(result.dump().c_str());
}

// Runs this program with the arguments; returns what it wrote, and throws what it complained of.
std::string run_self(const std::vector<std::string>& arguments) {
  int pipe_ends[2];
  if (::pipe(pipe_ends) != 0) {
    throw Error(ErrorCode::kEngineFailed, "cannot start a process to measure memory");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[1]);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_ends[1]);
  std::string text;
  if (failed == 0) {
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(pipe_ends[0], buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<std::size_t>(got));
    }
  }
  ::close(pipe_ends[0]);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0) {
    throw Error(ErrorCode::kEngineFailed, "the process that measures memory failed: " + text.substr(0, 400));
  }
  return text;
}

}  // namespace

Probe probe(const std::filesystem::path& model, const std::string& engine,
            const engine::CompileOptions& options) {
  std::vector<std::string> arguments = {"tempera",
                                        "probe",
                                        model.string(),
                                        "--engine",
                                        engine,
                                        "--device",
                                        options.device,
                                        "--precision",
                                        std::string(engine::to_string(options.precision)),
                                        "--threads",
                                        std::to_string(options.threads)};
  for (const auto& [name, dims] : options.input_shapes) {
    arguments.insert(arguments.end(), {"--shape", fmt::format("{}={}", name, fmt::join(dims, ","))});
  }
  const auto json = nlohmann::json::parse(run_self(arguments), nullptr, false);
  if (json.is_discarded()) {
    throw Error(ErrorCode::kEngineFailed, "the process that measures memory gave no answer");
  }
  return {json.at("peak_bytes"), json.at("baseline_bytes"), json.at("loaded_bytes"), json.at("read_ms"), json.at("compile_ms"),
          json.at("first_run_ms")};
}

void add_probe(CLI::App& app) {
  const auto arguments = std::make_shared<ProbeArguments>();
  app.group("");  // not in the help: an implementation detail of optimize and bench
  app.add_option("model", arguments->model)->required();
  app.add_option("--engine", arguments->engine);
  app.add_option("--device", arguments->device);
  app.add_option("--precision", arguments->precision);
  app.add_option("--threads", arguments->threads);
  app.add_option("--shape", arguments->shapes)->take_all();
  app.callback([arguments] { run_probe(*arguments); });
}

}  // namespace tempera::cli
