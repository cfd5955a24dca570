#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/data/dataset.h"
#include "tempera/data/recipe.h"
#include "tempera/data/split.h"
#include "tempera/graph/model.h"

namespace tempera::optimize {

/// What a flow works on: the model as read, how to feed it, and the data in three disjoint parts.
struct Subject {
  std::filesystem::path path;
  graph::Model model;  ///< as read, with types inferred for the deploy shapes
  data::Recipe recipe;
  std::unique_ptr<data::Dataset> dataset;
  data::Split split;
  bool random_data =
      false;  ///< data were made up: losses show that rewrites are right, nothing about quality
  bool fixed_shapes =
      false;  ///< the recipe fixes the shapes: rewrites may rely on them, and the written file has them
  /// Shapes to compile for: the recipe's, else those that all samples share (the file then stays dynamic);
  /// else empty.
  std::map<std::string, graph::Dims> input_shapes;
  int workers = 1;  ///< threads that read data
  /// Programs that the recipe names as metrics may be run (with absolute paths in `recipe`); else outputs that have one
  /// are judged by their distance from the original's.
  bool run_programs = false;
};

/// Programs that a recipe names as metrics. A recipe may come from elsewhere, so the user must allow them.
enum class RecipePrograms : std::uint8_t {
  kUnused,  ///< no metric is needed: they are left aside
  kRefuse,  ///< with data, a recipe that names one is an error
  kAllow,
};

struct SubjectOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> data;  ///< files and folders; empty: seeded made-up inputs
  bool random_data = false;      ///< made-up inputs were asked for: what they show is claimed, marked UNVERIFIED
  std::filesystem::path recipe;             ///< empty: the sidecar, else a guess
  std::uint64_t seed = 0;
  int workers = 0;  ///< 0: min(8, cores)
  RecipePrograms programs = RecipePrograms::kUnused;
  std::int64_t random_samples = data::DatasetOptions().random_samples;  ///< when no input comes from a file
};

/// Takes files and folders, or the word "random", which asks for made-up inputs.
void set_data(SubjectOptions& options, const std::vector<std::string>& words);

/// Keeps `most` samples of a part at even distances. \return whether any went
bool thin_out(std::vector<std::size_t>& part, std::size_t most);

/// Reads model, recipe and data. Shapes are fixed where the recipe says so, or where all samples agree.
/// \throws what reading them throws, with the model as outermost frame
[[nodiscard]] Subject load_subject(const SubjectOptions& options, const Host& host);

}  // namespace tempera::optimize
