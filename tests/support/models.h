#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tempera::tests {

/// The root of the source tree, from TEMPERA_SOURCE_DIR, else the working folder.
inline std::filesystem::path source_folder() {
  const char* folder = std::getenv("TEMPERA_SOURCE_DIR");
  return folder == nullptr ? "." : folder;
}

/// Folders that hold models: that of TEMPERA_MODELS, models/ of the source tree, ../shared/models beside it.
inline std::vector<std::filesystem::path> model_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* given = std::getenv("TEMPERA_MODELS"); given != nullptr) {
    folders.emplace_back(given);
  }
  folders.push_back(source_folder() / "models");
  folders.push_back(source_folder() / "../shared/models");
  return folders;
}

/// The first of model_folders() that holds the file, for example "esrgan/esrgan_slim_x4.onnx"; nothing when
/// none does.
inline std::optional<std::filesystem::path> find_model(const std::filesystem::path& file) {
  for (const std::filesystem::path& folder : model_folders()) {
    if (std::filesystem::exists(folder / file)) {
      return folder / file;
    }
  }
  return std::nullopt;
}

/// Every .onnx file below model_folders(), sorted; of one that several folders hold, the first.
inline std::vector<std::filesystem::path> all_models() {
  std::map<std::filesystem::path, std::filesystem::path> found;  // by path below its folder
  for (const std::filesystem::path& folder : model_folders()) {
    if (!std::filesystem::exists(folder)) {
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".onnx") {
        found.emplace(entry.path().lexically_relative(folder), entry.path());
      }
    }
  }
  std::vector<std::filesystem::path> paths;
  std::transform(found.begin(), found.end(), std::back_inserter(paths), [](const auto& entry) { return entry.second; });
  return paths;
}

/// What a skipped test prints.
inline std::string no_model(const std::filesystem::path& file) {
  return file.string() + " is not there; set TEMPERA_MODELS to the folder of the models";
}

}  // namespace tempera::tests
