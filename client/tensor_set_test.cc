#include "client/tensor_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/test_folder.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr char kGood[] =
    R"({"schema":"tensor-set/1","tensors":[{"name":"x","dtype":"float32","shape":[1,2],)"
    R"("file":"00.bin"}]})";

std::string MessageFor(const std::string& index, std::string_view values = "12345678") {
  const TestFolder folder;
  folder.Write("tensors.json", index);
  folder.Write("00.bin", values);
  const auto set = ReadTensorSet(folder.path());
  EXPECT_FALSE(set.ok()) << index;
  return std::string(set.status().message());
}

// kGood with one piece of its text replaced.
std::string Changed(const std::string& from, const std::string& to) {
  std::string text = kGood;
  return text.replace(text.find(from), from.size(), to);
}

TEST(TensorSetTest, ReadsWhatItWrites) {
  const TestFolder folder;
  const std::vector<Tensor> tensors = {
      {.name = "a/b \"c\"", .datatype = "FP32", .shape = {1, 2}, .data = "12345678"},
      {.name = "y", .datatype = "BF16", .shape = {}, .data = "ab"},
      {.name = "z", .datatype = "INT64", .shape = {0, 4}, .data = ""}};
  ASSERT_TRUE(WriteTensorSet(folder.path() / "new" / "set", tensors).ok());
  const auto again = ReadTensorSet(folder.path() / "new" / "set");
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*again)[i].name, tensors[i].name);
    EXPECT_EQ((*again)[i].datatype, tensors[i].datatype);
    EXPECT_EQ((*again)[i].shape, tensors[i].shape);
    EXPECT_EQ((*again)[i].data, tensors[i].data);
  }
}

TEST(TensorSetTest, RefusesFilesOutsideTheFolder) {
  for (const char* file : {"../00.bin", "/etc/passwd", "a/00.bin", "..", "."}) {
    EXPECT_THAT(MessageFor(Changed("00.bin", file)), HasSubstr("in the same folder")) << file;
  }
}

TEST(TensorSetTest, SaysWhatIsWrongWithTheIndex) {
  EXPECT_THAT(MessageFor("not json"), HasSubstr("not JSON"));
  EXPECT_THAT(MessageFor("[]"), HasSubstr("schema"));
  EXPECT_THAT(MessageFor(Changed("tensor-set/1", "tensor-set/2")), HasSubstr("tensor-set/2"));
  EXPECT_THAT(MessageFor(R"({"schema":"tensor-set/1"})"), HasSubstr("no list of tensors"));
  EXPECT_THAT(MessageFor(R"({"schema":"tensor-set/1","tensors":[7]})"),
              HasSubstr("without name or file"));
  EXPECT_THAT(MessageFor(Changed("float32", "float31")), HasSubstr("float31"));
  EXPECT_THAT(MessageFor(Changed("[1,2]", "[1,-2]")), HasSubstr("-2"));
  EXPECT_THAT(MessageFor(Changed("[1,2]", "[1,2.5]")), HasSubstr("2.5"));
  EXPECT_THAT(MessageFor(Changed("[1,2]", "3")), HasSubstr("without shape"));
  EXPECT_THAT(MessageFor(Changed("[1,2]", "[9223372036854775807,9]")), HasSubstr("fits memory"));
}

TEST(TensorSetTest, SaysWhichFileHasTheWrongSize) {
  EXPECT_THAT(MessageFor(kGood, "1234"), HasSubstr("00.bin: got 4 bytes, want 8"));
}

}  // namespace
}  // namespace sluice
