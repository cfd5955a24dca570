#include "tempera/base/output_folder.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera {
namespace {

namespace fs = std::filesystem;

// A folder is ours when it holds this marker, written with the first commit.
constexpr const char* kMarker = ".tempera";
constexpr const char* kJournal = "journal";

[[noreturn]] void fail(const fs::path& path, const std::string& what, const std::string& why) {
  throw Error(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path.string(), why),
              "choose a folder that can be written and has room");
}

void sync(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return;  // not every file system lets a folder be opened; the rename itself stays atomic
  }
  ::fsync(descriptor);
  ::close(descriptor);
}

void write_lines(const fs::path& path, const std::vector<std::string>& lines) {
  std::ofstream out(path, std::ios::trunc);
  for (const std::string& line : lines) {
    out << line << '\n';
  }
  out.close();
  if (!out) {
    fail(path, "write", "the disk may be full");
  }
  sync(path);
}

}  // namespace

OutputFolder::OutputFolder(fs::path folder, bool force) : folder_(std::move(folder)) {
  std::error_code error;
  if (fs::exists(folder_, error) && !fs::is_directory(folder_, error)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("output '{}' is a file, expected a folder", folder_.string()),
                "give -o a folder");
  }
  const bool foreign = fs::exists(folder_, error) && !fs::is_empty(folder_, error) &&
                       !fs::exists(folder_ / kMarker, error) && !fs::exists(work(), error);
  if (foreign && !force) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("output folder '{}' holds files that tempera did not write", folder_.string()),
                "choose an empty folder, or --force to write into this one");
  }
  fs::create_directories(work(), error);
  if (error) {
    fail(folder_, "make the folder", error.message());
  }
  replay();
  restart();
}

void OutputFolder::restart() {
  std::error_code error;
  fs::remove_all(staging(), error);
  fs::create_directories(staging(), error);
  if (error) {
    fail(staging(), "make the folder", error.message());
  }
}

OutputFolder::~OutputFolder() {
  std::error_code error;
  fs::remove_all(staging(), error);
  fs::remove(work(), error);     // only when nothing else is kept there
  fs::remove(folder_, error);    // only when nothing was ever committed
}

void OutputFolder::replay() {
  const fs::path journal = work() / kJournal;
  std::ifstream in(journal);
  if (!in) {
    return;
  }
  std::string line;
  std::error_code error;
  while (std::getline(in, line)) {
    if (line.size() < 2) {
      continue;
    }
    const std::string name = line.substr(1);
    if (name.find('/') != std::string::npos) {
      continue;
    }
    if (line[0] == '-') {
      fs::remove(folder_ / name, error);
    } else if (fs::exists(staging() / name, error)) {
      fs::rename(staging() / name, folder_ / name, error);
      if (error) {
        fail(folder_ / name, "write", error.message());
      }
    }
  }
  in.close();
  write_lines(folder_ / kMarker, {"written by tempera; safe to replace"});
  sync(folder_);
  fs::remove(journal, error);
}

void OutputFolder::commit(const std::vector<std::string>& obsolete) {
  std::vector<std::string> journal;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(staging(), error)) {
    sync(entry.path());
    journal.push_back("+" + entry.path().filename().string());
  }
  if (error) {
    fail(staging(), "list", error.message());
  }
  std::sort(journal.begin(), journal.end());
  for (const std::string& name : obsolete) {
    if (std::find(journal.begin(), journal.end(), "+" + name) == journal.end()) {
      journal.push_back("-" + name);
    }
  }
  const fs::path draft = work() / "journal.new";
  write_lines(draft, journal);
  fs::rename(draft, work() / kJournal, error);
  if (error) {
    fail(work() / kJournal, "write", error.message());
  }
  replay();
}

void OutputFolder::refuse_input(const fs::path& input) const {
  std::error_code error;
  const fs::path inside = fs::weakly_canonical(input, error);
  if (inside.parent_path() == fs::weakly_canonical(folder_, error)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("input '{}' lies in the output folder and could be overwritten", input.string()),
                "choose another folder with -o");
  }
}

}  // namespace tempera
