#include "streamer/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "streamer/checksum.h"
#include "streamer/package_format.h"
#include "streamer/testing/scratch_folder.h"
#include "streamer/testing/sum_program.h"
#include "streamer/testing/test_package.h"

namespace sluice {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

const PackageIdentity kIdentity{"model.onnx 1234 bytes\nstructure 5678\nkernels abc\n"};

std::vector<Bytes> SomeSizes() {
  return {Bytes::Of(5000), kPageSize, Bytes(), Bytes::Of(1), Bytes::Of(3 * 4096 - 1)};
}

class PackageTest : public testing::Test {
 protected:
  // Builds a package of `sizes`.
  absl::Status Build(const std::vector<Bytes>& sizes, const PackageIdentity& identity = kIdentity) {
    const std::unique_ptr<Program> program = MakeSumProgram({.extents = sizes, .during_step = {}});
    return BuildProgramPackage(path_, identity, *program);
  }

  absl::StatusOr<std::shared_ptr<const Package>> Open(const std::vector<Bytes>& sizes) const {
    return Package::Open(path_, kIdentity, sizes);
  }

  // Opens what must not open, with the code that it gives.
  absl::Status Refusal(const std::vector<Bytes>& sizes = SomeSizes()) const {
    const absl::Status status = Open(sizes).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_.native()));
    return status;
  }

  void Rewrite(const std::vector<std::byte>& contents) { folder_.Write("p.sluice", contents); }

  ScratchFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "p.sluice";
};

TEST_F(PackageTest, OpensWithTheExtentsThatWereBuilt) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  const auto package = Open(SomeSizes());
  ASSERT_TRUE(package.ok()) << package.status();
  const std::vector<std::byte> file = folder_.ReadFile("p.sluice");
  EXPECT_EQ((*package)->file_size(), Bytes::Of(file.size()));
  ASSERT_EQ((*package)->extents().size(), SomeSizes().size());
  const std::unique_ptr<Program> program =
      MakeSumProgram({.extents = SomeSizes(), .during_step = {}});
  for (std::size_t i = 0; i < SomeSizes().size(); ++i) {
    const ExtentRecord& record = (*package)->extents()[i];
    EXPECT_EQ(record.size, SomeSizes()[i]);
    EXPECT_EQ(record.offset.count() % kPageSize.count(), 0u);
    std::vector<std::byte> wanted(AlignUp(record.size, kPageSize).count());
    ASSERT_TRUE(
        program->Pack(At<ExtentIndex>(i), std::span(wanted).first(record.size.count())).ok());
    EXPECT_TRUE(
        std::ranges::equal(wanted, std::span(file).subspan(record.offset.count(), wanted.size())));
    EXPECT_EQ(record.checksum, Checksum(wanted));
  }
}

TEST_F(PackageTest, OpensWithoutAnyExtent) {
  ASSERT_TRUE(Build({}).ok());
  EXPECT_TRUE(Open({}).ok());
}

TEST_F(PackageTest, IsTheSameBytesWhenBuiltAgain) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  const std::vector<std::byte> first = folder_.ReadFile("p.sluice");
  ASSERT_TRUE(Build(SomeSizes()).ok());
  EXPECT_EQ(folder_.ReadFile("p.sluice"), first);
  EXPECT_EQ(folder_.files(), 1u);
}

TEST_F(PackageTest, IsNotFoundWhereThereIsNone) {
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kNotFound);
}

TEST_F(PackageTest, IsNoFolder) {
  std::filesystem::create_directory(path_);
  EXPECT_EQ(Refusal().code(), absl::StatusCode::kDataLoss);
}

TEST_F(PackageTest, RefusesAnotherIdentityAndShowsTheLineThatDiffers) {
  ASSERT_TRUE(Build(SomeSizes(), {"model.onnx 1234 bytes\nstructure 9999\n"}).ok());
  const absl::Status status = Refusal();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has \"structure 9999\", want \"structure 5678\""));
}

TEST_F(PackageTest, RefusesOtherExtentsThanThoseItHas) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  std::vector<Bytes> fewer = SomeSizes();
  fewer.pop_back();
  EXPECT_EQ(Refusal(fewer).code(), absl::StatusCode::kFailedPrecondition);
  std::vector<Bytes> others = SomeSizes();
  others[0] += Bytes::Of(1);
  EXPECT_EQ(Refusal(others).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(PackageTest, RefusesAnotherFormatVersionBeforeAnythingElse) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  FlipBit(path_, 8, 1);
  const absl::Status status = Refusal();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("format version 0, want 2"));
}

TEST_F(PackageTest, FindsAFlippedBitInEachByteOfItsMetadata) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  const Bytes data = LayOutPackage(Bytes::Of(kIdentity.text.size()), SomeSizes().size(), 0).data;
  for (std::uint64_t byte = 0; byte < data.count(); ++byte) {
    const auto bit = static_cast<unsigned>(byte * 5 % 8);
    FlipBit(path_, byte, bit);
    ASSERT_THAT(Open(SomeSizes()).status().code(),
                AnyOf(absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition))
        << "byte " << byte;
    FlipBit(path_, byte, bit);
  }
  EXPECT_TRUE(Open(SomeSizes()).ok());
}

TEST_F(PackageTest, FindsThatItWasCutOrGrew) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  const std::vector<std::byte> whole = folder_.ReadFile("p.sluice");
  std::vector<std::size_t> lengths = {0, 1, 7, 8, 63, 64, 65, 200};
  for (std::size_t page = 4096; page <= whole.size(); page += 4096) {
    lengths.insert(lengths.end(), {page - 1, page, page + 1});
  }
  lengths.push_back(whole.size() + 4096);
  for (const std::size_t length : lengths) {
    if (length == whole.size()) continue;
    std::vector<std::byte> changed = whole;
    changed.resize(length);
    Rewrite(changed);
    EXPECT_EQ(Refusal().code(), absl::StatusCode::kDataLoss) << length;
  }
}

TEST_F(PackageTest, RefusesCountsThatTheFileCannotHold) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  const std::vector<std::byte> whole = folder_.ReadFile("p.sluice");
  for (const std::size_t field : {24, 32, 40}) {  // Identity size, numbers of extents and runs.
    for (const std::uint64_t count : {std::uint64_t{1} << 20, std::uint64_t{1} << 60,
                                      ~std::uint64_t{0}, ~std::uint64_t{0} / 40 + 1}) {
      std::vector<std::byte> changed = whole;
      std::memcpy(changed.data() + field, &count, sizeof(count));
      const std::uint64_t checksum = Checksum(std::span(changed).first(80));
      std::memcpy(changed.data() + 80, &checksum, sizeof(checksum));
      Rewrite(changed);
      EXPECT_EQ(Refusal().code(), absl::StatusCode::kDataLoss) << field << " " << count;
    }
  }
}

TEST_F(PackageTest, IsNamedAfterItsIdentity) {
  EXPECT_EQ(kIdentity.FileName().size(), std::string("0123456789abcdef.sluice").size());
  EXPECT_EQ(kIdentity.FileName(), PackageIdentity{kIdentity.text}.FileName());
  EXPECT_NE(kIdentity.FileName(), PackageIdentity{kIdentity.text + "x"}.FileName());
}

// What a build is given to fail with, at each of its extents.
TEST_F(PackageTest, LeavesNothingBehindWhenABuildStops) {
  const std::vector<Bytes> sizes = SomeSizes();
  const PageMemory staging = PageMemory::Map(16_KiB).value();
  for (std::size_t stop = 0; stop < sizes.size(); ++stop) {
    for (const bool in_progress : {false, true}) {
      std::size_t asked = 0;
      const BuildOptions options{.progress =
                                     [&](Bytes done, Bytes total) {
                                       EXPECT_LE(done, total);
                                       return in_progress && asked++ == stop
                                                  ? absl::CancelledError("stop")
                                                  : absl::OkStatus();
                                     },
                                 .staging = staging.span()};
      const absl::Status status = BuildPlainPackage(
          path_, kIdentity, sizes,
          [&](ExtentIndex extent, std::span<std::byte>) {
            return !in_progress && Index(extent) == stop ? absl::DataLossError("gone")
                                                         : absl::OkStatus();
          },
          options);
      EXPECT_EQ(status, in_progress ? absl::CancelledError("stop") : absl::DataLossError("gone"));
      EXPECT_EQ(folder_.files(), 0u);
    }
  }
}

TEST_F(PackageTest, KeepsTheOldOneWhenABuildStops) {
  ASSERT_TRUE(Build(SomeSizes()).ok());
  const PageMemory staging = PageMemory::Map(16_KiB).value();
  EXPECT_FALSE(BuildPlainPackage(
                   path_, kIdentity, SomeSizes(),
                   [](ExtentIndex, std::span<std::byte>) { return absl::DataLossError("gone"); },
                   {.progress = nullptr, .staging = staging.span()})
                   .ok());
  EXPECT_TRUE(Open(SomeSizes()).ok());
}

TEST_F(PackageTest, SaysWhereItCannotBeWritten) {
  const std::unique_ptr<Program> program =
      MakeSumProgram({.extents = SomeSizes(), .during_step = {}});
  const std::filesystem::path nowhere = folder_.path() / "none" / "p.sluice";
  const absl::Status status = BuildProgramPackage(nowhere, kIdentity, *program);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(nowhere.native()));
}

TEST_F(PackageTest, SaysHowMuchAFullDiskLacks) {
  const Bytes free = Bytes::Of(std::filesystem::space(folder_.path()).available);
  const std::vector<Bytes> sizes(free.count() / (64 << 20) + 64, 64_MiB);
  bool packed = false;
  const PageMemory staging = PageMemory::Map(64_MiB).value();
  const absl::Status status = BuildPlainPackage(path_, kIdentity, sizes,
                                                [&](ExtentIndex, std::span<std::byte>) {
                                                  packed = true;
                                                  return absl::OkStatus();
                                                },
                                                {.progress = nullptr, .staging = staging.span()});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("free are"));
  EXPECT_FALSE(packed);
  EXPECT_EQ(folder_.files(), 0u);
}

// A limit on file sizes stands in for a disk that fills up while it is being booked.
TEST_F(PackageTest, RemovesWhatItBookedWhenTheDiskFillsUp) {
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit{.rlim_cur = 16384, .rlim_max = old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = Build(SomeSizes());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("want 32 KiB (32768 bytes)"));
  EXPECT_EQ(folder_.files(), 0u);
}

}  // namespace
}  // namespace sluice
