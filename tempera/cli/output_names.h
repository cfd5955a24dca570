#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tempera::cli {

/// What a model calls something, as part of a file's name: letters, digits, '.', '_' and '-' stay, every other character
/// becomes '_', leading dots go, and what is longer than 100 bytes is cut. Never empty.
[[nodiscard]] std::string plain_name(std::string_view name);

/// A sample's name as the beginning of a file's: "coffee.png" -> "coffee", "frames.npz, sample 3" -> "frames_3".
[[nodiscard]] std::string sample_stem(std::string_view sample);

/// The names, each unlike all others: a name that came before gets the first free of _2, _3, ...; the others stay.
[[nodiscard]] std::vector<std::string> distinct(std::vector<std::string> names);

/// Where the outputs of a run go: files directly in one folder, all different, and none of them an input.
class OutputNames {
 public:
  /// \param samples,outputs  names as data and model give them
  /// \param inputs           files that are never overwritten, and folders whose files are not
  OutputNames(std::filesystem::path folder, const std::vector<std::string>& samples,
              const std::vector<std::string>& outputs, std::vector<std::filesystem::path> inputs);

  /// FOLDER/SAMPLE.EXTENSION, or FOLDER/SAMPLE.OUTPUT.EXTENSION with an output; "_2", "_3", ... before the extension where
  /// that file is taken.
  /// \param extension  with its dot
  [[nodiscard]] std::filesystem::path take(std::size_t sample, std::optional<std::size_t> output,
                                           std::string_view extension);

 private:
  [[nodiscard]] bool is_input(const std::filesystem::path& path) const;

  std::filesystem::path folder_;
  std::vector<std::string> samples_;
  std::vector<std::string> outputs_;
  std::vector<std::filesystem::path> inputs_;
  std::set<std::filesystem::path> taken_;
};

}  // namespace tempera::cli
