#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"

namespace tempera::cli {
namespace {

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      words += "--" + name + " ";
    }
  }
  return words;
}

// Those that the help shows.
std::vector<const CLI::App*> shown_commands(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
}

std::string bash(const CLI::App& root) {
  std::string names;
  std::string cases;
  for (const CLI::App* sub : shown_commands(root)) {
    names += sub->get_name() + " ";
    cases += fmt::format("    {}) words=\"{}\" ;;\n", sub->get_name(), words_of(*sub));
  }
  return fmt::format(
      "_tempera() {{\n  local cur=${{COMP_WORDS[COMP_CWORD]}} words=\"{}--help --version\"\n  case "
      "\"${{COMP_WORDS[1]}}\" in\n{}  esac\n"
      "  if [[ $COMP_CWORD -eq 1 || $cur == -* ]]; then\n    [[ $COMP_CWORD -eq 1 ]] && words=\"{}--help "
      "--version\"\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n  else\n    COMPREPLY=($(compgen -f -- "
      "\"$cur\"))\n  fi\n}}\n"
      "complete -o filenames -F _tempera tempera\n",
      names, cases, names);
}

std::string zsh(const CLI::App& root) {
  return "#compdef tempera\nautoload -U +X bashcompinit && bashcompinit\n" + bash(root);
}

std::string fish(const CLI::App& root) {
  std::string out = "complete -c tempera -n __fish_use_subcommand -l help -l version\n";
  for (const CLI::App* sub : shown_commands(root)) {
    out += fmt::format("complete -c tempera -n __fish_use_subcommand -f -a {} -d '{}'\n", sub->get_name(),
                       sub->get_description());
    for (const CLI::Option* option : sub->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        out += fmt::format("complete -c tempera -n '__fish_seen_subcommand_from {}' -l {}\n", sub->get_name(),
                           name);
      }
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  app.add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.footer("Example: tempera completion bash > ~/.local/share/bash-completion/completions/tempera");
  app.callback([shell, &app] {
    const CLI::App& root = *app.get_parent();
    const std::string script = *shell == "bash" ? bash(root) : *shell == "zsh" ? zsh(root) : fish(root);
    std::fputs(script.c_str(), stdout);
  });
}

}  // namespace tempera::cli
