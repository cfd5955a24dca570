#include "tempera/compress/quantize/emit.h"

#include <cmath>
#include <utility>
#include <vector>

#include "tempera/numeric/convert.h"
#include "tempera/numeric/pack.h"
#include "tempera/ops/builder.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::Tensor;
using graph::ValueId;
using graph::ValueType;

Tensor encoded(DataType type, Dims dims, const std::vector<float>& values) {
  Tensor::Writable made = Tensor::allocate(type, std::move(dims));
  numeric::encode(type, values, made.bytes);
  return std::move(made.tensor);
}

class Emitter {
 public:
  Emitter(graph::Graph& graph, std::int64_t opset, const EncodedWeight& weight, const std::string& name)
      : graph_(graph), build_(graph, opset, name), weight_(weight), view_(weight.view), name_(name) {}

  ValueId emit(const StoredFormat& stored, DataType type) {
    ValueId value = decoded(stored);
    if (type != DataType::kFloat32) {
      value = cast(value, type);
    }
    graph_.set_type(value, ValueType::tensor(type, graph::shape_of(view_.dims)));
    return value;
  }

 private:
  ValueId decoded(const StoredFormat& stored) {
    switch (stored.form) {
      case StoredForm::kDequantize: return dequantize(stored.rows_first);
      case StoredForm::kDequantizeBlocks: return restore(dequantize_blocks());
      case StoredForm::kPacked: return restore(scaled(levels()));
      case StoredForm::kTable: return restore(scaled(looked_up()));
    }
    return {};
  }

  // One scale, or one a row: codes may lie as the weight does where the rows are one of its axes.
  ValueId dequantize(bool rows_first) {
    const bool own = weight_.block == 0 || (view_.has_row_axis() && (view_.is_plain() || !rows_first));
    const ValueId codes = typed_codes(own ? from_rows(view_, weight_.codes) : weight_.codes,
                                      own ? view_.dims : Dims{view_.rows, view_.columns});
    if (weight_.block == 0) {
      return build_.node("DequantizeLinear", {codes, scales({})});
    }
    const ValueId value = build_.node("DequantizeLinear", {codes, scales({view_.rows})},
                                      {{"axis", own ? view_.row_axis() : std::int64_t{0}}});
    return own ? value : restore(value);
  }

  ValueId dequantize_blocks() {
    const ValueId codes = typed_codes(weight_.codes, {view_.rows, view_.columns});
    return build_.node("DequantizeLinear", {codes, scales({view_.rows, weight_.blocks()})},
                       {{"axis", std::int64_t{1}}, {"block_size", weight_.block}});
  }

  ValueId typed_codes(const std::vector<std::uint8_t>& codes, Dims dims) {
    const CodeBook& book = code_book(weight_.format);
    std::vector<std::uint8_t> stored(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) {  // two's complement
      stored[i] = static_cast<std::uint8_t>((codes[i] - book.offset) & ((1 << book.bits) - 1));
    }
    const std::vector<std::uint8_t> bytes = numeric::pack_codes(stored, book.bits);
    return graph_.add_initializer(name_ + "_quantized",
                                  Tensor::from_bytes(book.type, std::move(dims), std::as_bytes(std::span(bytes))));
  }

  ValueId packed_codes(int bits, Dims dims) {
    const std::vector<std::uint8_t> bytes = numeric::pack_codes(weight_.codes, bits);
    return graph_.add_initializer(
        name_ + "_quantized", Tensor::from_bytes(DataType::kUint8, std::move(dims), std::as_bytes(std::span(bytes))));
  }

  // [rows, columns] of whole numbers.
  ValueId levels() {
    const CodeBook& book = code_book(weight_.format);
    const std::int64_t in_a_byte = 8 / book.bits;
    const std::int64_t count = view_.rows * view_.columns;
    const std::int64_t bytes = (count + in_a_byte - 1) / in_a_byte;
    ValueId value = cast(packed_codes(book.bits, {bytes, 1}), DataType::kFloat32);
    if (book.bits < 8) {
      // Code k of p is floor(p 2^-bk) - 2^b floor(p 2^-b(k+1)). Exact in any float type of 8 mantissa bits; shifts and
      // masks of integers are not: OpenVINO 2026.4 folds BitShift and BitwiseAnd on uint8 to wrong numbers.
      std::vector<float> shifts;
      for (std::int64_t k = 0; k < in_a_byte; ++k) {
        shifts.push_back(std::ldexp(1.0F, -book.bits * static_cast<int>(k)));
      }
      value = build_.node("Floor", {multiply(value, constant(shifts, {1, in_a_byte}))});
      const ValueId above = build_.node("Floor", {multiply(value, number(std::ldexp(1.0F, -book.bits)))});
      value = build_.node("Sub", {value, multiply(above, number(std::ldexp(1.0F, book.bits)))});
    }
    if (bytes * in_a_byte != count) {
      value = build_.slice(build_.reshape(value, {-1}), {0}, {count}, {0});
    }
    if (weight_.format == WeightFormat::kBinary) {
      value = build_.node("Sub", {multiply(value, number(2.0F)), number(1.0F)});
    } else {
      value = build_.node("Sub", {value, number(static_cast<float>(book.offset))});
    }
    return build_.reshape(value, {view_.rows, view_.columns});
  }

  ValueId looked_up() {
    const ValueId codes = packed_codes(8, {view_.rows, view_.columns});
    const ValueId table = constant(level_table(weight_.format), {256});
    return build_.node("Gather", {table, cast(codes, DataType::kInt32)}, {{"axis", std::int64_t{0}}});
  }

  // A matrix of levels times its scales.
  ValueId scaled(ValueId matrix) {
    if (weight_.block == 0) {
      return multiply(matrix, scales({}));
    }
    const std::int64_t blocks = weight_.blocks();
    if (blocks == 1) {
      return multiply(matrix, scales({view_.rows, 1}));
    }
    // Each scale repeated over its block, and cut where the last one is shorter.
    ValueId spread = build_.node("Expand", {scales({view_.rows, blocks, 1}), build_.ints({view_.rows, blocks, weight_.block})});
    spread = build_.reshape(spread, {view_.rows, blocks * weight_.block});
    if (blocks * weight_.block != view_.columns) {
      spread = build_.slice(spread, {0}, {view_.columns}, {1});
    }
    return multiply(matrix, spread);
  }

  // float32, whatever they are stored as.
  ValueId scales(Dims dims) {
    const ValueId stored =
        graph_.add_initializer(name_ + "_scale", encoded(weight_.scale_type, std::move(dims), weight_.scales));
    return weight_.scale_type == DataType::kFloat32 ? stored : cast(stored, DataType::kFloat32);
  }

  // The matrix as the weight.
  ValueId restore(ValueId matrix) {
    const Dims dims = view_.permuted_dims();
    ValueId value = dims == Dims{view_.rows, view_.columns} ? matrix : build_.reshape(matrix, dims);
    return view_.is_plain() ? value : build_.node("Transpose", {value}, {{"perm", view_.inverse()}});
  }

  ValueId cast(ValueId value, DataType type) {
    return build_.node("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}});
  }
  ValueId multiply(ValueId a, ValueId b) { return build_.node("Mul", {a, b}); }
  ValueId number(float value) { return build_.scalar(value, DataType::kFloat32); }
  ValueId constant(const std::vector<float>& values, Dims dims) {
    return build_.constant(encoded(DataType::kFloat32, std::move(dims), values));
  }

  graph::Graph& graph_;
  ops::Builder build_;
  const EncodedWeight& weight_;
  const WeightView& view_;
  const std::string& name_;
};

}  // namespace

StoredFormat stored_format(const WeightView& view, WeightFormat format, const Granularity& granularity,
                           const QuantizeOptions& options) {
  const bool rows_first = options.target != Target::kOnnxruntime;
  const bool blocks = granularity.kind == Granularity::Kind::kBlock && granularity.block < view.columns;
  const bool ragged = blocks && view.columns % granularity.block != 0;
  const bool float8 = format == WeightFormat::kFloat8E4M3FN || format == WeightFormat::kFloat8E5M2;
  if (code_book(format).type == DataType::kUndefined) {
    return {StoredForm::kPacked, 13, true};
  }
  const bool dequantizes = !ragged || options.target == Target::kOnnxruntime;
  const bool is_new = blocks || format != WeightFormat::kInt8;
  if (!dequantizes || (is_new && options.older_readers)) {
    return {float8 ? StoredForm::kTable : StoredForm::kPacked, 13, true};
  }
  if (blocks) {
    return {StoredForm::kDequantizeBlocks, 21, true};
  }
  return {StoredForm::kDequantize, format == WeightFormat::kInt4 ? 21 : float8 ? 19 : 13, rows_first};
}

graph::ValueId emit_weight(graph::Graph& graph, std::int64_t opset, const EncodedWeight& weight,
                           const StoredFormat& stored, DataType type, const std::string& name) {
  return Emitter(graph, opset, weight, name).emit(stored, type);
}

}  // namespace tempera::compress
