#include "tempera/data/npy.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/base/random.h"

namespace tempera::data {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

// Written by numpy: see make_arrays.py there.
std::filesystem::path test_file(const std::string& name) {
  const char* root = std::getenv("TEMPERA_SOURCE_DIR");
  return std::filesystem::path(root == nullptr ? "." : root) / "tempera/data/testdata" / name;
}

std::string message_of(std::span<const std::byte> bytes) {
  try {
    (void)decode_npy(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "no error";
}

std::string message_of(const std::string& file) { return message_of(read_file(test_file(file))); }

std::vector<std::byte> with_header(std::string dict, const std::string& data = "") {
  dict += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(dict.size() & 0xFF);
  text += static_cast<char>(dict.size() >> 8);
  text += dict + data;
  const auto raw = std::as_bytes(std::span(text.data(), text.size()));
  return {raw.begin(), raw.end()};
}

struct TypeCase {
  const char* name;
  DataType type;
};

class NpyTypeTest : public testing::TestWithParam<TypeCase> {};

TEST_P(NpyTypeTest, ReadsWhatNumpyWroteInBothByteOrders) {
  const auto& [name, type] = GetParam();
  for (const char* order : {"little", "big"}) {
    const Tensor tensor = read_npy(test_file(std::string(name) + "_" + order + ".npy"));
    EXPECT_EQ(tensor.type(), type);
    ASSERT_EQ(tensor.dims(), (Dims{2, 3}));
    if (type == DataType::kBool) {
      EXPECT_THAT(graph::to_doubles(tensor), ElementsAre(0, 1, 1, 1, 1, 1));
    } else {
      EXPECT_THAT(graph::to_doubles(tensor), ElementsAre(0, 1, 2, 3, 4, 5)) << name << order;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, NpyTypeTest,
                         testing::Values(TypeCase{"b1", DataType::kBool}, TypeCase{"i1", DataType::kInt8},
                                         TypeCase{"i2", DataType::kInt16}, TypeCase{"i4", DataType::kInt32},
                                         TypeCase{"i8", DataType::kInt64}, TypeCase{"u1", DataType::kUint8},
                                         TypeCase{"u2", DataType::kUint16}, TypeCase{"u4", DataType::kUint32},
                                         TypeCase{"u8", DataType::kUint64},
                                         TypeCase{"f2", DataType::kFloat16},
                                         TypeCase{"f4", DataType::kFloat32},
                                         TypeCase{"f8", DataType::kFloat64},
                                         TypeCase{"f16", DataType::kFloat64}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(NpyTest, ComplexKeepsRealAndImaginaryPartInPlace) {
  for (const char* name : {"c8_little", "c8_big"}) {
    const Tensor tensor = read_npy(test_file(std::string(name) + ".npy"));
    ASSERT_EQ(tensor.type(), DataType::kComplex64);
    ASSERT_EQ(tensor.bytes().size(), 48U);
    const auto* parts = reinterpret_cast<const float*>(tensor.bytes().data());
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(parts[2 * i], static_cast<float>(i));
      EXPECT_EQ(parts[2 * i + 1], 0.0F);
    }
  }
  EXPECT_EQ(read_npy(test_file("c16_big.npy")).type(), DataType::kComplex128);
}

TEST(NpyTest, FortranOrderBecomesRowMajor) {
  const Tensor tensor = read_npy(test_file("fortran.npy"));
  EXPECT_TRUE(decode_npy_header(read_file(test_file("fortran.npy"))).fortran_order);
  ASSERT_EQ(tensor.dims(), (Dims{2, 3, 4}));
  for (int i = 0; i < 24; ++i) {
    EXPECT_EQ(tensor.values<std::int32_t>()[static_cast<std::size_t>(i)], i);
  }
}

TEST(NpyTest, ScalarEmptyAndLaterVersions) {
  EXPECT_EQ(read_npy(test_file("scalar.npy")).dims(), Dims{});
  EXPECT_THAT(graph::to_doubles(read_npy(test_file("scalar.npy"))), ElementsAre(2.5));
  EXPECT_EQ(read_npy(test_file("empty.npy")).dims(), (Dims{0, 3}));
  EXPECT_THAT(graph::to_doubles(read_npy(test_file("version2.npy"))), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(graph::to_doubles(read_npy(test_file("version3.npy"))), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(NpyTest, TextBecomesUtf8) {
  const Tensor text = read_npy(test_file("text.npy"));
  EXPECT_THAT(text.string_values(), ElementsAre("a", "", "grün", "\U0001f600"));
  EXPECT_THAT(read_npy(test_file("text_big.npy")).string_values(), ElementsAre("ab", "c"));
  EXPECT_THAT(read_npy(test_file("bytes.npy")).string_values(), ElementsAre("ab", "c"));
}

TEST(NpyTest, LongDoubleIsRoundedToDouble) {
  const std::vector<double> values = graph::to_doubles(read_npy(test_file("special_f16.npy")));
  ASSERT_EQ(values.size(), 5U);
  EXPECT_EQ(values[0], std::numeric_limits<double>::infinity());
  EXPECT_EQ(values[1], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_TRUE(values[3] == 0.0 && std::signbit(values[3]));
  EXPECT_EQ(values[4], 1.0 / 3);
}

TEST(NpyTest, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(message_of("object.npy"), HasSubstr("pickled Python objects"));
  EXPECT_THAT(message_of("record.npy"), HasSubstr("records"));
  EXPECT_THAT(message_of("time.npy"), HasSubstr("'<M8[D]' (time)"));
}

TEST(NpyTest, DamagedHeadersAreErrors) {
  EXPECT_THAT(message_of(std::span<const std::byte>()), HasSubstr("\\x93NUMPY"));
  EXPECT_THAT(message_of(with_header("{'descr': '<f4', 'fortran_order': False}")), HasSubstr("lacks"));
  EXPECT_THAT(message_of(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }")),
              HasSubstr("shape"));
  EXPECT_THAT(message_of(with_header("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }")),
              HasSubstr("fortran_order"));
  EXPECT_THAT(message_of(with_header("{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }")),
              HasSubstr("<f3"));
  EXPECT_THAT(message_of(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 'y'}")),
              HasSubstr("'x'"));
  EXPECT_THAT(message_of(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (), } trailing")),
              HasSubstr("goes on"));
}

TEST(NpyTest, SizesBeyondTheDataAreErrorsWithoutAllocation) {
  const auto sized = [](const std::string& shape, const std::string& descr = "<f4") {
    return with_header("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }",
                       "abcd");
  };
  EXPECT_EQ(message_of(sized("(1,)")), "no error");
  EXPECT_THAT(message_of(sized("(2,)")), HasSubstr("does not fit in the 4 bytes"));
  EXPECT_THAT(message_of(sized("(4611686018427387904, 4611686018427387904)")), HasSubstr("does not fit"));
  EXPECT_THAT(message_of(sized("(9223372036854775807,)")), HasSubstr("does not fit"));
  EXPECT_THAT(message_of(sized("(1000000000000,)", "<U0")), HasSubstr("does not fit"));
}

TEST(NpyTest, EncodingThenDecodingKeepsEveryType) {
  const std::vector<Tensor> tensors = {
      Tensor::from<float>({2, 2}, {1.5F, -0.0F, std::numeric_limits<float>::infinity(), 1e-42F}),
      Tensor::from<double>({1}, {0.1}),
      Tensor::from<std::int64_t>({3}, {1, -2, std::numeric_limits<std::int64_t>::min()}),
      Tensor::from<std::uint8_t>({}, {255}),
      Tensor::from<std::int16_t>({0, 4}, {}),
      Tensor::strings({2}, {"grün", ""})};
  for (const Tensor& tensor : tensors) {
    const std::vector<std::byte> bytes = encode_npy(tensor);
    EXPECT_TRUE(decode_npy(bytes).same_bytes(tensor)) << numeric::to_string(tensor.type());
    EXPECT_EQ(decode_npy_header(bytes).data_offset % 64, 0U);  // numpy.lib.format: aligned for mapping
  }
}

TEST(NpyTest, TypesNumpyLacksAreWidenedExactly) {
  const std::vector<std::byte> bf16 = {std::byte{0x80}, std::byte{0x3F}, std::byte{0x49}, std::byte{0xC0}};
  const Tensor wide = decode_npy(encode_npy(Tensor::from_bytes(DataType::kBfloat16, {2}, bf16)));
  EXPECT_EQ(wide.type(), DataType::kFloat32);
  EXPECT_THAT(graph::to_doubles(wide), ElementsAre(1.0, -3.140625));
  const std::vector<std::byte> int4 = {std::byte{0x7F}, std::byte{0x08}};
  const Tensor narrow = decode_npy(encode_npy(Tensor::from_bytes(DataType::kInt4, {3}, int4)));
  EXPECT_EQ(narrow.type(), DataType::kInt8);
  EXPECT_THAT(graph::to_doubles(narrow), ElementsAre(-1, 7, -8));
}

TEST(NpyTest, EveryTruncationAndManyByteChangesNeverCrash) {
  const std::vector<std::byte> good = read_file(test_file("fortran.npy"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW((void)decode_npy(std::span(good).first(size)), Error) << size;
  }
  const CounterRng rng(1);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bad = good;
    for (std::uint64_t change = 0; change <= rng.below(4 * i, 3); ++change) {
      bad[rng.below(8 * i + 2 * change + 1, bad.size())] =
          static_cast<std::byte>(rng.below(8 * i + 2 * change + 2, 256));
    }
    try {
      (void)decode_npy(bad);
    } catch (const Error&) {  // the only exception that may come
    }
  }
}

}  // namespace
}  // namespace tempera::data
