#include "tempera/onnx/external_data.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "tempera/onnx/test_support.h"
#include "tempera/onnx/write.h"

namespace tempera::onnx {
namespace {
namespace fs = std::filesystem;

// A model whose output is its weight `w`, float32 of so many elements, in an external file.
pb::ModelProto model_with(const std::map<std::string, std::string>& entries, std::int64_t elements = 2) {
  pb::ModelProto proto;
  proto.set_ir_version(8);
  pb::OperatorSetIdProto& opset = *proto.add_opset_import();
  opset.set_version(17);
  pb::GraphProto& graph = *proto.mutable_graph();
  graph.set_name("g");
  pb::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name("w");
  tensor.add_dims(elements);
  tensor.set_data_type(pb::TensorProto::FLOAT);
  tensor.set_data_location(pb::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    pb::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  pb::NodeProto& node = *graph.add_node();
  node.set_op_type("Neg");
  node.add_input("w");
  node.add_output("y");
  pb::ValueInfoProto& output = *graph.add_output();
  output.set_name("y");
  output.mutable_type()->mutable_tensor_type()->set_elem_type(pb::TensorProto::FLOAT);
  return proto;
}

class ExternalDataTest : public ::testing::Test {
 protected:
  ExternalDataTest() {
    const std::array<float, 4> numbers = {1, 2, 3, 4};
    write_bytes(folder / "w.bin", std::string(reinterpret_cast<const char*>(numbers.data()), sizeof(numbers)));
  }

  fs::path write(const pb::ModelProto& proto) {
    const fs::path path = folder / "m.onnx";
    write_bytes(path, proto.SerializeAsString());
    return path;
  }

  Error refused(const std::map<std::string, std::string>& entries) {
    const fs::path path = write(model_with(entries));
    return error_of([&] { (void)read_model(path); });
  }

  TemporaryFolder folder;
};

TEST_F(ExternalDataTest, OffsetAndLengthSelectTheBytes) {
  const graph::Model model =
      read_model(write(model_with({{"location", "w.bin"}, {"offset", "8"}, {"length", "8"}, {"checksum", "0"}})));
  const auto w = value_of(model.graph, "w").constant->values<float>();
  EXPECT_EQ(w[0], 3);
  EXPECT_EQ(w[1], 4);
}

TEST_F(ExternalDataTest, ASubfolderIsInside) {
  fs::create_directory(folder / "weights");
  fs::copy_file(folder / "w.bin", folder / "weights/w.bin");
  EXPECT_NO_THROW((void)read_model(write(model_with({{"location", "weights/w.bin"}}))));
}

TEST_F(ExternalDataTest, PathsThatLeaveTheFolderAreRefused) {
  const fs::path outside = folder.path().parent_path() / (folder.path().filename().string() + "_outside.bin");
  fs::copy_file(folder / "w.bin", outside);
  fs::create_symlink(outside, folder / "link.bin");
  fs::create_directory_symlink("/", folder / "root");
  for (const std::string& location :
       {outside.string(), "../" + outside.filename().string(), std::string("a/../../x"), std::string("link.bin"),
        std::string("root/etc/hostname"), std::string("."), std::string(""), std::string("w.bin\0x", 7)}) {
    const Error error = refused({{"location", location}});
    EXPECT_TRUE(error.code() == ErrorCode::kBadModel || error.code() == ErrorCode::kIo) << location << error.text();
  }
  fs::remove(outside);
}

TEST_F(ExternalDataTest, ALinkInsideTheFolderIsFine) {
  fs::create_symlink("w.bin", folder / "link.bin");
  EXPECT_NO_THROW((void)read_model(write(model_with({{"location", "link.bin"}}))));
}

// As in stores that keep files by content and show them as links elsewhere.
TEST_F(ExternalDataTest, AModelThatIsALinkMayHaveItsDataBesideTheFileItself) {
  write(model_with({{"location", "w.bin"}}));
  const TemporaryFolder view;
  fs::create_symlink(folder / "m.onnx", view / "m.onnx");
  fs::create_symlink(folder / "w.bin", view / "w.bin");
  EXPECT_NO_THROW((void)read_model(view / "m.onnx"));
}

TEST_F(ExternalDataTest, DataPastTheEndNamesTensorAndFile) {
  for (const char* offset : {"12", "16", "17", "18446744073709551615"}) {
    const Error error = refused({{"location", "w.bin"}, {"offset", offset}});
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_NE(error.text().find("w.bin"), std::string::npos);
    EXPECT_NE(error.text().find("initializer 'w'"), std::string::npos);
  }
}

TEST_F(ExternalDataTest, NumbersMustBeNumbersAndFit) {
  EXPECT_EQ(refused({{"location", "w.bin"}, {"offset", "-4"}}).code(), ErrorCode::kBadModel);
  EXPECT_EQ(refused({{"location", "w.bin"}, {"offset", "1x"}}).code(), ErrorCode::kBadModel);
  EXPECT_EQ(refused({{"location", "w.bin"}, {"offset", "99999999999999999999999"}}).code(), ErrorCode::kBadModel);
  EXPECT_EQ(refused({{"location", "w.bin"}, {"length", "4"}}).code(), ErrorCode::kBadModel);
  EXPECT_EQ(refused({}).code(), ErrorCode::kBadModel);
}

TEST_F(ExternalDataTest, AMissingFileIsNotFoundAndAPipeDoesNotHang) {
  EXPECT_EQ(refused({{"location", "none.bin"}}).code(), ErrorCode::kNotFound);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused({{"location", "pipe"}}).code(), ErrorCode::kIo);
}

TEST_F(ExternalDataTest, AModelFromMemoryHasNoExternalData) {
  EXPECT_EQ(error_of([&] { (void)read_proto(model_with({{"location", "w.bin"}})); }).code(), ErrorCode::kBadModel);
}

TEST_F(ExternalDataTest, UnalignedDataIsReadable) {
  const graph::Model model = read_model(write(model_with({{"location", "w.bin"}, {"offset", "3"}, {"length", "8"}})));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(value_of(model.graph, "w").constant->values<float>().data()) % 4, 0U);
}

TEST_F(ExternalDataTest, ThreeGigabytesAreMappedAndNotRead) {
  constexpr std::int64_t kElements = 768 << 20;  // 3 GiB of float32
  std::ofstream(folder / "big.bin").close();
  fs::resize_file(folder / "big.bin", kElements * 4);  // sparse: takes no disk
  const fs::path path = write(model_with({{"location", "big.bin"}}, kElements));
  const auto resident_kb = [] {
    struct rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const long before_kb = resident_kb();
  const auto start = std::chrono::steady_clock::now();
  const graph::Model model = read_model(path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(graph::weight_size(model.graph).bytes, kElements * 4);
  EXPECT_LT(seconds.count(), 2);
  EXPECT_LT(resident_kb() - before_kb, 200 << 10);
  EXPECT_EQ(value_of(model.graph, "w").constant->values<float>()[kElements - 1], 0);
}

}  // namespace
}  // namespace tempera::onnx
