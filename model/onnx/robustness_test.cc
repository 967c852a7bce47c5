// Files that are damaged, and files that are large.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "model/onnx/model_builder.h"
#include "model/onnx/wire_reader.h"
#include "model/rewrite.h"

namespace sluice {
namespace {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::filesystem::path SharedModel(const std::string& name) {
  const char* shared = std::getenv("SLUICE_SHARED");
  if (shared == nullptr) return {};
  const auto path = std::filesystem::path(shared) / "models" / name / "model.onnx";
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

// One of: a byte flipped, cut short, a run overwritten, a run repeated, a run taken out.
std::string Mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::size_t at = below(bytes.size());
  const std::size_t run = std::min(bytes.size() - at, 1 + below(64));
  switch (below(5)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      for (std::size_t i = 0; i < run; ++i) bytes[at + i] = static_cast<char>(below(256));
      break;
    case 3:
      bytes.insert(at, bytes.substr(at, run));
      break;
    default:
      bytes.erase(at, run);
  }
  return bytes;
}

// Imports, and does with the result what loading does; returns whether it was a model.
bool Survives(const std::filesystem::path& path) {
  const ImportOptions options = {.max_tensor = 64_MiB};
  absl::StatusOr<ImportedModel> model = ImportOnnx(path, options);
  if (!model.ok()) {
    EXPECT_NE(model.status().code(), absl::StatusCode::kInternal) << model.status();
    EXPECT_FALSE(model.status().message().empty());
    return false;
  }
  EXPECT_TRUE(Simplify(model->graph).ok());
  EXPECT_TRUE(Validate(model->graph).ok()) << Validate(model->graph);
  for (const Value& value : model->graph.values) {
    if (value.constant == nullptr) continue;
    std::vector<std::byte> bytes(value.constant->size().count());
    EXPECT_TRUE(value.constant->Read(Bytes(), bytes).ok());
  }
  return true;
}

class DamagedFileTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(RealFiles, DamagedFileTest,
                         testing::Values("mnist_cnn", "light_squeezenet"));

TEST_P(DamagedFileTest, AThousandMutationsAreErrorsOrModels) {
  const std::filesystem::path real = SharedModel(GetParam());
  if (real.empty()) GTEST_SKIP() << "no " << GetParam() << " below SLUICE_SHARED";
  const std::string bytes = ReadFile(real);
  TemporaryFolder folder;
  int models = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed);
    std::mt19937 random(seed);
    models += Survives(folder.Write("m.onnx", Mutated(bytes, random))) ? 1 : 0;
    if (HasFailure()) break;
  }
  // Most of a file is weights, where a flip is no error that an importer can see.
  EXPECT_GT(models, 0);
  EXPECT_LT(models, 1000);
}

TEST(DamagedFileTest, EveryTruncationIsAnError) {
  ModelBuilder b(13);
  b.Input("x", {1, 3, 4, 4});
  b.Counting("w", {4, 3, 3, 3});
  b.Node("Conv", {"x", "w"}, {"c"}).Ints("pads", {1, 1, 1, 1});
  b.Node("Relu", {"c"}, {"y"});
  b.Output("y");
  const std::string bytes = b.model.SerializeAsString();
  TemporaryFolder folder;
  int models = 0;
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    models += Survives(folder.Write("m.onnx", bytes.substr(0, length))) ? 1 : 0;
  }
  // The opset comes last; without it the file means opset 1 and is a model still.
  EXPECT_LE(models, 1);
  EXPECT_TRUE(Survives(folder.Write("m.onnx", bytes)));
}

TEST(DamagedFileTest, DeepNestingIsAnError) {
  std::string nested;
  for (int depth = 0; depth < 2000; ++depth) {
    std::string outer;
    AppendLengthTag(1, nested.size(), outer);  // Of a TypeProto's sequence, and so on.
    nested = outer + nested;
    outer.clear();
    AppendLengthTag(4, nested.size(), outer);
    nested = outer + nested;
  }
  std::string input, graph, model;
  AppendLengthTag(2, nested.size(), input);
  input += nested;
  AppendLengthTag(11, input.size(), graph);
  graph += input;
  AppendLengthTag(7, graph.size(), model);
  model += graph;
  TemporaryFolder folder;
  EXPECT_FALSE(Survives(folder.Write("m.onnx", model)));
}

// A product whose constant operand has `rows` x 1024 floats, the last thing in the file.
std::filesystem::path WriteLarge(const TemporaryFolder& folder, std::int64_t rows, bool sparse) {
  ModelBuilder b(13);
  b.Input("x", {1, rows});
  b.Node("MatMul", {"x", "w"}, {"y"});
  b.Output("y");
  onnx::TensorProto weights;
  weights.set_name("w");
  weights.set_data_type(onnx::TensorProto::FLOAT);
  weights.add_dims(rows);
  weights.add_dims(1024);
  const auto size = static_cast<std::size_t>(rows) * 4096;
  std::string tensor = weights.SerializeAsString();
  AppendLengthTag(9, size, tensor);
  std::string graph = b.graph().SerializeAsString();
  AppendLengthTag(5, tensor.size() + size, graph);
  graph += tensor;
  b.model.clear_graph();
  std::string model = b.model.SerializeAsString();
  AppendLengthTag(7, graph.size() + size, model);
  const auto path = folder.Write("large.onnx", model + graph);
  if (sparse) {
    std::filesystem::resize_file(path, model.size() + graph.size() + size);
    return path;
  }
  const std::string chunk(1 << 20, 'w');
  {
    std::ofstream file(path, std::ios::binary | std::ios::app);
    for (std::size_t written = 0; written < size; written += chunk.size()) file << chunk;
  }
  return path;
}

std::uint64_t StatusKib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1));
  }
  return 0;
}

TEST(LargeFileTest, ImportingTakesTheMemoryOfTheStructureOnly) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory would be measured";
#endif
  TemporaryFolder folder;
  const auto path = WriteLarge(folder, 100 * 256, true);
  ASSERT_GT(std::filesystem::file_size(path), 100u << 20);
  if (!(std::ofstream("/proc/self/clear_refs") << "5")) {
    GTEST_SKIP() << "the kernel does not let the peak be reset";
  }
  const std::uint64_t before = StatusKib("VmRSS");
  const absl::StatusOr<ImportedModel> model = ImportOnnx(path, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_LT(StatusKib("VmHWM"), before + 3 * 1024);
  EXPECT_EQ(WeightBytes(model->graph), 100_MiB);
}

TEST(LargeFileTest, NothingOfTheFileStaysInThePageCache) {
  TemporaryFolder folder;
  const auto path = WriteLarge(folder, 32 * 256, false);
  const auto size = static_cast<std::size_t>(std::filesystem::file_size(path));
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::fsync(descriptor), 0);
  ASSERT_EQ(::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
  const auto cached = [&] {
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    std::vector<unsigned char> pages((size + 4095) / 4096);
    EXPECT_EQ(::mincore(map, size, pages.data()), 0);
    ::munmap(map, size);
    return Bytes::Of(static_cast<std::uint64_t>(
               std::ranges::count_if(pages, [](unsigned char p) { return p & 1; }))) *
           4096;
  };
  if (cached() > 1_MiB) {
    ::close(descriptor);
    GTEST_SKIP() << "this file system keeps all of a file in memory";
  }
  const absl::StatusOr<ImportedModel> model = ImportOnnx(path, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_LT(cached(), 1_MiB);
  const Constant& weights = *model->graph.value(*model->graph.nodes[0].inputs[1]).constant;
  std::vector<std::byte> window(1 << 20);
  for (std::uint64_t at = 0; at < weights.size().count(); at += window.size()) {
    ASSERT_TRUE(weights.Read(Bytes::Of(at), window).ok());
    EXPECT_EQ(window[777], std::byte{'w'});
  }
  EXPECT_LT(cached(), 1_MiB);
  ::close(descriptor);
}

TEST(LargeFileTest, ATruncatedLargeFileIsDataLoss) {
  TemporaryFolder folder;
  const auto path = WriteLarge(folder, 256, true);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_EQ(ImportOnnx(path, {}).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace sluice
