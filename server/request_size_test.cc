#include "server/request_size.h"

#include <gmock/gmock.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <random>

#include "open_inference.pb.h"

namespace sluice {
namespace {

using inference::ModelInferRequest;
using testing::HasSubstr;

// In windows of `window` bytes, so that every boundary falls inside a field once.
absl::StatusOr<RequestSize> Measure(const std::string& wire, int window = 5) {
  google::protobuf::io::ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()), window);
  return MeasureRequest(stream);
}

ModelInferRequest PictureRequest() {
  ModelInferRequest request;
  request.set_model_name("detector");
  request.set_model_version("3");
  request.set_id("a");
  auto& input = *request.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  for (const int dim : {1, 3, 32, 32}) input.add_shape(dim);
  request.add_raw_input_contents(std::string(3 * 32 * 32 * 4, 'p'));
  return request;
}

TEST(RequestSizeTest, FindsTheModelAndTheMessagesBytes) {
  const std::string wire = PictureRequest().SerializeAsString();
  const auto size = Measure(wire);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->model_name, "detector");
  EXPECT_EQ(size->model_version, "3");
  EXPECT_EQ(size->wire, Bytes::Of(wire.size()));
}

TEST(RequestSizeTest, ChargesARawTensorOnceAndLittleMore) {
  const auto size = Measure(PictureRequest().SerializeAsString());
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_GE(size->parsed, Bytes::Of(3 * 32 * 32 * 4));
  EXPECT_LE(size->parsed, Bytes::Of(3 * 32 * 32 * 4 + 6000));
}

TEST(RequestSizeTest, TheLastNameCountsAsInProtobuf) {
  ModelInferRequest second;
  second.set_model_name("other");
  const auto size = Measure(PictureRequest().SerializeAsString() + second.SerializeAsString());
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(size->model_name, "other");
}

TEST(RequestSizeTest, RefusesALongName) {
  ModelInferRequest request;
  request.set_model_name(std::string(kMaxModelName + 1, 'n'));
  const auto size = Measure(request.SerializeAsString());
  EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(size.status().message()), HasSubstr("got 1025 bytes, want at most 1024"));
}

TEST(RequestSizeTest, RefusesEveryTruncation) {
  ModelInferRequest request = PictureRequest();
  request.mutable_raw_input_contents(0)->resize(8);
  request.mutable_inputs(0)->mutable_contents()->add_int64_contents(1234567);
  const std::string wire = request.SerializeAsString();
  int refused = 0;
  for (std::size_t length = 0; length < wire.size(); ++length) {
    ModelInferRequest parsed;
    const bool accepted = parsed.ParseFromString(wire.substr(0, length));
    EXPECT_EQ(Measure(wire.substr(0, length)).ok(), accepted) << "at " << length;
    refused += accepted ? 0 : 1;
  }
  EXPECT_GT(refused, 20);
}

TEST(RequestSizeTest, RefusesBytesThatAreNoMessage) {
  const auto size = Measure("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff garbage");
  EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(size.status().message()), HasSubstr("inference.ModelInferRequest"));
}

// Small fields that become large objects: the size must cover what the parser builds.
struct Inflation {
  std::string name;
  std::function<void(ModelInferRequest&)> add;
};
void PrintTo(const Inflation& inflation, std::ostream* out) { *out << inflation.name; }
class RequestSizeInflation : public testing::TestWithParam<Inflation> {};

TEST_P(RequestSizeInflation, IsCovered) {
  ModelInferRequest request;
  for (int i = 0; i < 3000; ++i) GetParam().add(request);
  const std::string wire = request.SerializeAsString();
  ModelInferRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(wire));
  const auto size = Measure(wire, 4096);
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_GE(size->parsed.count(), parsed.SpaceUsedLong());
}

inference::InferTensorContents& Contents(ModelInferRequest& request) {
  if (request.inputs().empty()) request.add_inputs();
  return *request.mutable_inputs(0)->mutable_contents();
}

INSTANTIATE_TEST_SUITE_P(
    All, RequestSizeInflation,
    testing::Values(
        Inflation{"inputs", [](auto& r) { r.add_inputs(); }},
        Inflation{"inputs_with_contents", [](auto& r) { r.add_inputs()->mutable_contents(); }},
        Inflation{"outputs", [](auto& r) { r.add_outputs(); }},
        Inflation{"parameters",
                  [](auto& r) { (*r.mutable_parameters())[std::to_string(r.parameters_size())]; }},
        Inflation{"empty_raw", [](auto& r) { r.add_raw_input_contents(); }},
        Inflation{"shape",
                  [](auto& r) {
                    if (r.inputs().empty()) r.add_inputs();
                    r.mutable_inputs(0)->add_shape(1);
                  }},
        Inflation{"bool", [](auto& r) { Contents(r).add_bool_contents(true); }},
        Inflation{"int", [](auto& r) { Contents(r).add_int_contents(1); }},
        Inflation{"int64", [](auto& r) { Contents(r).add_int64_contents(1); }},
        Inflation{"uint64", [](auto& r) { Contents(r).add_uint64_contents(1); }},
        Inflation{"fp32", [](auto& r) { Contents(r).add_fp32_contents(1); }},
        Inflation{"fp64", [](auto& r) { Contents(r).add_fp64_contents(1); }},
        Inflation{"bytes", [](auto& r) { Contents(r).add_bytes_contents(); }},
        Inflation{"unknown_number",
                  [](auto& r) { r.GetReflection()->MutableUnknownFields(&r)->AddVarint(99, 1); }},
        Inflation{
            "unknown_bytes",
            [](auto& r) { r.GetReflection()->MutableUnknownFields(&r)->AddLengthDelimited(99); }}),
    [](const auto& info) { return info.param.name; });

TEST(RequestSizeTest, SurvivesMutatedMessagesAndCoversThoseThatParse) {
  ModelInferRequest request = PictureRequest();
  request.mutable_raw_input_contents(0)->resize(16);
  (*request.mutable_parameters())["priority"].set_uint64_param(1);
  const std::string wire = request.SerializeAsString();
  std::mt19937 random(7);
  int parsed_ones = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string mutated = wire;
    for (int k = 0; k < 3; ++k) mutated[random() % mutated.size()] = static_cast<char>(random());
    const auto size = Measure(mutated);
    ModelInferRequest parsed;
    if (!size.ok() || !parsed.ParseFromString(mutated)) continue;
    ++parsed_ones;
    ASSERT_GE(size->parsed.count(), parsed.SpaceUsedLong()) << "mutation " << i;
  }
  EXPECT_GT(parsed_ones, 50);
}

}  // namespace
}  // namespace sluice
