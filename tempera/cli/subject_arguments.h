#pragma once

#include <string>
#include <vector>

#include "tempera/cli/shared_options.h"
#include "tempera/optimize/subject.h"

namespace tempera::cli {

/// What every command takes that works on a model with data.
struct SubjectArguments {
  std::string model;
  std::vector<std::string> data;
  std::string recipe;
  int workers = 0;
  bool judges = false;  ///< by the recipe's metrics: set by add_allow_command()
  bool allow_command = false;
};

/// Declares the model, --data, --recipe and --workers on `app`. \param data_help  what the data are for
/// \return --data, for the command to require
CLI::Option* add_subject_arguments(CLI::App& app, SubjectArguments& arguments, const std::string& data_help);

/// Declares --allow-command on `app`: for commands that judge by the recipe's metrics, which may be programs.
void add_allow_command(CLI::App& app, SubjectArguments& arguments);

[[nodiscard]] optimize::SubjectOptions subject_options(const SubjectArguments& arguments, const SharedOptions& shared);

}  // namespace tempera::cli
