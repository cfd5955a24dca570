#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/probe.h"
#include "tempera/cli/versions.h"

namespace tempera::cli {
namespace {

constexpr Command kCommands[] = {
    {"optimize", "make a model faster and prove it: the main job", add_optimize},
    {"quantize", "store weights in 8 to 1 bits, and measure what that costs", add_quantize},
    {"prune", "remove channels or set weights to zero, and measure what that cost", add_prune},
    {"run", "run a model on files and write its outputs", add_run},
    {"sensitivity", "show which layers cost how much in which number format", add_sensitivity},
    {"inspect", "operators, parameters, FLOPs, shapes, and what each engine supports", add_inspect},
    {"calibrate", "ranges of activations over data, for quantising", add_calibrate},
    {"compare", "same inputs through two models or engines: where do they differ", add_compare},
    {"bench", "latency, throughput, memory and load time, against the machine's ceilings", add_bench},
    {"doctor", "what is installed and what this CPU can do", add_doctor},
    {"completion", "print a completion script for bash, zsh or fish", add_completion},
};

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    names.emplace_back(command.name);
  }
  return names;
}

// CLI11's own text says what is wrong; unknown words get the nearest names too.
Error usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* active = &app;
  for (const CLI::App* sub : app.get_subcommands()) {
    active = sub;
  }
  const std::string help =
      active == &app ? "tempera --help" : fmt::format("tempera {} --help", active->get_name());
  // Words that nothing took; an unknown option comes with its value, whose own fault it is not.
  const std::vector<std::string> extras = app.remaining(true);
  const auto option =
      std::find_if(extras.begin(), extras.end(), [](const std::string& word) { return word.rfind('-', 0) == 0; });
  if (option != extras.end()) {
    return {ErrorCode::kInvalidArgument,
            unknown_name("option", option->substr(0, option->find('=')), option_names(*active)), help};
  }
  if (!extras.empty() && active == &app) {
    return {ErrorCode::kInvalidArgument, unknown_name("command", extras.front(), command_names()), help};
  }
  if (!extras.empty()) {
    return {ErrorCode::kInvalidArgument, fmt::format("unexpected argument '{}'", extras.front()), help};
  }
  std::string message = error.what();
  message = message.substr(0, message.find('\n'));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && active == &app) {
    message = "a command is missing";
  }
  return {ErrorCode::kInvalidArgument, message, help};
}

int report(const Error& error) {
  std::fputs(error.text().c_str(), stderr);
  return exit_code(error.code());
}

// What was printed may still be in a buffer, and the disk behind it full.
int after_flushing(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || errno == EPIPE || code != 0) {  // who reads no further, as `| head`, knows
    return code;
  }
  return report({ErrorCode::kIo, fmt::format("cannot write to standard output{}", errno != 0 ? std::string(": ") + std::strerror(errno) : ""),
                 "check that what it is redirected to has room"});
}

std::string& typed() {
  static std::string command;
  return command;
}

// "tempera" and the arguments; words with anything a shell would change in single quotes.
std::string shell_command(std::span<const char* const> arguments) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  std::string command = "tempera";
  for (const std::string_view word : arguments.subspan(std::min<std::size_t>(1, arguments.size()))) {
    command += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
      command += word;
      continue;
    }
    command += '\'';
    for (const char c : word) {
      command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    command += '\'';
  }
  return command;
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

const std::string& typed_command() { return typed(); }

namespace {

int run_command(int argc, const char* const* argv) {
  typed() = shell_command({argv, static_cast<std::size_t>(argc)});
  CLI::App app(
      "Tempera makes trained models small and fast, proves what that cost in quality, and runs them.",
      "tempera");
  app.set_version_flag(
      "--version", [] { return version_text(); }, "print versions and exit");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error&) { return std::string(); });
  app.footer("Each command explains itself: tempera COMMAND --help");
  for (const Command& command : kCommands) {
    command.add(*app.add_subcommand(std::string(command.name), std::string(command.summary)));
  }
  add_probe(*app.add_subcommand("probe", ""));
  // Not in the help: `tempera --parse-only COMMAND ...` checks the command line and runs nothing, for the test of the
  // commands in the documents.
  const bool parse_only = argc > 1 && std::string_view(argv[1]) == "--parse-only";
  if (parse_only) {
    app.parse_complete_callback([] { throw CLI::Success(); });  // all is parsed and checked, no command has begun
  }
  try {
    app.parse(parse_only ? argc - 1 : argc, parse_only ? argv + 1 : argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      return app.exit(error);
    }
    return report(usage_error(app, error));
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report({ErrorCode::kOutOfMemory, "not enough memory", "use a smaller input, batch or --tile"});
  } catch (const std::filesystem::filesystem_error& error) {
    return report({ErrorCode::kIo, error.what(), "check that the path exists, may be read or written, and has room"});
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) {  // fmt throws where a write fails
      return errno == EPIPE ? 0 : after_flushing(0);
    }
    return report({ErrorCode::kInternal, error.what(),
                   "this is a fault of tempera: please report it with the command"});
  }
}

}  // namespace

int run(int argc, const char* const* argv) { return after_flushing(run_command(argc, argv)); }

}  // namespace tempera::cli
