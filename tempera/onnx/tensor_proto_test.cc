#include "tempera/onnx/tensor_proto.h"

#include <array>
#include <limits>

#include "tempera/onnx/test_support.h"
#include "tempera/onnx/type_proto.h"

namespace tempera::onnx {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Tensor;

Tensor read(pb::TensorProto proto) {
  ExternalData none({}, {});
  return tensor_from(proto, none);
}

pb::TensorProto proto_of(DataType type, const Dims& dims) {
  pb::TensorProto proto;
  proto.set_data_type(static_cast<int>(type));
  proto.mutable_dims()->Add(dims.begin(), dims.end());
  return proto;
}

class EveryType : public ::testing::TestWithParam<int> {};

TEST_P(EveryType, SurvivesWritingAndReading) {
  const auto type = static_cast<DataType>(GetParam());
  const Dims dims = {3, 3};  // nine elements: not a whole number of bytes for 2, 4 and 6 bits
  Tensor tensor;
  if (type == DataType::kString) {
    tensor = Tensor::strings(dims, {"a", "", "b\0c", "\xff", "e", "f", "g", "h", "i"});
  } else {
    Tensor::Writable made = Tensor::allocate(type, dims);
    for (std::size_t i = 0; i < made.bytes.size(); ++i) {
      made.bytes[i] = static_cast<std::byte>(type == DataType::kBool ? i % 2 : 37 * i + 11);
    }
    tensor = made.tensor;
  }
  pb::TensorProto proto;
  tensor_to(tensor, proto);
  EXPECT_TRUE(read(proto).same_bytes(tensor));
}

INSTANTIATE_TEST_SUITE_P(Types, EveryType, ::testing::Range(1, 29), [](const auto& p) {
  return std::string(numeric::to_string(static_cast<DataType>(p.param)));
});

// The forms of onnx.proto: one element to an entry from 8 bits on and for 6 bits, a packed byte to an entry below.
struct TypedCase {
  DataType type;
  std::vector<std::int32_t> entries;
  Dims dims;
  std::vector<double> expected;
};

TEST(TypedFields, Int32DataHoldsTheNarrowTypes) {
  const std::vector<TypedCase> cases = {
      {DataType::kInt32, {-5, 7}, {2}, {-5, 7}},
      {DataType::kInt16, {-5, 7}, {2}, {-5, 7}},
      {DataType::kInt8, {-128, 127}, {2}, {-128, 127}},
      {DataType::kInt8, {255}, {1}, {-1}},  // the same code, read as unsigned
      {DataType::kUint8, {0, 255}, {2}, {0, 255}},
      {DataType::kUint16, {65535}, {1}, {65535}},
      {DataType::kBool, {0, 1}, {2}, {0, 1}},
      {DataType::kFloat16, {0x3c00, 0xc000}, {2}, {1, -2}},
      {DataType::kBfloat16, {0x3f80, 0xc000}, {2}, {1, -2}},
      {DataType::kFloat8E4M3FN, {0x38, 0xb8}, {2}, {1, -1}},
      {DataType::kFloat8E5M2, {0x3c}, {1}, {1}},
      {DataType::kFloat8E8M0, {127}, {1}, {1}},
      {DataType::kInt4, {0x81, 0x07}, {3}, {1, -8, 7}},
      {DataType::kUint4, {0xf1}, {2}, {1, 15}},
      {DataType::kFloat4E2M1, {0x21}, {2}, {0.5, 1}},
      {DataType::kInt2, {0b11100100}, {4}, {0, 1, -2, -1}},
      {DataType::kUint2, {0b11100100, 2}, {5}, {0, 1, 2, 3, 2}},
      // e2m3, bias 1: 0b001000 = 2^0 (1 + 0/8) = 1; 0b100001 = -1/8; 0b011111 = 4 (1 + 7/8) = 7.5
      {DataType::kFloat6E2M3, {0b001000, 0b100001, 0b011111, 0b001000, 0b100001}, {5}, {1, -0.125, 7.5, 1, -0.125}},
  };
  for (const TypedCase& one : cases) {
    SCOPED_TRACE(numeric::to_string(one.type));
    pb::TensorProto proto = proto_of(one.type, one.dims);
    proto.mutable_int32_data()->Add(one.entries.begin(), one.entries.end());
    EXPECT_EQ(graph::to_doubles(read(proto)), one.expected);
  }
}

TEST(TypedFields, WideTypesHaveFieldsOfTheirOwn) {
  pb::TensorProto doubles = proto_of(DataType::kFloat64, {1});
  doubles.add_double_data(0.1);
  EXPECT_EQ(read(doubles).values<double>()[0], 0.1);
  pb::TensorProto longs = proto_of(DataType::kInt64, {1});
  longs.add_int64_data(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(read(longs).values<std::int64_t>()[0], std::numeric_limits<std::int64_t>::min());
  pb::TensorProto words = proto_of(DataType::kUint32, {1});
  words.add_uint64_data(4294967295U);
  EXPECT_EQ(read(words).values<std::uint32_t>()[0], 4294967295U);
  pb::TensorProto complex = proto_of(DataType::kComplex64, {1});
  complex.add_float_data(1);
  complex.add_float_data(-2);
  EXPECT_EQ(read(complex).bytes().size(), 8U);
}

TEST(TypedFields, ValuesBeyondTheTypeAreRefused) {
  pb::TensorProto proto = proto_of(DataType::kUint8, {1});
  proto.add_int32_data(256);
  EXPECT_THROW(read(proto), Error);
  pb::TensorProto word = proto_of(DataType::kUint32, {1});
  word.add_uint64_data(std::uint64_t{1} << 32);
  EXPECT_THROW(read(word), Error);
}

TEST(BadTensors, SizesMustFit) {
  pb::TensorProto few = proto_of(DataType::kFloat32, {3});
  few.set_raw_data(std::string(8, '\0'));
  EXPECT_STREQ(error_of([&] { read(few); }).what(), "float[3] needs 12 bytes of raw data, got 8");
  pb::TensorProto typed = proto_of(DataType::kFloat32, {3});
  typed.add_float_data(1);
  EXPECT_STREQ(error_of([&] { read(typed); }).what(), "float[3] needs 3 entries of float_data, got 1");
  pb::TensorProto strings = proto_of(DataType::kString, {2});
  strings.add_string_data("x");
  EXPECT_THROW(read(strings), Error);
}

TEST(BadTensors, HugeDimensionsWithoutDataAreRefusedBeforeAnyAllocation) {
  for (const Dims& dims : {Dims{std::int64_t{1} << 40}, Dims{std::int64_t{1} << 40, std::int64_t{1} << 40}, Dims{-1},
                           Dims{std::numeric_limits<std::int64_t>::max()}}) {
    for (int type = 1; type < 29; ++type) {
      EXPECT_EQ(error_of([&] { read(proto_of(static_cast<DataType>(type), dims)); }).code(), ErrorCode::kBadModel);
    }
  }
}

TEST(BadTensors, UnknownTypesAndFormsAreRefused) {
  EXPECT_THROW(read(proto_of(DataType::kUndefined, {0})), Error);
  pb::TensorProto future;
  future.set_data_type(99);
  EXPECT_THROW(read(future), Error);
  pb::TensorProto text = proto_of(DataType::kString, {1});
  text.set_raw_data("x");
  EXPECT_THROW(read(text), Error);
  pb::TensorProto part = proto_of(DataType::kFloat32, {0});
  part.mutable_segment()->set_begin(0);
  EXPECT_THROW(read(part), Error);
}

TEST(Tensors, AnyByteButZeroIsTrue) {
  pb::TensorProto proto = proto_of(DataType::kBool, {3});
  proto.set_raw_data(std::string("\0\1\7", 3));
  const Tensor tensor = read(proto);
  EXPECT_EQ(graph::to_doubles(tensor), (std::vector<double>{0, 1, 1}));
}

TEST(Tensors, EmptyOnesAndScalarsAreKept) {
  EXPECT_EQ(read(proto_of(DataType::kFloat32, {0, 3})).dims(), (Dims{0, 3}));
  pb::TensorProto scalar = proto_of(DataType::kInt64, {});
  scalar.add_int64_data(4);
  EXPECT_EQ(read(scalar).rank(), 0);
}

TEST(Tensors, RawDataIsTakenOverWithoutACopy) {
  pb::TensorProto proto = proto_of(DataType::kFloat32, {1024});
  proto.set_raw_data(std::string(4096, '\0'));
  const void* address = proto.raw_data().data();
  ExternalData none({}, {});
  EXPECT_EQ(tensor_from(proto, none).bytes().data(), address);
}

TEST(SparseTensors, IndicesMustLieInside) {
  pb::SparseTensorProto proto;
  proto.mutable_dims()->Add(4);
  tensor_to(Tensor::from<float>({2}, {1, 2}), *proto.mutable_values());
  tensor_to(Tensor::from<std::int64_t>({2}, {0, 3}), *proto.mutable_indices());
  ExternalData none({}, {});
  pb::SparseTensorProto good = proto;
  EXPECT_EQ(sparse_from(good, none).values.size(), 2);
  proto.mutable_indices()->Clear();
  tensor_to(Tensor::from<std::int64_t>({2}, {0, 4}), *proto.mutable_indices());
  EXPECT_THROW(sparse_from(proto, none), Error);
}

TEST(Types, EveryKindSurvives) {
  using graph::Dim;
  using graph::ValueType;
  ValueType tensor = ValueType::tensor(DataType::kFloat16, graph::Shape{Dim(3), Dim("batch"), Dim()});
  tensor.denotation = "IMAGE";
  (*tensor.shape)[1].denotation = "DATA_BATCH";
  ValueType sequence;
  sequence.kind = ValueType::Kind::kSequence;
  sequence.inner = std::make_shared<const ValueType>(tensor);
  ValueType optional;
  optional.kind = ValueType::Kind::kOptional;
  optional.inner = std::make_shared<const ValueType>(sequence);
  ValueType map;
  map.kind = ValueType::Kind::kMap;
  map.element = DataType::kString;
  map.inner = std::make_shared<const ValueType>(optional);
  ValueType sparse = tensor;
  sparse.kind = ValueType::Kind::kSparseTensor;
  ValueType opaque;
  opaque.kind = ValueType::Kind::kOpaque;
  opaque.opaque = "some/domain/Name";
  for (const ValueType& type : {tensor, sequence, optional, map, sparse, opaque, ValueType{}}) {
    pb::TypeProto proto;
    type_to(type, proto);
    const ValueType again = type_from(proto, 8);
    EXPECT_TRUE(graph::same_type(type, again)) << graph::to_string(type) << " became " << graph::to_string(again);
  }
  pb::TypeProto proto;
  type_to(tensor, proto);
  EXPECT_EQ(type_from(proto, 8).shape->at(1).denotation, "DATA_BATCH");
}

TEST(Types, DeepNestingIsRefused) {
  pb::TypeProto proto;
  pb::TypeProto* at = &proto;
  for (int i = 0; i < 20; ++i) {
    at = at->mutable_sequence_type()->mutable_elem_type();
  }
  EXPECT_THROW((void)type_from(proto, 8), Error);
  EXPECT_NO_THROW((void)type_from(proto, 20));
}

}  // namespace
}  // namespace tempera::onnx
