#include "model/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace sluice {
namespace {

using testing::HasSubstr;

class ModelFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            ("model_file_" +
             std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void Write(const std::string& contents) { std::ofstream(path_, std::ios::binary) << contents; }
  std::filesystem::path path_;
};

std::string Text(const Constant& constant, std::uint64_t offset, std::size_t size) {
  std::string text(size, '?');
  EXPECT_TRUE(constant.Read(Bytes::Of(offset), std::as_writable_bytes(std::span(text))).ok());
  return text;
}

TEST_F(ModelFileTest, WindowsReadTheirPartOfTheFile) {
  Write("0123456789");
  const auto file = ModelFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto window = FileConstant(*file, Bytes::Of(3), Bytes::Of(5));
  EXPECT_EQ(window->size(), Bytes::Of(5));
  EXPECT_EQ(Text(*window, 0, 5), "34567");
  EXPECT_EQ(Text(*window, 2, 2), "56");
}

TEST_F(ModelFileTest, AFileThatBecameShorterIsDataLoss) {
  Write("0123456789");
  const auto file = ModelFile::Open(path_);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path_, 4);
  std::vector<std::byte> bytes(10);
  const absl::Status status = (*file)->Read(Bytes(), bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("it has 4 bytes and had 10"));
}

TEST_F(ModelFileTest, AFileThatWasRewrittenIsDataLossThoughItsSizeIsTheSame) {
  Write("0123456789");
  const auto file = ModelFile::Open(path_);
  ASSERT_TRUE(file.ok());
  std::filesystem::last_write_time(
      path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(2));
  std::vector<std::byte> bytes(10);
  EXPECT_EQ((*file)->Read(Bytes(), bytes).code(), absl::StatusCode::kDataLoss);
}

TEST_F(ModelFileTest, RefusesWhatIsMissingOrNoFile) {
  EXPECT_EQ(ModelFile::Open(path_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ModelFile::Open(testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelFileTest, VarintsDecodeFromAnyOffset) {
  std::string bytes = "xx";
  const auto count = std::uint64_t{10'000};
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t value = i * 3;
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7f) | 0x80));
    bytes.push_back(static_cast<char>(value));
  }
  Write(bytes);
  const auto file = ModelFile::Open(path_);
  ASSERT_TRUE(file.ok());
  const auto varints =
      VarintConstant(*file, Bytes::Of(2), Bytes::Of(bytes.size() - 2), DataType::kInt32, count);
  ASSERT_TRUE(varints.ok()) << varints.status();
  EXPECT_EQ((*varints)->size(), Bytes::Of(4 * count));
  for (const std::uint64_t at : {0u, 1u, 4095u, 4096u, 9999u}) {
    std::int32_t element = -1;
    ASSERT_TRUE(
        (*varints)->Read(Bytes::Of(4 * at), std::as_writable_bytes(std::span(&element, 1))).ok());
    EXPECT_EQ(element, static_cast<std::int32_t>(at * 3));
  }
  // From the middle of one element to the middle of another.
  std::array<std::byte, 4> middle{};
  ASSERT_TRUE((*varints)->Read(Bytes::Of(4 * 5000 + 2), middle).ok());
  EXPECT_EQ(static_cast<int>(middle[2]), 15003 & 0xff);
}

TEST_F(ModelFileTest, VarintsThatAreTooFewTooManyOrMalformedAreRefused) {
  Write(std::string("\x01\x02\x03", 3) + std::string(12, '\xff'));
  const auto file = ModelFile::Open(path_);
  ASSERT_TRUE(file.ok());
  const auto open = [&](std::uint64_t length, std::uint64_t count) {
    return VarintConstant(*file, Bytes(), Bytes::Of(length), DataType::kInt64, count)
        .status()
        .code();
  };
  EXPECT_EQ(open(3, 3), absl::StatusCode::kOk);
  EXPECT_EQ(open(3, 2), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open(3, 4), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open(4, 4), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open(15, 4), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(open(15, std::uint64_t{1} << 60), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
