#include "tempera/onnx/external_data.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/problems.h"

namespace tempera::onnx {
namespace fs = std::filesystem;
namespace {

std::size_t number_from(const std::map<std::string, std::string>& entries, const std::string& key,
                        std::size_t fallback) {
  const auto found = entries.find(key);
  if (found == entries.end()) {
    return fallback;
  }
  const std::string& text = found->second;
  std::size_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("external data has {} '{}', expected a number of bytes", key, printable(text)));
  }
  return number;
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto [rest, unused] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return rest == folder.end();
}

}  // namespace

ExternalData::ExternalData(const fs::path& model, fs::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  // A model may itself be a link into a store that holds its data too: both folders count as the model's.
  for (const fs::path& root : {folder_, model.empty() ? fs::path() : fs::canonical(model, ignored).parent_path()}) {
    const fs::path real = root.empty() ? fs::path() : fs::canonical(root, ignored);
    if (!real.empty()) {
      roots_.push_back(real);
    }
  }
}

const MappedFile& ExternalData::file(const std::string& location) {
  const auto known = files_.find(location);
  if (known != files_.end()) {
    return known->second;
  }
  const std::string shown = printable(location);
  if (folder_.empty()) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("data lies in the external file '{}', but the model was not read from a folder", shown));
  }
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end()) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("external file '{}' must be a path inside the model's folder", shown));
  }
  std::error_code failed;
  const fs::path real = fs::canonical(folder_ / relative, failed);
  if (failed) {
    throw Error(failed == std::errc::no_such_file_or_directory ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot open external file '{}': {}", shown, failed.message()),
                "keep the model's data files in the folder that holds the model");
  }
  if (std::none_of(roots_.begin(), roots_.end(), [&](const fs::path& root) { return lies_in(real, root); })) {
    throw Error(ErrorCode::kBadModel, fmt::format("external file '{}' is a link that leaves the model's folder", shown));
  }
  return files_.emplace(location, map_file(real)).first->second;
}

std::shared_ptr<const std::byte> ExternalData::get(const std::map<std::string, std::string>& entries,
                                                   std::size_t expected_bytes) {
  const auto location = entries.find("location");
  if (location == entries.end()) {
    throw Error(ErrorCode::kBadModel, "external data names no file (key 'location')");
  }
  const std::size_t offset = number_from(entries, "offset", 0);
  const std::size_t length = number_from(entries, "length", expected_bytes);
  if (length != expected_bytes) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("external data has length {}, but type and dimensions take {} bytes", length, expected_bytes));
  }
  const MappedFile& source = file(location->second);
  const std::size_t size = source.size;
  if (offset > size || length > size - offset) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("data of {} bytes at offset {} runs past the end of external file '{}' ({} bytes)", length,
                            offset, printable(location->second), size),
                "the data file is cut off or belongs to another model");
  }
  return source.slice(offset, length);
}

}  // namespace tempera::onnx
