#include "tempera/data/dataset.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/data/convert.h"
#include "tempera/data/image_samples.h"
#include "tempera/data/made_inputs.h"
#include "tempera/data/npz.h"
#include "tempera/image/codec.h"

namespace tempera::data {
namespace {

namespace fs = std::filesystem;
using graph::Tensor;
using graph::Value;

bool is_image(const InputSource& source) { return std::holds_alternative<ImageSource>(source); }
bool is_array(const InputSource& source) { return std::holds_alternative<ArraySource>(source); }

/// One graph input that needs a value.
struct Input {
  Value value;         ///< name and type
  InputSource source;  ///< how the recipe makes it
  std::string key;     ///< its name in a .npz
};

std::vector<Input> inputs_of(const Recipe& recipe, const graph::Graph& graph) {
  std::vector<Input> inputs;
  for (const std::string& name : required_inputs(graph)) {
    Input input;
    input.value = graph.value(*graph.find_value(name));
    const InputRecipe* said = recipe.input(name);
    input.source = said == nullptr ? InputSource(ArraySource{}) : said->source;
    const auto* array = std::get_if<ArraySource>(&input.source);
    input.key = array == nullptr || array->key.empty() ? name : array->key;
    if (!input.value.type.is_tensor()) {
      throw Error(ErrorCode::kUnsupported, fmt::format("input '{}' is {}, which cannot be read from files",
                                                       name, graph::to_string(input.value.type)));
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// A random input of one sample; the timestep of [calibrate] from the sample's own part of its range.
Tensor random_input(const Recipe& recipe, const Input& input, const graph::Dims* shape, std::uint64_t seed,
                    std::uint64_t draw, const Strata& strata, std::size_t sample) {
  const auto& source = std::get<RandomSource>(input.source);
  return input.value.name == recipe.calibrate.timestep
             ? make_stratified(source, input.value, shape, seed, draw, strata, sample)
             : make_random(source, input.value, shape, seed, draw);
}

enum class FileKind : std::uint8_t { kPicture, kNpy, kNpz };

std::optional<FileKind> kind_of(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (extension == ".npy") {
    return FileKind::kNpy;
  }
  if (extension == ".npz") {
    return FileKind::kNpz;
  }
  return image::has_image_extension(path) ? std::optional(FileKind::kPicture) : std::nullopt;
}

struct DataFile {
  fs::path path;
  std::string name;  ///< as given, or below the folder that was given
  FileKind kind = FileKind::kPicture;
};

bool is_hidden(const fs::path& relative) {
  return std::any_of(relative.begin(), relative.end(),
                     [](const fs::path& part) { return part.string().starts_with("."); });
}

void find_in_folder(const fs::path& folder, std::vector<DataFile>& files) {
  std::vector<DataFile> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const fs::path relative = entry->path().lexically_relative(folder);
    const std::optional<FileKind> kind = kind_of(entry->path());
    if (kind && !is_hidden(relative) && entry->is_regular_file(error)) {
      found.push_back({entry->path(), relative.generic_string(), *kind});
    }
  }
  if (error) {
    throw Error(ErrorCode::kIo,
                fmt::format("cannot search folder '{}': {}", folder.string(), error.message()));
  }
  std::sort(found.begin(), found.end(), [](const DataFile& a, const DataFile& b) { return a.name < b.name; });
  files.insert(files.end(), found.begin(), found.end());
}

std::vector<DataFile> find_files(const std::vector<fs::path>& paths) {
  std::vector<DataFile> files;
  for (const fs::path& path : paths) {
    if (fs::is_directory(path)) {
      find_in_folder(path, files);
      continue;
    }
    if (!fs::exists(path)) {
      throw Error(ErrorCode::kNotFound, fmt::format("there is no file or folder '{}'", path.string()));
    }
    const std::optional<FileKind> kind = kind_of(path);
    if (!kind) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is no data file: pictures (jpg, png, webp, tiff), .npy and .npz are read",
                              path.string()));
    }
    files.push_back({path, path.filename().string(), *kind});
  }
  return files;
}

std::vector<std::string> read_labels(const Recipe& recipe, const std::string& labels) {
  std::vector<std::string> lines;
  const std::string text = read_text_file(recipe.path.parent_path() / labels);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    if (line.ends_with('\r')) {
      line.pop_back();
    }
    lines.push_back(std::move(line));
    start = end + 1;
  }
  return lines;
}

/// Arrays of the files used last, so that many samples of one file unpack it once.
class ArrayCache {
 public:
  using Arrays = std::shared_ptr<const NamedTensors>;

  Arrays get(const DataFile& file) const {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [path, arrays] : recent_) {
        if (path == file.path) {
          return arrays;
        }
      }
    }
    Arrays arrays = std::make_shared<const NamedTensors>(
        file.kind == FileKind::kNpz ? read_npz(file.path) : NamedTensors{{"", read_npy(file.path)}});
    const std::lock_guard lock(mutex_);
    recent_.emplace_front(file.path, arrays);
    constexpr std::size_t kKept = 2;
    if (recent_.size() > kKept) {
      recent_.pop_back();
    }
    return arrays;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::deque<std::pair<fs::path, Arrays>> recent_;
};

const Tensor* find_array(const NamedTensors& arrays, const std::string& key) {
  const auto found =
      std::find_if(arrays.begin(), arrays.end(), [&](const auto& item) { return item.first == key; });
  return found == arrays.end() ? nullptr : &found->second;
}

/// How the arrays of one file fall into samples.
struct ArrayLayout {
  bool leading = false;    ///< samples lie along the leading axis
  bool drop_axis = false;  ///< which the graph does not have
  std::int64_t samples = 1;
};

/// One sample of the dataset: which part of which file.
struct Item {
  std::size_t file = 0;
  std::int64_t index = 0;  ///< crop of a picture, or place on the leading axis
};

class FileDataset final : public Dataset {
 public:
  FileDataset(std::vector<DataFile> files, const Recipe& recipe, const graph::Graph& graph,
              const DatasetOptions& options)
      : files_(std::move(files)), recipe_(recipe), options_(options), inputs_(inputs_of(recipe, graph)) {
    for (const graph::ValueId id : graph.outputs()) {
      outputs_.push_back(graph.value(id));
    }
    for (const OutputRecipe& output : recipe.outputs) {
      if (output.expected == "folder" && !output.labels.empty()) {
        labels_[output.name] = read_labels(recipe, output.labels);
      }
    }
    for (std::size_t i = 0; i < files_.size(); ++i) {
      try {
        add_file(i);
      } catch (Error& error) {
        error.in(fmt::format("data file {}", files_[i].path.string()));
        throw;
      }
    }
    strata_ = Strata(samples_.size(), options.seed);
  }

  [[nodiscard]] const std::vector<SampleInfo>& samples() const override { return samples_; }
  [[nodiscard]] const std::vector<Source>& sources() const override { return sources_; }

  [[nodiscard]] Sample load(std::size_t index) const override {
    const Item& item = items_.at(index);
    const DataFile& file = files_[item.file];
    try {
      Sample sample =
          file.kind == FileKind::kPicture ? load_picture(file, item, index) : load_arrays(file, item, index);
      sample.name = samples_[index].name;
      return sample;
    } catch (Error& error) {
      error.in(fmt::format("data file {}", file.path.string()));
      throw;
    }
  }

 private:
  void add_file(std::size_t i) {
    const DataFile& file = files_[i];
    const Sha256Digest hash = sha256_of_file(file.path);
    if (file.kind == FileKind::kPicture) {
      const Input& input = picture_input();
      const int crops = options_.whole_files ? 1 : std::get<ImageSource>(input.source).sampling.crops;
      sources_.push_back({file.name, hash});
      for (int crop = 0; crop < crops; ++crop) {
        add_item(crops == 1 ? file.name : fmt::format("{}, crop {}", file.name, crop), {i, crop});
      }
      layouts_.emplace_back();
      return;
    }
    const ArrayLayout layout = layout_of(file);
    layouts_.push_back(layout);
    const std::int64_t blocks = std::min<std::int64_t>(layout.leading ? recipe_.data.blocks : 1,
                                                       std::max<std::int64_t>(layout.samples, 1));
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = layout.samples * block / blocks;
      const std::int64_t end = layout.samples * (block + 1) / blocks;
      if (blocks == 1) {
        sources_.push_back({file.name, hash});
      } else {
        sources_.push_back({fmt::format("{}, samples {} to {}", file.name, first, end - 1),
                            sha256(fmt::format("{} block {} of {}", to_hex(hash), block, blocks))});
      }
      for (std::int64_t k = first; k < end; ++k) {
        add_item(layout.samples == 1 ? file.name : fmt::format("{}, sample {}", file.name, k), {i, k});
      }
    }
  }

  void add_item(std::string name, Item item) {
    samples_.push_back({std::move(name), sources_.size() - 1});
    items_.push_back(item);
  }

  /// The one input that pictures feed.
  [[nodiscard]] const Input& picture_input() const {
    const Input* found = nullptr;
    for (const Input& input : inputs_) {
      if (is_array(input.source) || (is_image(input.source) && found != nullptr)) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("a picture cannot feed input '{}' as well: the recipe says it is {}",
                                input.value.name, is_array(input.source) ? "an array" : "another picture"),
                    "give the inputs together in .npz files");
      }
      if (is_image(input.source)) {
        found = &input;
      }
    }
    if (found == nullptr) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the model takes no picture: no input of its recipe has kind = \"image\"");
    }
    return *found;
  }

  /// Whether a .npz must hold the input: the recipe makes it from a file.
  [[nodiscard]] static bool from_file(const Input& input) {
    return is_array(input.source) || is_image(input.source);
  }

  /// The input's array in the file; null when the recipe makes it and the file does not hold it.
  [[nodiscard]] const Tensor* array_for(const DataFile& file, const NamedTensors& arrays,
                                        const Input& input) const {
    if (file.kind == FileKind::kNpy) {
      return from_file(input) ? &arrays.front().second : nullptr;
    }
    const Tensor* found = find_array(arrays, input.key);
    if (found == nullptr && from_file(input)) {
      std::vector<std::string> names;
      for (const auto& [name, tensor] : arrays) {
        names.push_back(name);
      }
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("there is no array '{}' for input '{}'; the file holds '{}'", input.key,
                              input.value.name, fmt::join(names, "', '")));
    }
    return found;
  }

  [[nodiscard]] ArrayLayout layout_of(const DataFile& file) const {
    if (file.kind == FileKind::kNpy && std::count_if(inputs_.begin(), inputs_.end(), from_file) != 1) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a .npy file feeds models with one input from a file; this one has another number",
                  "give the inputs together in .npz files");
    }
    const ArrayCache::Arrays arrays = cache_.get(file);
    bool any = false;
    bool extra_axis = false;
    bool batches = true;    // every array has the graph's rank and may be cut along its first axis
    bool must_cut = false;  // the graph takes a batch of exactly one
    std::int64_t count = -1;
    bool same_count = true;
    for (const Input& input : inputs_) {
      const Tensor* array = array_for(file, *arrays, input);
      if (array == nullptr) {
        continue;
      }
      any = true;
      const std::optional<std::int64_t> rank = input.value.type.rank();
      if (!rank || array->rank() == 0) {
        batches = false;
        continue;
      }
      extra_axis = extra_axis || array->rank() == *rank + 1;
      if (array->rank() == *rank) {
        const graph::Dim& first = (*input.value.type.shape)[0];
        batches = batches && (!first.fixed() || first.value == 1);
        must_cut = must_cut || first.value == 1;
      }
      same_count = same_count && (count < 0 || count == array->dims()[0]);
      count = array->dims()[0];
    }
    if (!any) {
      throw Error(ErrorCode::kInvalidArgument, "the file holds none of the model's inputs");
    }
    ArrayLayout layout;
    const DataRecipe::Samples wanted = recipe_.data.samples;
    const bool cut_batches = batches && count != 1 && (must_cut || !options_.whole_files);
    layout.drop_axis = extra_axis;
    layout.leading =
        wanted == DataRecipe::Samples::kLeading ||
        (wanted == DataRecipe::Samples::kAuto && same_count && count >= 0 && (extra_axis || cut_batches));
    if (layout.leading && (!same_count || count < 0)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the arrays have no leading axis of one common length to take samples from");
    }
    layout.samples = layout.leading ? count : 1;
    return layout;
  }

  [[nodiscard]] Tensor made(const Input& input, std::size_t number, std::size_t sample) const {
    const graph::Dims* shape = deploy_shape(recipe_, input.value.name);
    if (const auto* constant = std::get_if<ConstantSource>(&input.source)) {
      return make_constant(*constant, input.value, shape);
    }
    return random_input(recipe_, input, shape, options_.seed, draw_number(sample, number), strata_, sample);
  }

  [[nodiscard]] Tensor checked(Tensor tensor, const Value& value, Rounding rounding,
                               const std::string& what) const {
    require_finite(tensor, what);
    require_shape(tensor.dims(), value.type, what, value.name);
    if (const graph::Dims* deployed = options_.whole_files ? nullptr : deploy_shape(recipe_, value.name);
        deployed != nullptr && *deployed != tensor.dims()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: dimensions {} are not those that the recipe deploys '{}' with, {}", what,
                              graph::to_string(tensor.dims()), value.name, graph::to_string(*deployed)));
    }
    return cast(tensor, value.type.element, rounding, what);
  }

  [[nodiscard]] Sample load_picture(const DataFile& file, const Item& item, std::size_t index) const {
    const Input& target = picture_input();
    const auto& source = std::get<ImageSource>(target.source);
    image::DecodeOptions decode;
    decode.channels = source.format.channels == image::ChannelOrder::kGrey ? 1 : 3;
    const image::Image picture = image::load(file.path, decode);
    PictureSample cut;
    if (options_.whole_files) {
      cut.input = fit_picture(picture, source.fit);
    } else {
      cut = cut_sample(picture, source, sources_[samples_[index].source].hash, options_.seed,
                       static_cast<int>(item.index));
    }
    Sample sample;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      sample.inputs.push_back(is_image(input.source)
                                  ? checked(image::to_tensor(cut.input, source.format), input.value,
                                            Rounding::kNearest, samples_[index].name)
                                  : made(input, i, index));
    }
    for (const OutputRecipe& output : recipe_.outputs) {
      if (output.expected == "source" && !options_.whole_files) {
        sample.expected[output.name] = image::to_tensor(cut.source, output.format);
      } else if (output.expected == "folder") {
        sample.expected[output.name] = Tensor::from<std::int64_t>({1}, {folder_class(output, file)});
      }
    }
    return sample;
  }

  /// The class that the name of the file's folder stands for.
  [[nodiscard]] std::int64_t folder_class(const OutputRecipe& output, const DataFile& file) const {
    const std::string folder = fs::absolute(file.path).parent_path().filename().string();
    const auto labels = labels_.find(output.name);
    if (labels != labels_.end()) {
      const auto found = std::find(labels->second.begin(), labels->second.end(), folder);
      if (found != labels->second.end()) {
        return found - labels->second.begin();
      }
    }
    std::int64_t index = 0;
    const auto [end, status] = std::from_chars(folder.data(), folder.data() + folder.size(), index);
    if (status == std::errc() && end == folder.data() + folder.size() && index >= 0) {
      return index;
    }
    throw Error(ErrorCode::kInvalidArgument,
                labels == labels_.end()
                    ? fmt::format("folder '{}' is no class index, and the recipe names no labels", folder)
                    : unknown_name("label", folder, labels->second));
  }

  [[nodiscard]] Sample load_arrays(const DataFile& file, const Item& item, std::size_t index) const {
    const ArrayCache::Arrays arrays = cache_.get(file);
    const ArrayLayout& layout = layouts_[item.file];
    const auto part = [&](const Tensor& array, std::int64_t rank) {
      const bool cut = layout.leading && array.rank() > 0 && array.dims()[0] == layout.samples;
      return cut ? slice_leading(array, item.index, layout.drop_axis && array.rank() == rank + 1) : array;
    };
    Sample sample;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      const Tensor* array = array_for(file, *arrays, input);
      if (array == nullptr) {
        sample.inputs.push_back(made(input, i, index));
        continue;
      }
      const std::string what = file.kind == FileKind::kNpz
                                   ? fmt::format("{}, array '{}'", samples_[index].name, input.key)
                                   : samples_[index].name;
      sample.inputs.push_back(checked(part(*array, input.value.type.rank().value_or(array->rank())),
                                      input.value, Rounding::kExact, what));
    }
    if (file.kind == FileKind::kNpz) {
      for (const Value& output : outputs_) {
        const OutputRecipe* said = recipe_.output(output.name);
        const Tensor* array =
            find_array(*arrays, said == nullptr || said->expected.empty() ? output.name : said->expected);
        if (array != nullptr) {
          Tensor expected = part(*array, output.type.rank().value_or(array->rank()));
          require_finite(expected,
                         fmt::format("{}, expected output '{}'", samples_[index].name, output.name));
          sample.expected[output.name] = std::move(expected);
        }
      }
    }
    return sample;
  }

  std::vector<DataFile> files_;
  Recipe recipe_;
  DatasetOptions options_;
  std::vector<Input> inputs_;
  std::vector<Value> outputs_;
  std::map<std::string, std::vector<std::string>> labels_;
  std::vector<ArrayLayout> layouts_;
  std::vector<Item> items_;
  std::vector<SampleInfo> samples_;
  std::vector<Source> sources_;
  ArrayCache cache_;
  Strata strata_;
};

/// Samples that need no files.
class MadeDataset final : public Dataset {
 public:
  MadeDataset(const Recipe& recipe, const graph::Graph& graph, const DatasetOptions& options)
      : recipe_(recipe), options_(options), inputs_(inputs_of(recipe, graph)) {
    for (std::int64_t i = 0; i < options.random_samples; ++i) {
      const std::string name = fmt::format("random {}", i);
      sources_.push_back({name, sha256(fmt::format("tempera seed {} sample {}", options.seed, i))});
      samples_.push_back({name, static_cast<std::size_t>(i)});
    }
    strata_ = Strata(samples_.size(), options.seed);
  }

  [[nodiscard]] const std::vector<SampleInfo>& samples() const override { return samples_; }
  [[nodiscard]] const std::vector<Source>& sources() const override { return sources_; }

  [[nodiscard]] Sample load(std::size_t index) const override {
    Sample sample;
    sample.name = samples_.at(index).name;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      const graph::Dims* shape = deploy_shape(recipe_, input.value.name);
      const std::uint64_t draw = draw_number(index, i);
      if (const auto* constant = std::get_if<ConstantSource>(&input.source)) {
        sample.inputs.push_back(make_constant(*constant, input.value, shape));
      } else if (std::holds_alternative<RandomSource>(input.source)) {
        sample.inputs.push_back(random_input(recipe_, input, shape, options_.seed, draw, strata_, index));
      } else {
        sample.inputs.push_back(make_stand_in(recipe_, input.value, options_.seed, draw));
      }
    }
    return sample;
  }

 private:
  Recipe recipe_;
  DatasetOptions options_;
  std::vector<Input> inputs_;
  std::vector<SampleInfo> samples_;
  std::vector<Source> sources_;
  Strata strata_;
};

}  // namespace

Sha256Digest Dataset::hash() const {
  std::vector<Sha256Digest> hashes;
  for (const Source& source : sources()) {
    hashes.push_back(source.hash);
  }
  std::sort(hashes.begin(), hashes.end());
  Sha256 all;
  for (const Sha256Digest& digest : hashes) {
    all.update(digest);
  }
  return all.finish();
}

std::unique_ptr<Dataset> open_dataset(const std::vector<fs::path>& paths, const Recipe& recipe,
                                      const graph::Graph& graph, const DatasetOptions& options) {
  if (paths.empty()) {
    for (const Input& input : inputs_of(recipe, graph)) {
      if (is_array(input.source) || is_image(input.source)) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("input '{}' needs data, and no files were given", input.value.name),
                    "--data FOLDER, or --data random for timing alone");
      }
    }
    return std::make_unique<MadeDataset>(recipe, graph, options);
  }
  std::vector<DataFile> files = find_files(paths);
  if (files.empty()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("'{}' holds no pictures (jpg, png, webp, tiff) and no .npy or .npz files",
                            paths.front().string()));
  }
  return std::make_unique<FileDataset>(std::move(files), recipe, graph, options);
}

std::unique_ptr<Dataset> random_dataset(const Recipe& recipe, const graph::Graph& graph,
                                        const DatasetOptions& options) {
  return std::make_unique<MadeDataset>(recipe, graph, options);
}

}  // namespace tempera::data
