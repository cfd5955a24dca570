#include "tempera/compress/calibrate/checkpoint.h"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/onnx/write.h"

namespace tempera::compress {
namespace {

constexpr std::int64_t kCacheBytes = std::int64_t{1} << 30;

// Raises with every change of what a calibration computes.
constexpr int kVersion = 1;

template <typename T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

void append(std::vector<std::byte>& bytes, const std::string& text) {
  append(bytes, static_cast<std::uint64_t>(text.size()));
  const auto raw = std::as_bytes(std::span(text.data(), text.size()));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

/// Reads what append() wrote; the cache has checked the bytes, so a wrong size is a fault of ours.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, piece(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() {
    const auto raw = piece(number<std::uint64_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  Histogram histogram() { return Histogram::take_from(bytes_); }

 private:
  std::span<const std::byte> piece(std::size_t size) {
    TEMPERA_CHECK(size <= bytes_.size(), "a stored calibration is cut short");
    const auto front = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return front;
  }

  std::span<const std::byte> bytes_;
};

Sha256Digest derived_key(const Sha256Digest& key, std::string_view what) {
  Sha256 hash;
  hash.update(key);
  hash.update(what);
  return hash.finish();
}

}  // namespace

CalibrationStore::CalibrationStore(const std::filesystem::path& folder, const Sha256Digest& key)
    : cache_(folder / "calibration", kCacheBytes),
      finished_key_(derived_key(key, "finished")),
      partial_key_(derived_key(key, "partial")) {}

std::optional<Calibration> CalibrationStore::finished() const {
  const auto entry = cache_.find(finished_key_);
  if (!entry) {
    return std::nullopt;
  }
  return calibration_from_json({reinterpret_cast<const char*>(entry->content.data()), entry->content.size()});
}

std::optional<Checkpoint> CalibrationStore::partial() const {
  const auto entry = cache_.find(partial_key_);
  if (!entry) {
    return std::nullopt;
  }
  Reader reader(entry->content);
  Checkpoint checkpoint;
  checkpoint.ranges = calibration_from_json(reader.text()).ranges;
  checkpoint.merged = reader.number<std::uint64_t>();
  const auto count = reader.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    checkpoint.tensors.push_back(reader.text());
    Observed observed;
    observed.all.min = reader.number<float>();
    observed.all.max = reader.number<float>();
    observed.average_min = reader.number<double>();
    observed.average_max = reader.number<double>();
    observed.any = reader.number<bool>();
    observed.histogram = reader.histogram();
    checkpoint.observed.push_back(std::move(observed));
  }
  return checkpoint;
}

void CalibrationStore::put(const Checkpoint& checkpoint) const {
  std::vector<std::byte> bytes;
  Calibration finished;
  finished.ranges = checkpoint.ranges;
  append(bytes, to_json(finished));
  append(bytes, static_cast<std::uint64_t>(checkpoint.merged));
  append(bytes, static_cast<std::uint64_t>(checkpoint.tensors.size()));
  for (std::size_t i = 0; i < checkpoint.tensors.size(); ++i) {
    const Observed& observed = checkpoint.observed[i];
    append(bytes, checkpoint.tensors[i]);
    append(bytes, observed.all.min);
    append(bytes, observed.all.max);
    append(bytes, observed.average_min);
    append(bytes, observed.average_max);
    append(bytes, observed.any);
    observed.histogram.append_to(bytes);
  }
  cache_.put(partial_key_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void CalibrationStore::put(const Calibration& calibration) const {
  cache_.put(finished_key_, to_json(calibration));
  cache_.remove(partial_key_);
}

Sha256Digest calibration_key(const graph::Model& model, const std::vector<std::string>& tensors,
                             const data::Dataset& dataset, const std::vector<std::size_t>& samples,
                             const engine::Engine& engine, const CalibrateOptions& options) {
  Sha256 hash;
  const auto add = [&hash](std::string_view text) {
    hash.update(fmt::format("{}:", text.size()));
    hash.update(text);
  };
  add(fmt::format("calibration {}", kVersion));
  hash.update(onnx::content_hash(model));
  for (const std::string& tensor : tensors) {
    add(tensor);
  }
  add("data");
  hash.update(dataset.hash());
  for (const std::size_t index : samples) {
    add(dataset.samples()[index].name);
  }
  for (const std::size_t index : {samples.front(), samples[samples.size() / 2], samples.back()}) {
    for (const graph::Tensor& tensor : dataset.load(index).inputs) {
      add(graph::to_string(tensor.dims()));
      hash.update(tensor.bytes());
    }
  }
  const engine::Attributes& attributes = engine.attributes();
  std::vector<std::string_view> precisions;  // stand for what this CPU has
  for (const engine::Precision precision : attributes.precisions) {
    precisions.push_back(engine::to_string(precision));
  }
  add(fmt::format("{} {} {} {}", attributes.name, attributes.version, options.compile.device,
                  fmt::join(precisions, " ")));
  for (const auto& [name, dims] : options.compile.input_shapes) {
    add(fmt::format("{} {}", name, graph::to_string(dims)));
  }
  for (const auto& [name, value] : options.compile.properties) {
    add(fmt::format("{} {}", name, value));
  }
  add(fmt::format("{} {} {} {} '{}'", to_string(options.method), options.percentile, options.momentum,
                  options.symmetric, options.timestep_input));
  return hash.finish();
}

}  // namespace tempera::compress
