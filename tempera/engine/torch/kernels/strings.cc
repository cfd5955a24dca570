/// Operators on text.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <regex>
#include <set>

#include "tempera/engine/torch/kernels/cast.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

using Strings = std::vector<std::string>;

Value make_strings(graph::Dims dims, Strings strings) {
  return Value(graph::Tensor::strings(std::move(dims), std::move(strings)));
}

void concat(KernelContext& context) {
  const graph::Tensor& a = context.strings(0);
  const graph::Tensor& b = context.strings(1);
  const std::vector<at::Tensor> index = at::broadcast_tensors(
      {at::arange(a.size(), at::kLong).reshape(a.dims()), at::arange(b.size(), at::kLong).reshape(b.dims())});
  const at::Tensor left = index[0].contiguous();
  const at::Tensor right = index[1].contiguous();
  Strings joined;
  for (std::int64_t i = 0; i < left.numel(); ++i) {
    joined.push_back(a.string_values()[static_cast<std::size_t>(left.const_data_ptr<std::int64_t>()[i])] +
                     b.string_values()[static_cast<std::size_t>(right.const_data_ptr<std::int64_t>()[i])]);
  }
  context.set(0, make_strings(left.sizes().vec(), std::move(joined)));
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// At runs of white space when the delimiter is empty, else at each delimiter; at most `limit` cuts.
Strings split_text(std::string_view text, std::string_view delimiter, std::int64_t limit) {
  Strings parts;
  if (!delimiter.empty()) {
    for (std::size_t at = 0; limit > 0 && (at = text.find(delimiter)) != std::string_view::npos; --limit) {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + delimiter.size());
    }
    parts.emplace_back(text);
    return parts;
  }
  const auto skip_space = [&text] {
    while (!text.empty() && is_space(text.front())) {
      text.remove_prefix(1);
    }
  };
  for (skip_space(); !text.empty(); skip_space()) {
    if (limit-- == 0) {
      parts.emplace_back(text);
      break;
    }
    const std::size_t length = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), is_space) - text.begin());
    parts.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return parts;
}

/// x [d...] -> parts [d..., most], padded with "", and their number [d...]
void split(KernelContext& context) {
  const graph::Tensor& x = context.strings(0);
  const std::string delimiter = context.text("delimiter", "");
  const std::int64_t limit = context.integer("maxsplit", std::numeric_limits<std::int64_t>::max());
  std::vector<Strings> rows;
  std::vector<std::int64_t> counts;
  std::size_t most = 0;
  for (const std::string& text : x.string_values()) {
    rows.push_back(split_text(text, delimiter, limit));
    counts.push_back(static_cast<std::int64_t>(rows.back().size()));
    most = std::max(most, rows.back().size());
  }
  Strings all;
  for (Strings& row : rows) {
    row.resize(most);
    all.insert(all.end(), row.begin(), row.end());
  }
  graph::Dims dims = x.dims();
  dims.push_back(static_cast<std::int64_t>(most));
  context.set(0, make_strings(std::move(dims), std::move(all)));
  context.set(1, at::tensor(counts, at::TensorOptions(at::kLong)).reshape(x.dims()).to(context.device()));
}

/// The whole string matches the pattern.
void regex_full_match(KernelContext& context) {
  const graph::Tensor& x = context.strings(0);
  const std::string pattern = context.text("pattern", "");
  at::Tensor matches = at::empty(x.dims(), at::kBool);
  auto* to = matches.mutable_data_ptr<bool>();
  try {
    const std::regex regex(pattern, std::regex::ECMAScript);
    for (const std::string& text : x.string_values()) {
      *to++ = std::regex_match(text, regex);
    }
  } catch (const std::regex_error& error) {
    context.fail(fmt::format("the pattern '{}' cannot be used: {}", pattern, error.what()));
  }
  context.set(0, matches.to(context.device()));
}

// ASCII only: case of other scripts needs tables that this engine does not carry.
std::string with_case(std::string text, const std::string& action) {
  for (char& c : text) {
    if (action == "LOWER" && c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    } else if (action == "UPPER" && c >= 'a' && c <= 'z') {
      c = static_cast<char>(c - 'a' + 'A');
    }
  }
  return text;
}

/// Drops stop words (whole elements), changes case; with nothing left a single "" stays. x [C] or [1, C]
void normalize(KernelContext& context) {
  const graph::Tensor& x = context.strings(0);
  const std::string action = context.text("case_change_action", "NONE");
  const bool case_sensitive = context.integer("is_case_sensitive", 0) != 0;
  std::set<std::string> stop_words;
  for (const std::string& word : context.attribute<Strings>("stopwords", {})) {
    stop_words.insert(case_sensitive ? word : with_case(word, "LOWER"));
  }
  Strings kept;
  for (const std::string& text : x.string_values()) {
    if (!stop_words.contains(case_sensitive ? text : with_case(text, "LOWER"))) {
      kept.push_back(with_case(text, action));
    }
  }
  if (kept.empty()) {
    kept.emplace_back();
  }
  const auto count = static_cast<std::int64_t>(kept.size());
  context.set(0, make_strings(x.dims().size() == 2 ? graph::Dims{1, count} : graph::Dims{count}, std::move(kept)));
}

// -- TfIdfVectorizer -----------------------------------------------------------------------------------------------------

/// The pool's n-grams of the wanted lengths, by their items (numbers as text), with their number in the pool.
std::map<Strings, std::size_t> read_pool(const KernelContext& context, std::int64_t shortest, std::int64_t longest) {
  Strings items = context.attribute<Strings>("pool_strings", {});
  for (const std::int64_t item : context.integers("pool_int64s")) {
    items.push_back(std::to_string(item));
  }
  const std::vector<std::int64_t> starts = context.integers("ngram_counts");
  std::map<Strings, std::size_t> pool;
  std::size_t number = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t length = i + 1;
    const auto end = i + 1 < starts.size() ? starts[i + 1] : static_cast<std::int64_t>(items.size());
    if (starts[i] < 0 || starts[i] > end || end > static_cast<std::int64_t>(items.size())) {
      context.fail("attribute 'ngram_counts' does not fit the pool");
    }
    for (auto at = static_cast<std::size_t>(starts[i]); at + length <= static_cast<std::size_t>(end); at += length) {
      if (static_cast<std::int64_t>(length) >= shortest && static_cast<std::int64_t>(length) <= longest) {
        pool.emplace(Strings(items.begin() + static_cast<std::ptrdiff_t>(at),
                             items.begin() + static_cast<std::ptrdiff_t>(at + length)), number);
      }
      ++number;
    }
  }
  return pool;
}

/// Counts of the pool's n-grams in each row, items up to max_skip_count apart; unigrams know no skips.
/// x [C] -> [n], [N, C] -> [N, n]
void tf_idf(KernelContext& context) {
  const graph::Tensor x = context.value(0).strings() != nullptr ? context.strings(0) : cast_to_strings(context.array(0));
  const std::int64_t shortest = context.integer("min_gram_length", 1);
  const std::int64_t longest = context.integer("max_gram_length", 1);
  const std::int64_t skips = context.integer("max_skip_count", 0);
  const std::string mode = context.text("mode", "TF");
  const std::vector<std::int64_t> columns = context.integers("ngram_indexes");
  const std::vector<float> weights = context.reals("weights");
  const std::map<Strings, std::size_t> pool = read_pool(context, shortest, longest);
  if (columns.empty() || x.rank() < 1 || x.rank() > 2 || *std::min_element(columns.begin(), columns.end()) < 0) {
    context.fail("an input of rank 1 or 2 and non-negative ngram_indexes are expected");
  }
  const std::int64_t width = *std::max_element(columns.begin(), columns.end()) + 1;
  const std::int64_t rows = x.rank() == 2 ? x.dims()[0] : 1;
  const std::int64_t length = x.dims().back();
  at::Tensor y = at::zeros({rows, width}, at::kFloat);
  auto* to = y.mutable_data_ptr<float>();
  const auto count = [&](const Strings& gram, std::int64_t row) {
    const auto found = pool.find(gram);
    if (found == pool.end() || found->second >= columns.size()) {
      return;
    }
    float& cell = to[row * width + columns[found->second]];
    const float weight = found->second < weights.size() && mode != "TF" ? weights[found->second] : 1.0F;
    cell = mode == "IDF" ? weight : cell + weight;
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::string* items = x.string_values().data() + row * length;
    for (std::int64_t step = 1; step <= skips + 1; ++step) {
      for (std::int64_t start = 0; start < length; ++start) {
        Strings gram;
        for (std::int64_t at = start; at < length && static_cast<std::int64_t>(gram.size()) < longest; at += step) {
          gram.push_back(items[at]);
          const auto size = static_cast<std::int64_t>(gram.size());
          if (size >= shortest && (size > 1 || step == 1)) {
            count(gram, row);
          }
        }
      }
    }
  }
  context.set(0, (x.rank() == 1 ? y.reshape({width}) : y).to(context.device()));
}

constexpr Kernel kKernels[] = {
    {"RegexFullMatch", regex_full_match},
    {"StringConcat", concat},
    {"StringNormalizer", normalize},
    {"StringSplit", split},
    {"TfIdfVectorizer", tf_idf},
};

}  // namespace

std::span<const Kernel> strings_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
