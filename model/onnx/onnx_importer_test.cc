#include "model/onnx/onnx_importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "model/onnx/model_builder.h"
#include "model/onnx/onnx_summary.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// y = x + c for a constant that the test fills in.
struct Addition {
  explicit Addition(const Shape& shape, int type = onnx::TensorProto::FLOAT) : builder(13) {
    builder.Input("x", shape, type);
    tensor = &builder.Tensor("c", shape, type);
    builder.Node("Add", {"x", "c"}, {"y"});
    builder.Output("y");
  }
  absl::Status Status(const ImportOptions& options = {}) const {
    return builder.Import(options).status();
  }
  // The constant's bytes, read in two windows.
  std::vector<std::byte> Contents() const {
    const Graph graph = builder.Imported();
    if (graph.nodes.empty()) return {};
    const Constant& constant = *graph.value(*graph.nodes.back().inputs[1]).constant;
    std::vector<std::byte> bytes(constant.size().count());
    const std::size_t half = bytes.size() / 2;
    EXPECT_TRUE(constant.Read(Bytes(), std::span(bytes).first(half)).ok());
    EXPECT_TRUE(constant.Read(Bytes::Of(half), std::span(bytes).subspan(half)).ok());
    return bytes;
  }

  ModelBuilder builder;
  onnx::TensorProto* tensor;
};

template <typename T>
std::vector<T> As(const std::vector<std::byte>& bytes) {
  std::vector<T> elements(bytes.size() / sizeof(T));
  std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

// Below and above the size at which contents stay in the file.
class TensorContentsTest : public testing::TestWithParam<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(SmallAndLarge, TensorContentsTest, testing::Values(7, 5000));

TEST_P(TensorContentsTest, RawFloats) {
  Addition m({GetParam()});
  std::vector<float> want(static_cast<std::size_t>(GetParam()));
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = static_cast<float>(i) * 0.5f;
  m.tensor->set_raw_data(want.data(), want.size() * 4);
  EXPECT_EQ(As<float>(m.Contents()), want);
}

TEST_P(TensorContentsTest, TypedFloats) {
  Addition m({GetParam()});
  std::vector<float> want(static_cast<std::size_t>(GetParam()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = static_cast<float>(i) - 3;
    m.tensor->add_float_data(want[i]);
  }
  EXPECT_EQ(As<float>(m.Contents()), want);
}

TEST_P(TensorContentsTest, TypedDoubles) {
  Addition m({GetParam()}, onnx::TensorProto::DOUBLE);
  std::vector<double> want(static_cast<std::size_t>(GetParam()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = static_cast<double>(i) / 3;
    m.tensor->add_double_data(want[i]);
  }
  EXPECT_EQ(As<double>(m.Contents()), want);
}

TEST_P(TensorContentsTest, TypedIntegersAreVarints) {
  Addition m({GetParam()}, onnx::TensorProto::INT64);
  std::vector<std::int64_t> want(static_cast<std::size_t>(GetParam()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = (static_cast<std::int64_t>(i) - 2) * 12345678901;
    m.tensor->add_int64_data(want[i]);
  }
  EXPECT_EQ(As<std::int64_t>(m.Contents()), want);
}

TEST_P(TensorContentsTest, HalfFloatsAreBitsInIntegers) {
  Addition m({GetParam()}, onnx::TensorProto::FLOAT16);
  std::vector<float> want(static_cast<std::size_t>(GetParam()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = 1.0f + static_cast<float>(i % 1024) / 1024;
    m.tensor->add_int32_data(static_cast<std::int32_t>(0x3c00 + i % 1024));
  }
  EXPECT_EQ(As<float>(m.Contents()), want);
}

TEST_P(TensorContentsTest, NegativeBytesAreSignExtendedVarints) {
  Addition m({GetParam()}, onnx::TensorProto::INT8);
  std::vector<std::int8_t> want(static_cast<std::size_t>(GetParam()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    want[i] = static_cast<std::int8_t>(i);
    m.tensor->add_int32_data(want[i]);
  }
  EXPECT_EQ(As<std::int8_t>(m.Contents()), want);
}

TEST_P(TensorContentsTest, OfTheWrongLengthAreRefused) {
  Addition m({GetParam()});
  m.tensor->set_raw_data(std::string(static_cast<std::size_t>(GetParam()) * 4 + 4, 'x'));
  const absl::Status status = m.Status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("tensor \"c\": it has"));
}

TEST_P(TensorContentsTest, GivenTwiceAreRefused) {
  Addition m({GetParam()});
  m.tensor->set_raw_data(std::string(static_cast<std::size_t>(GetParam()) * 4, 'x'));
  m.tensor->add_float_data(1);
  EXPECT_THAT(Message(m.Status()), HasSubstr("twice"));
}

TEST_P(TensorContentsTest, InTheFieldOfAnotherTypeAreRefused) {
  Addition m({GetParam()});
  for (std::int64_t i = 0; i < GetParam(); ++i) m.tensor->add_double_data(1);
  EXPECT_EQ(m.Status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(TensorContentsTest, OfAnAttributeStayInTheFileToo) {
  ModelBuilder b(13);
  b.Input("x", {GetParam()});
  onnx::TensorProto& tensor = b.Node("Constant", {}, {"c"}).Tensor("value");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(GetParam());
  const std::vector<float> want(static_cast<std::size_t>(GetParam()), 1.5f);
  tensor.set_raw_data(want.data(), want.size() * 4);
  b.Node("Add", {"x", "c"}, {"y"});
  b.Output("y");
  const Graph graph = b.Imported();
  const Constant& constant = *graph.value(*graph.nodes.at(0).inputs[1]).constant;
  EXPECT_EQ(constant.in_memory().empty(), GetParam() > 1000);
  std::vector<float> found(want.size());
  ASSERT_TRUE(constant.Read(Bytes(), std::as_writable_bytes(std::span(found))).ok());
  EXPECT_EQ(found, want);
}

TEST(TensorTest, DimensionsThatOverflowOrAreNegativeAreRefused) {
  Addition negative({2});
  negative.tensor->set_dims(0, -2);
  EXPECT_THAT(Message(negative.Status()), HasSubstr("a dimension of -2"));
  Addition huge({2});
  huge.tensor->set_dims(0, std::int64_t{1} << 62);
  huge.tensor->add_dims(std::int64_t{1} << 62);
  EXPECT_EQ(huge.Status().code(), absl::StatusCode::kResourceExhausted);
}

class ExternalDataTest : public testing::Test {
 protected:
  ExternalDataTest() : m_({4}) {
    std::vector<float> contents = {9, 9, 1, 2, 3, 4};
    data_.assign(reinterpret_cast<const char*>(contents.data()), contents.size() * 4);
    m_.tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  }
  void Set(const std::string& key, const std::string& value) {
    auto& entry = *m_.tensor->add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  void WriteData(const std::string& name) {
    std::filesystem::create_directories((m_.builder.folder() / name).parent_path());
    std::ofstream(m_.builder.folder() / name, std::ios::binary) << data_;
  }
  Addition m_;
  std::string data_;
};

TEST_F(ExternalDataTest, IsReadWhereItLiesAndListed) {
  WriteData("sub/weights.bin");
  Set("location", "sub/weights.bin");
  Set("offset", "8");
  Set("length", "16");
  EXPECT_THAT(As<float>(m_.Contents()), ElementsAre(1, 2, 3, 4));
  const auto imported = m_.builder.Import();
  ASSERT_TRUE(imported.ok());
  ASSERT_EQ(imported->files.size(), 2u);
  EXPECT_EQ(imported->files[0].filename(), "model.onnx");
  EXPECT_EQ(imported->files[1].filename(), "weights.bin");
}

TEST_F(ExternalDataTest, MayNotLieOutsideTheFolder) {
  TemporaryFolder elsewhere;
  const auto outside = elsewhere.Write("weights.bin", data_);
  const std::filesystem::path folder = m_.builder.folder();
  std::filesystem::create_symlink(outside, folder / "link.bin");
  std::filesystem::create_symlink(elsewhere.path(), folder / "linked");
  WriteData("sub/weights.bin");
  const auto status_of = [&](const std::string& location, const ImportOptions& options = {}) {
    m_.tensor->clear_external_data();
    Set("location", location);
    return m_.Status(options);
  };
  for (const std::string& location :
       {outside.string(), (folder / "sub/weights.bin").string(), std::string("sub/../weights.bin"),
        "../" + elsewhere.path().filename().string() + "/weights.bin", std::string("..")}) {
    const absl::Status status = status_of(location);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << location;
    EXPECT_THAT(Message(status), HasSubstr("want a path from the model's folder")) << location;
  }
  for (const char* const location : {"link.bin", "linked/weights.bin"}) {
    const absl::Status status = status_of(location);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << location;
    EXPECT_THAT(Message(status), HasSubstr("outside the folder")) << location;
  }
  // Unless the folder is a wider one.
  EXPECT_TRUE(status_of("link.bin", {.root = elsewhere.path().parent_path()}).ok());
}

TEST_F(ExternalDataTest, IsAFile) {
  ASSERT_EQ(::mkfifo((m_.builder.folder() / "pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(m_.builder.folder() / "folder");
  for (const char* const location : {"pipe", "folder"}) {
    m_.tensor->clear_external_data();
    Set("location", location);
    EXPECT_THAT(Message(m_.Status()), HasSubstr("is not a regular file but")) << location;
  }
}

TEST_F(ExternalDataTest, BadEntriesAreRefused) {
  WriteData("w.bin");
  const auto status_of = [&](const std::vector<std::pair<std::string, std::string>>& entries) {
    m_.tensor->clear_external_data();
    for (const auto& [key, value] : entries) Set(key, value);
    return m_.Status();
  };
  EXPECT_THAT(Message(status_of({})), HasSubstr("names no location"));
  EXPECT_THAT(Message(status_of({{"location", "w.bin"}, {"location", "w.bin"}})),
              HasSubstr("twice"));
  EXPECT_THAT(Message(status_of({{"location", "w.bin"}, {"offset", "-8"}})),
              HasSubstr("offset \"-8\", want a number"));
  EXPECT_THAT(Message(status_of({{"location", "w.bin"}, {"length", "12"}})),
              HasSubstr("12 bytes of contents, want 16"));
  EXPECT_EQ(status_of({{"location", "w.bin"}, {"offset", "12"}}).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(status_of({{"location", "w.bin"}, {"offset", "18446744073709551615"}}).code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(status_of({{"location", "missing.bin"}}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status_of({{"location", "."}}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SymbolicDimsTest, AreGivenByNamePlaceOrRole) {
  ModelBuilder b(13);
  auto& x = b.Input("x", {-1, 3, -1, -1});
  b.NameDim(x, 0, "N");
  b.NameDim(x, 2, "h");
  b.Node("Relu", {"x"}, {"y"});
  b.Output("y");
  EXPECT_EQ(OutputShape(b.Imported({.dims = {{"N", 2}, {"h", 5}, {"x[3]", 7}}})),
            (Shape{2, 3, 5, 7}));
  EXPECT_EQ(OutputShape(b.Imported({.dims = {{"batch", 1}, {"height", 8}, {"width", 9}}})),
            (Shape{1, 3, 8, 9}));
  // The place wins over the name, and that over the role.
  EXPECT_EQ(OutputShape(b.Imported(
                {.dims = {{"batch", 1}, {"N", 2}, {"x[0]", 3}, {"height", 8}, {"width", 9}}})),
            (Shape{3, 3, 8, 9}));
}

TEST(SymbolicDimsTest, WithoutAValueTheErrorSaysHowToGiveOne) {
  ModelBuilder b(13);
  auto& x = b.Input("x", {-1, 3, 4, 4});
  b.NameDim(x, 0, "N");
  b.Node("Relu", {"x"}, {"y"});
  b.Output("y");
  const absl::Status status = b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("input \"x\": dimension 0 (\"N\")"),
                                     HasSubstr("dims: { \"N\": 1 } or dims: { batch: 1 }")));
  EXPECT_THAT(Message(b.Import({.dims = {{"N", 0}}}).status()),
              HasSubstr("dims.N is 0, want a positive number"));
  EXPECT_THAT(Message(b.Import({.dims = {{"N", 1}, {"x[1]", 4}}}).status()),
              HasSubstr("dims.x[1] is 4, the file fixes it to 3"));
}

TEST(SymbolicDimsTest, AKeyThatNamesNothingIsAnError) {
  ModelBuilder b(13);
  auto& x = b.Input("x", {-1, 3, 4, 4});
  b.NameDim(x, 0, "N");
  b.Node("Relu", {"x"}, {"y"});
  b.Output("y");
  const absl::Status status = b.Import({.dims = {{"N", 1}, {"hieght", 4}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              HasSubstr("dims.hieght: no input has such a dimension, want one of N, batch, "
                        "channels, height, width, x[0], x[1], x[2], x[3]"));
}

TEST(ImportTest, InitialisersThatAreListedAsInputsAreConstants) {
  Addition m({2});
  m.tensor->add_float_data(1);
  m.tensor->add_float_data(2);
  m.builder.Input("c", {2});
  m.builder.model.set_ir_version(3);
  const Graph graph = m.builder.Imported();
  ASSERT_EQ(graph.inputs.size(), 1u);
  EXPECT_EQ(graph.value(graph.inputs[0]).name, "x");
}

TEST(ImportTest, AllThatIsMissingIsInOneError) {
  ModelBuilder b(13);
  b.Input("x", {-1, 2});  // Symbolic, and without a value: operators come first.
  b.Node("Unheard", {"x"}, {"a"});
  b.Node("Relu", {"a"}, {"b"});
  b.Node("Unspoken", {"b"}, {"c"});
  b.Node("Unheard", {"c"}, {"d"});
  b.Node("Relu", {"d"}, {"e"}).proto().set_domain("com.example");
  b.Node("AlsoUnheard", {"x"}, {"unused"});
  b.Output("e");
  const absl::Status status = b.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("3 things are not supported"),
                                     HasSubstr("Unheard-13 (2: \"node_a\", \"node_d\")"),
                                     HasSubstr("Unspoken-13 (1: \"node_c\")"),
                                     HasSubstr("com.example.Relu (1: \"node_e\")"),
                                     testing::Not(HasSubstr("AlsoUnheard"))));
}

TEST(ImportTest, WhatIsMissingIsAlsoGivenEntryByEntry) {
  ModelBuilder b(13);
  b.Input("x", {2});
  b.Node("Unheard", {"x"}, {"a"});
  b.Node("Unheard", {"a"}, {"b"});
  b.Output("b");
  std::vector<UnsupportedThing> missing;
  EXPECT_EQ(b.Import({.missing = &missing}).status().code(), absl::StatusCode::kUnimplemented);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].what, "Unheard-13");
  EXPECT_EQ(missing[0].count, 2u);
  EXPECT_THAT(missing[0].places, ElementsAre("node_a", "node_b"));
}

TEST(ImportTest, GeneratedConstantsHaveALimitTogetherAndTakeNoMemory) {
  ModelBuilder b(13);
  b.Input("x", {1});
  b.Ints("shape", {1 << 20, 256});  // A gigabyte of floats.
  b.Node("ConstantOfShape", {"shape"}, {"c"});
  b.Node("ConstantOfShape", {"shape"}, {"d"});
  b.Node("Mul", {"x", "c"}, {"y"});
  b.Node("Mul", {"y", "d"}, {"z"});
  b.Output("z");
  const Bytes gigabyte = 1024_MiB;
  const absl::StatusOr<ImportedModel> within = b.Import({.max_tensor = gigabyte * 2});
  ASSERT_TRUE(within.ok()) << within.status();
  EXPECT_LT(within->structure_memory, 1_MiB);
  const absl::Status over = b.Import({.max_tensor = gigabyte * 2 - Bytes::Of(1)}).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(over), AllOf(HasSubstr("node_d"), HasSubstr("ConstantOfShape-13"),
                                   HasSubstr("take 2 GiB so far, the limit is")));
}

TEST(SummaryTest, SaysWhatTheFileSaysBeforeDimensionsHaveValues) {
  ModelBuilder b(13);
  onnx::ValueInfoProto& x = b.Input("x", {-1, 3, -1});
  b.NameDim(x, 0, "batch");
  b.Input("c", {2});  // An initialiser that is listed as an input.
  b.Counting("c", {2});
  b.Input("s", {1}, onnx::TensorProto::STRING);
  b.Node("Relu", {"x"}, {"y"});
  b.Node("Relu", {"y"}, {"z"});
  b.Node("Relu", {"z"}, {"w"}).proto().set_domain("com.example");
  b.Output("w");
  const absl::StatusOr<ImportedModel> imported = b.Import();
  EXPECT_FALSE(imported.ok());
  const absl::StatusOr<OnnxSummary> summary = SummarizeOnnx(b.folder() / "model.onnx", {});
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->opset, 13);
  EXPECT_EQ(summary->producer, "tests");
  ASSERT_EQ(summary->inputs.size(), 2u);
  EXPECT_THAT(summary->inputs[0].dims, ElementsAre("batch", "3", "?"));
  EXPECT_EQ(summary->inputs[0].type, DataType::kFloat32);
  EXPECT_FALSE(summary->inputs[1].type.has_value());
  ASSERT_EQ(summary->outputs.size(), 1u);
  EXPECT_EQ(summary->nodes, 3u);
  EXPECT_EQ(summary->operators.at("Relu"), 2u);
  EXPECT_EQ(summary->operators.at("com.example.Relu"), 1u);
  const absl::Status none = SummarizeOnnx(b.folder() / "none.onnx", {}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(none), HasSubstr("none.onnx"));
}

TEST(ImportTest, OpsetsBeyondTheKnownOnesAreRefused) {
  ModelBuilder b(22);
  b.Input("x", {2});
  b.Node("Relu", {"x"}, {"y"});
  b.Output("y");
  EXPECT_THAT(Message(b.Import().status()), HasSubstr("opset 22, want 1 to 21"));
}

TEST(ImportTest, BrokenGraphsAreRefusedWithTheName) {
  const auto status_of = [](const std::function<void(ModelBuilder&)>& build) {
    ModelBuilder b(13);
    b.Input("x", {2});
    build(b);
    b.Output("y");
    const absl::Status status = b.Import().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  EXPECT_THAT(status_of([](ModelBuilder& b) {
                b.Node("Add", {"x", "z"}, {"y"});
                b.Node("Relu", {"y"}, {"z"});
              }),
              HasSubstr("the graph has a cycle or is unsorted"));
  EXPECT_THAT(status_of([](ModelBuilder& b) {
                b.Node("Add", {"x", "nothing"}, {"y"});
              }),
              HasSubstr("its input \"nothing\" is no input, initialiser or output of a node"));
  EXPECT_THAT(status_of([](ModelBuilder& b) {
                b.Node("Relu", {"x"}, {"y"});
                b.Node("Exp", {"x"}, {"y"});
              }),
              HasSubstr("its output \"y\" is computed twice"));
  EXPECT_THAT(status_of([](ModelBuilder& b) { b.Node("Relu", {"x"}, {"x"}); }),
              HasSubstr("its output \"x\" is computed twice"));
  EXPECT_THAT(status_of([](ModelBuilder& b) { b.Node("Relu", {"x"}, {"z"}); }),
              HasSubstr("output \"y\" is not computed by any node"));
  EXPECT_THAT(status_of([](ModelBuilder& b) {
                b.Node("Relu", {"x", "x"}, {"y"});
              }),
              HasSubstr("got 2 inputs, want 1 to 1"));
  EXPECT_THAT(
      status_of([](ModelBuilder& b) { b.Node("LeakyRelu", {"x"}, {"y"}).String("alpha", "much"); }),
      HasSubstr("attribute \"alpha\" has type 3, want 1"));
}

TEST(ImportTest, LimitsAreKept) {
  ModelBuilder b(13);
  b.Input("x", {1000});
  b.Node("Relu", {"x"}, {"a"});
  b.Node("Relu", {"a"}, {"y"});
  b.Output("y");
  const auto code = [&](const ImportOptions& options) { return b.Import(options).status().code(); };
  EXPECT_EQ(code({}), absl::StatusCode::kOk);
  EXPECT_EQ(code({.max_nodes = 1}), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code({.max_tensor = Bytes::Of(3999)}), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code({.max_structure = Bytes::Of(100)}), absl::StatusCode::kResourceExhausted);
}

TEST(ImportTest, TheStructureHashSeesNodesAndNotLargeContents) {
  Addition m({5000});
  m.tensor->set_raw_data(std::string(20000, 'a'));
  const auto first = m.builder.Import();
  m.tensor->set_raw_data(std::string(20000, 'b'));
  const auto other_contents = m.builder.Import();
  m.builder.graph().mutable_node(0)->set_op_type("Mul");
  const auto other_node = m.builder.Import();
  ASSERT_TRUE(first.ok() && other_contents.ok() && other_node.ok());
  EXPECT_EQ(first->structure_hash, other_contents->structure_hash);
  EXPECT_NE(first->structure_hash, other_node->structure_hash);
  EXPECT_EQ(first->opset, 13);
  EXPECT_EQ(first->producer, "tests");
}

TEST(ImportTest, AMissingFileAndOneThatIsNoModelAreRefused) {
  TemporaryFolder folder;
  EXPECT_EQ(ImportOnnx(folder.path() / "none.onnx", {}).status().code(),
            absl::StatusCode::kNotFound);
  for (const std::string& bytes : {std::string(), std::string("hello, world"),
                                   std::string(100, '\0'), std::string(100, '\xff')}) {
    const absl::Status status = ImportOnnx(folder.Write("bad.onnx", bytes), {}).status();
    EXPECT_FALSE(status.ok()) << bytes;
    EXPECT_THAT(Message(status), HasSubstr("bad.onnx"));
  }
}

}  // namespace
}  // namespace sluice
