#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tempera {

/// A folder whose files appear together or not at all.
///
/// New files are written under staging(); commit() moves them into the folder as one set: a journal in OUT/.work names
/// the set before the first file moves, and a folder whose journal was left behind by a crash is completed when it is
/// next opened. A folder that was not made by us is left alone unless `force`.
class OutputFolder {
 public:
  /// \param force  take over a folder that holds other files
  /// \throws Error{kInvalidArgument} when the folder holds files that are not ours; Error{kIo} when it cannot be made or
  ///   written
  OutputFolder(std::filesystem::path folder, bool force);

  /// Removes what was staged and not committed; state under work() stays.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// For state that outlives an interrupted run.
  [[nodiscard]] std::filesystem::path work() const { return folder_ / ".work"; }
  /// Where new files are written before commit().
  [[nodiscard]] std::filesystem::path staging() const { return work() / "staged"; }

  /// Empties the staging folder, to stage another set. \throws Error{kIo}
  void restart();

  /// Moves every staged file into the folder, replacing files of the same name, and removes `obsolete` names of an
  /// earlier set that are not among the staged ones. \throws Error{kIo}
  void commit(const std::vector<std::string>& obsolete = {});

  /// Refuses an output that would overwrite its own input. \throws Error{kInvalidArgument}
  void refuse_input(const std::filesystem::path& input) const;

 private:
  void replay();

  std::filesystem::path folder_;
};

}  // namespace tempera
