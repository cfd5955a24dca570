#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/data/recipe.h"

namespace tempera::data {

/// The words a recipe file uses, one table for reader and writer. Private to the recipe.

constexpr int kRecipeVersion = 1;

template <typename T>
struct Word {
  T value;
  std::string_view word;
};
template <typename T, std::size_t N>
using WordTable = std::array<Word<T>, N>;

inline constexpr WordTable<image::Layout, 2> kLayouts = {
    {{image::Layout::kNchw, "NCHW"}, {image::Layout::kNhwc, "NHWC"}}};
inline constexpr WordTable<image::ChannelOrder, 3> kChannelOrders = {{{image::ChannelOrder::kRgb, "RGB"},
                                                                      {image::ChannelOrder::kBgr, "BGR"},
                                                                      {image::ChannelOrder::kGrey, "grey"}}};
inline constexpr WordTable<RandomSource::Distribution, 2> kDistributions = {
    {{RandomSource::Distribution::kNormal, "normal"}, {RandomSource::Distribution::kUniform, "uniform"}}};
inline constexpr WordTable<DataRecipe::Samples, 3> kSamples = {
    {{DataRecipe::Samples::kAuto, "auto"},
     {DataRecipe::Samples::kFile, "file"},
     {DataRecipe::Samples::kLeading, "leading_axis"}}};

template <typename T, std::size_t N>
std::string_view to_word(const WordTable<T, N>& table, T value) {
  return std::find_if(table.begin(), table.end(), [&](const Word<T>& row) { return row.value == value; })
      ->word;
}

template <typename T, std::size_t N>
std::optional<T> from_word(const WordTable<T, N>& table, std::string_view word) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Word<T>& row) { return row.word == word; });
  return found == table.end() ? std::nullopt : std::optional<T>(found->value);
}

template <typename T, std::size_t N>
std::vector<std::string> words_of(const WordTable<T, N>& table) {
  std::vector<std::string> words;
  for (const Word<T>& row : table) {
    words.emplace_back(row.word);
  }
  return words;
}

/// "image", "array", "constant", "random".
[[nodiscard]] const std::vector<std::string>& input_kinds();
/// What an output can mean.
[[nodiscard]] const std::vector<std::string>& meanings();

}  // namespace tempera::data
