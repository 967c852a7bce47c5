#include "client/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "client/test_folder.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// A file as NumPy writes it: the preamble of version 1.0, a header, data.
std::string File(std::string_view header, std::string_view data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += {version, '\0', static_cast<char>(header.size() & 0xff),
           static_cast<char>(header.size() >> 8)};
  if (version > 1) file += {'\0', '\0'};
  file += header;
  file += data;
  return file;
}

std::string Message(std::string file) {
  const absl::StatusOr<Tensor> tensor = ParseNpy(std::move(file), "a.npy");
  EXPECT_FALSE(tensor.ok());
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensor.status().message());
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  const absl::StatusOr<Tensor> tensor =
      ParseNpy(File("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }          \n",
                    std::string_view("\0\0\x80\x3f\0\0\0\x40", 8)),
               "a.npy");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->datatype, "FP32");
  EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(*Values(*tensor), (std::vector<double>{1, 2}));
}

TEST(NpyTest, ReadsVersionsTwoAndThreeScalarsAndPythonTwoNumbers) {
  for (const char version : {'\2', '\3'}) {
    const auto tensor = ParseNpy(
        File("{'shape': (3L,), 'fortran_order': True, 'descr': '|u1'}", "abc", version), "a.npy");
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->shape, std::vector<std::int64_t>{3});
  }
  const auto scalar =
      ParseNpy(File("{'descr': '|b1', 'fortran_order': False, 'shape': ()}", "\1"), "a.npy");
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_TRUE(scalar->shape.empty());
  EXPECT_EQ(scalar->datatype, "BOOL");
}

TEST(NpyTest, RefusesColumnMajorArraysAndSaysWhatToDo) {
  const std::string message =
      Message(File("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 2), }", "ab"));
  EXPECT_THAT(message, HasSubstr("a.npy"));
  EXPECT_THAT(message, HasSubstr("Fortran"));
  EXPECT_THAT(message, HasSubstr("ascontiguousarray"));
}

TEST(NpyTest, RefusesTypesThatTheProtocolLacks) {
  for (const char* descr : {">f4", "<c8", "|O", "<U3", "", "float32"}) {
    const std::string message = Message(File(
        std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (1,)}", "abcd"));
    EXPECT_THAT(message, HasSubstr(std::string("type '") + descr + "'"));
  }
}

TEST(NpyTest, RefusesDataThatIsNotTheShapes) {
  const char* header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}";
  EXPECT_THAT(Message(File(header, "1234")), HasSubstr("got 4 bytes of data, want 24"));
  EXPECT_THAT(Message(File(header, std::string(25, 'x'))), HasSubstr("got 25 bytes"));
}

TEST(NpyTest, RefusesShapesThatOverflow) {
  EXPECT_THAT(Message(File("{'descr': '<f4', 'fortran_order': False, 'shape': "
                           "(4294967296, 4294967296)}",
                           "")),
              HasSubstr("a shape that fits memory"));
  EXPECT_THAT(Message(File("{'descr': '<f4', 'fortran_order': False, 'shape': "
                           "(99999999999999999999,)}",
                           "")),
              HasSubstr("header"));
  EXPECT_THAT(Message(File("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "")),
              HasSubstr("header"));
}

TEST(NpyTest, RefusesMalformedHeaders) {
  for (const char* header :
       {"", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} more", "{'descr"}) {
    EXPECT_THAT(Message(File(header, "1234")), HasSubstr("a header of another form")) << header;
  }
}

TEST(NpyTest, RefusesFilesThatEndInTheHeader) {
  const std::string whole = File("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abc");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ParseNpy(whole.substr(0, size), "a.npy").ok()) << size;
  }
  EXPECT_TRUE(ParseNpy(whole, "a.npy").ok());
}

TEST(NpyTest, RefusesOtherFilesAndVersions) {
  EXPECT_THAT(Message("hello, I am a text"), HasSubstr("want a .npy file"));
  EXPECT_THAT(Message(File("{}", "", '\4')), HasSubstr("version 4.0"));
  EXPECT_THAT(Message(std::string("\x93NUMPY\2\0\xff\xff\xff\xff{", 13)),
              HasSubstr("at most 65536 bytes"));
}

TEST(NpyTest, WritesWhatItReadsForEveryTypeOfNumpy) {
  for (const char* datatype : {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
                               "INT32", "INT64", "FP16", "FP32", "FP64"}) {
    Tensor tensor{.name = "", .datatype = datatype, .shape = {2, 0, 3}, .data = ""};
    for (const std::int64_t middle : {0, 1, 5}) {
      tensor.shape[1] = middle;
      tensor.data.assign(*TensorBytes(datatype, tensor.shape), '\1');
      const absl::StatusOr<std::string> file = FormatNpy(tensor);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ((file->size() - tensor.data.size()) % 64, 0u);
      const absl::StatusOr<Tensor> again = ParseNpy(*file, "a.npy");
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(again->datatype, datatype);
      EXPECT_EQ(again->shape, tensor.shape);
      EXPECT_EQ(again->data, tensor.data);
    }
  }
}

TEST(NpyTest, RefusesToWriteWhatNumpyLacks) {
  EXPECT_FALSE(FormatNpy({.name = "x", .datatype = "BF16", .shape = {1}, .data = "ab"}).ok());
  EXPECT_FALSE(FormatNpy({.name = "x", .datatype = "BYTES", .shape = {1}, .data = "ab"}).ok());
  EXPECT_FALSE(FormatNpy({.name = "x", .datatype = "FP32", .shape = {1}, .data = "ab"}).ok());
}

TEST(NpyTest, NamesAFileThatIsMissing) {
  const TestFolder folder;
  const auto missing = ReadNpy(folder.path() / "none.npy");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("none.npy"));
  EXPECT_THAT(std::string(ReadNpy(folder.path()).status().message()), HasSubstr("a folder"));
}

// Whatever is changed in a file, it is refused or read as a tensor that fits its own shape.
TEST(NpyTest, SurvivesTenThousandMutations) {
  const std::string whole =
      File("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", std::string(24, 'x'));
  std::size_t refused = 0;
  for (std::uint32_t seed = 0; seed < 10'000; ++seed) {
    std::mt19937 random(seed);
    std::string file = whole;
    for (std::uint32_t changes = 1 + random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % file.size();
      switch (random() % 4) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file.erase(at, 1 + random() % 8);
          break;
        case 2:
          file.insert(at, 1, "0123456789(),'{}L"[random() % 17]);
          break;
        default:
          file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8)));
      }
      if (file.empty()) break;
    }
    const absl::StatusOr<Tensor> tensor = ParseNpy(file, "a.npy");
    refused += tensor.ok() ? 0 : 1;
    if (tensor.ok()) {
      EXPECT_EQ(tensor->data.size(), *TensorBytes(tensor->datatype, tensor->shape)) << seed;
    }
  }
  EXPECT_GT(refused, 5'000u);
  EXPECT_LT(refused, 10'000u);
}

}  // namespace
}  // namespace sluice
