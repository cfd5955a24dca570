#include "tempera/compress/calibrate/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/count_bins.h"
#include "tempera/compress/calibrate/lanes.h"

namespace tempera::compress {
namespace {

constexpr std::size_t kBlock = 4096;  // floats looked at twice while they are in the nearest cache
constexpr std::int32_t kMagnitude = 0x7FFFFFFF;
constexpr std::int32_t kInfinity = 0x7F800000;

struct BlockRange {
  float min;
  float max;
  std::int32_t magnitude;  ///< the bits of the largest |x|; of a NaN they are above those of infinity
};

/// \param count  at least 1; lanes past the end repeat the first value
TEMPERA_FOR_EACH_CPU BlockRange range_of(const float* values, std::size_t count) {
  FloatLanes low = FloatLanes{} + values[0];
  FloatLanes high = low;
  IntLanes magnitude{};
  for (std::size_t i = 0; i < count; i += kLanes) {
    FloatLanes x;
    if (count - i >= kLanes) {
      std::memcpy(&x, values + i, sizeof x);
    } else {
      x = FloatLanes{} + values[0];
      std::memcpy(&x, values + i, (count - i) * sizeof(float));
    }
    IntLanes bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits &= kMagnitude;
    magnitude = bits > magnitude ? bits : magnitude;
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  BlockRange range{low[0], high[0], magnitude[0]};
  for (std::size_t lane = 1; lane < kLanes; ++lane) {
    range.min = std::min(range.min, static_cast<float>(low[lane]));
    range.max = std::max(range.max, static_cast<float>(high[lane]));
    range.magnitude = std::max(range.magnitude, static_cast<std::int32_t>(magnitude[lane]));
  }
  return range;
}

/// Bins after `shift` doublings of the width.
template <typename Count>
void join_bins(std::vector<Count>& bins, int shift) {
  for (std::size_t side = 0; side < bins.size(); side += Histogram::kBins) {
    for (std::size_t k = 0; k < Histogram::kBins; ++k) {
      const Count count = bins[side + k];
      bins[side + k] = 0;
      bins[side + (k >> std::min(shift, kBinBits))] += count;
    }
  }
}

template <typename T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

template <typename T>
T take(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof(T)) {
    throw Error(ErrorCode::kIo, "a stored histogram is cut short");
  }
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return value;
}

}  // namespace

Extremes extremes_of(std::span<const float> values) {
  Extremes extremes;
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    const BlockRange range = range_of(values.data() + i, std::min(kBlock, values.size() - i));
    extremes.merge({range.min, range.max, range.magnitude < kInfinity});
  }
  return extremes;
}

Extremes Histogram::add(std::span<const float> values) {
  Extremes extremes;
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    const std::size_t count = std::min(kBlock, values.size() - i);
    const BlockRange range = range_of(values.data() + i, count);
    extremes.merge({range.min, range.max, range.magnitude < kInfinity});
    if (!extremes.finite) {
      return extremes;
    }
    total_ += count;
    if (range.magnitude == 0) {
      zeros_ += count;
      continue;
    }
    float largest = 0.0F;
    std::memcpy(&largest, &range.magnitude, sizeof largest);
    make_room(largest);
    if (fresh_total_ + count > std::numeric_limits<std::uint32_t>::max()) {
      flush();
    }
    fresh_total_ += count;
    zeros_ += count_bins(values.data() + i, count, std::ldexp(1.0F, -exponent_), fresh_.data());
  }
  extremes_.merge(extremes);
  return extremes;
}

/// The least exponent from -126 on with largest < kBins 2^exponent.
void Histogram::make_room(float largest) {
  constexpr int kLeast = -126;
  int exponent = 0;
  (void)std::frexp(largest, &exponent);  // largest < 2^exponent, and not below half of it
  exponent = std::max(exponent - kBinBits, kLeast);
  if (fresh_.empty()) {
    fresh_.resize(2 * kBins);
  }
  if (exponent_ == kNone) {
    exponent_ = exponent;
  } else if (exponent > exponent_) {
    widen(exponent);
  }
}

void Histogram::widen(int exponent) {
  const int shift = exponent - exponent_;
  join_bins(fresh_, shift);
  join_bins(counts_, shift);
  exponent_ = exponent;
}

void Histogram::flush() {
  if (fresh_total_ == 0) {
    return;
  }
  counts_.resize(2 * kBins);
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += fresh_[i];
    fresh_[i] = 0;
  }
  fresh_total_ = 0;
}

void Histogram::merge(const Histogram& other) {
  zeros_ += other.zeros_;
  total_ += other.total_;
  extremes_.merge(other.extremes_);
  if (other.exponent_ == kNone) {
    return;
  }
  flush();
  counts_.resize(2 * kBins);
  int shift = 0;
  if (exponent_ == kNone) {
    exponent_ = other.exponent_;
  } else if (other.exponent_ > exponent_) {
    widen(other.exponent_);
  } else {
    shift = std::min(exponent_ - other.exponent_, kBinBits);
  }
  for (std::size_t first = 0; first < 2 * kBins; first += kBins) {
    for (std::size_t k = 0; k < kBins; ++k) {
      const std::uint64_t fresh = other.fresh_.empty() ? 0 : other.fresh_[first + k];
      const std::uint64_t count = other.counts_.empty() ? 0 : other.counts_[first + k];
      counts_[first + (k >> shift)] += fresh + count;
    }
  }
}

void Histogram::clear() {
  exponent_ = kNone;
  std::fill(fresh_.begin(), fresh_.end(), 0);
  fresh_total_ = 0;
  counts_.clear();
  zeros_ = 0;
  total_ = 0;
  extremes_ = {};
}

double Histogram::width() const { return exponent_ == kNone ? 0.0 : std::ldexp(1.0, exponent_); }

std::vector<std::uint64_t> Histogram::side(std::size_t first) const {
  std::vector<std::uint64_t> bins(kBins);
  std::size_t used = 0;
  for (std::size_t k = 0; k < kBins; ++k) {
    bins[k] = (fresh_.empty() ? 0 : fresh_[first + k]) + (counts_.empty() ? 0 : counts_[first + k]);
    used = bins[k] != 0 ? k + 1 : used;
  }
  bins.resize(used);
  return bins;
}

std::vector<std::uint64_t> Histogram::positive() const { return side(0); }
std::vector<std::uint64_t> Histogram::negative() const { return side(kBins); }

bool Histogram::operator==(const Histogram& other) const {
  return exponent_ == other.exponent_ && zeros_ == other.zeros_ && total_ == other.total_ &&
         extremes_.min == other.extremes_.min && extremes_.max == other.extremes_.max &&
         positive() == other.positive() && negative() == other.negative();
}

void Histogram::append_to(std::vector<std::byte>& bytes) const {
  append(bytes, exponent_);
  append(bytes, zeros_);
  append(bytes, total_);
  append(bytes, extremes_.min);
  append(bytes, extremes_.max);
  for (const std::vector<std::uint64_t>& bins : {positive(), negative()}) {
    append(bytes, static_cast<std::uint32_t>(bins.size()));
    for (const std::uint64_t count : bins) {
      append(bytes, count);
    }
  }
}

Histogram Histogram::take_from(std::span<const std::byte>& bytes) {
  Histogram histogram;
  histogram.exponent_ = take<int>(bytes);
  histogram.zeros_ = take<std::uint64_t>(bytes);
  histogram.total_ = take<std::uint64_t>(bytes);
  histogram.extremes_.min = take<float>(bytes);
  histogram.extremes_.max = take<float>(bytes);
  for (std::size_t first = 0; first < 2 * kBins; first += kBins) {
    const auto used = take<std::uint32_t>(bytes);
    if (used > kBins) {
      throw Error(ErrorCode::kIo, "a stored histogram has too many bins");
    }
    histogram.counts_.resize(2 * kBins);
    for (std::size_t k = 0; k < used; ++k) {
      histogram.counts_[first + k] = take<std::uint64_t>(bytes);
    }
  }
  return histogram;
}

}  // namespace tempera::compress
