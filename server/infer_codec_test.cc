#include "server/infer_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <ostream>

namespace sluice {
namespace {

using inference::ModelInferRequest;
using testing::HasSubstr;

const std::vector<PortInfo>& Inputs() {
  static const std::vector<PortInfo> ports = {{"x", DataType::kFloat32, {1, 2}, {}},
                                              {"k", DataType::kInt64, {3}, {}}};
  return ports;
}

const std::vector<PortInfo>& Outputs() {
  static const std::vector<PortInfo> ports = {{"y", DataType::kFloat32, {1, 10}, {}},
                                              {"z", DataType::kBool, {7}, {}}};
  return ports;
}

ModelInterface Model() { return {"m", Inputs(), Outputs()}; }

template <typename T>
std::string Raw(std::initializer_list<T> values) {
  std::string raw(values.size() * sizeof(T), '\0');
  std::memcpy(raw.data(), values.begin(), raw.size());
  return raw;
}

ModelInferRequest::InferInputTensor& AddInput(ModelInferRequest& request, const std::string& name,
                                              const std::string& datatype,
                                              std::initializer_list<std::int64_t> shape) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  for (const std::int64_t dim : shape) input.add_shape(dim);
  return input;
}

// A request that is right: the inputs in another order than the model's, raw.
ModelInferRequest Good() {
  ModelInferRequest request;
  request.set_model_name("m");
  AddInput(request, "k", "INT64", {3});
  AddInput(request, "x", "FP32", {1, 2});
  request.add_raw_input_contents(Raw<std::int64_t>({1, 2, 3}));
  request.add_raw_input_contents(Raw<float>({0.5f, -2.0f}));
  return request;
}

ModelInferRequest GoodTyped() {
  ModelInferRequest request = Good();
  request.clear_raw_input_contents();
  for (const int value : {1, 2, 3}) {
    request.mutable_inputs(0)->mutable_contents()->add_int64_contents(value);
  }
  for (const float value : {0.5f, -2.0f}) {
    request.mutable_inputs(1)->mutable_contents()->add_fp32_contents(value);
  }
  return request;
}

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(InferCodecTest, PutsRawInputsInTheModelsOrderWithoutCopyingThem) {
  const ModelInferRequest request = Good();
  const auto decoded = DecodeRequest(request, Model());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->inputs.size(), 2u);
  EXPECT_EQ(static_cast<const void*>(decoded->inputs[0].data()),
            request.raw_input_contents(1).data());
  EXPECT_EQ(Text(decoded->inputs[1]), Raw<std::int64_t>({1, 2, 3}));
}

TEST(InferCodecTest, TypedContentsAreTheSameBytesAsRaw) {
  const auto decoded = DecodeRequest(GoodTyped(), Model());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(Text(decoded->inputs[0]), Raw<float>({0.5f, -2.0f}));
  EXPECT_EQ(Text(decoded->inputs[1]), Raw<std::int64_t>({1, 2, 3}));
}

TEST(InferCodecTest, AllOutputsAnswerWhenNoneIsNamed) {
  const auto decoded = DecodeRequest(Good(), Model());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->outputs, testing::ElementsAre(0, 1));
}

TEST(InferCodecTest, OutputsComeInTheOrderAsked) {
  ModelInferRequest request = Good();
  request.add_outputs()->set_name("z");
  request.add_outputs()->set_name("y");
  const auto decoded = DecodeRequest(request, Model());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->outputs, testing::ElementsAre(1, 0));
}

TEST(InferCodecTest, SizesThatWereComputedReplaceTheirBounds) {
  std::vector<PortInfo> ports = {{"boxes", DataType::kInt64, {100, 3}, {}},
                                 {"fixed", DataType::kFloat32, {2}, {}}};
  ports[0].dynamic = PortInfo::Dynamic{0, BufferIndex{}};
  const ModelInterface model{"detector", {}, ports};
  const std::vector<std::size_t> outputs = {1, 0};
  const std::vector<std::int64_t> counts = {7, 0};
  const auto answer = AnswerHeader(ModelInferRequest(), "1", model, outputs, counts);
  EXPECT_THAT(answer.outputs(0).shape(), testing::ElementsAre(2));
  EXPECT_THAT(answer.outputs(1).shape(), testing::ElementsAre(7, 3));
}

TEST(InferCodecTest, AnswersEchoIdNameAndResolvedVersion) {
  ModelInferRequest request = Good();
  request.set_id("request 7");
  const std::vector<std::size_t> outputs = {1, 0};
  const auto answer = AnswerHeader(request, "12", Model(), outputs);
  EXPECT_EQ(answer.id(), "request 7");
  EXPECT_EQ(answer.model_name(), "m");
  EXPECT_EQ(answer.model_version(), "12");
  ASSERT_EQ(answer.outputs_size(), 2);
  EXPECT_EQ(answer.outputs(0).name(), "z");
  EXPECT_EQ(answer.outputs(0).datatype(), "BOOL");
  EXPECT_EQ(answer.outputs(1).name(), "y");
  EXPECT_THAT(answer.outputs(1).shape(), testing::ElementsAre(1, 10));
}

TEST(InferCodecTest, AnswerBytesCountEveryOutputAligned) {
  EXPECT_EQ(AnswerBytes(Model()), Bytes::Of(64 + 64));
}

TEST(InferCodecTest, ReadsPriorityAndTimeout) {
  ModelInferRequest request = Good();
  (*request.mutable_parameters())["priority"].set_uint64_param(3);
  (*request.mutable_parameters())["timeout"].set_int64_param(1500);
  const auto decoded = DecodeRequest(request, Model());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->priority, 3);
  EXPECT_EQ(decoded->timeout, std::chrono::microseconds(1500));
}

TEST(InferCodecTest, ZeroTimeoutAndSequenceMeanNone) {
  ModelInferRequest request = Good();
  (*request.mutable_parameters())["timeout"].set_int64_param(0);
  (*request.mutable_parameters())["sequence_id"].set_int64_param(0);
  (*request.mutable_parameters())["sequence_end"].set_bool_param(false);
  const auto decoded = DecodeRequest(request, Model());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->timeout, std::nullopt);
}

TEST(InferCodecTest, ParametersOfOthersAreAccepted) {
  ModelInferRequest request = Good();
  (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(true);
  (*request.mutable_parameters())["trace"].set_string_param("abc");
  (*request.mutable_inputs(0)->mutable_parameters())["binary_data_size"].set_int64_param(24);
  EXPECT_TRUE(DecodeRequest(request, Model()).ok());
}

TEST(InferCodecTest, ATensorWithoutElementsNeedsNoData) {
  const std::vector<PortInfo> inputs = {{"e", DataType::kFloat32, {0, 4}, {}}};
  ModelInferRequest request;
  AddInput(request, "e", "FP32", {0, 4});
  const auto decoded = DecodeRequest(request, {"m", inputs, Outputs()});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->inputs[0].empty());
}

TEST(InferCodecTest, AnInputThatTheModelWasLoadedForTakesThatAlone) {
  PortInfo rate{"sr", DataType::kInt64, {}, {}};
  rate.required.resize(8);
  const std::int64_t wanted = 16000;
  std::memcpy(rate.required.data(), &wanted, sizeof(wanted));
  const std::vector<PortInfo> inputs = {rate};
  const auto decode = [&](std::int64_t sent) {
    ModelInferRequest request;
    AddInput(request, "sr", "INT64", {});
    request.mutable_inputs(0)->mutable_contents()->add_int64_contents(sent);
    return DecodeRequest(request, {"m", inputs, Outputs()}).status();
  };
  EXPECT_TRUE(decode(16000).ok()) << decode(16000);
  EXPECT_EQ(decode(8000).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decode(8000).message()), HasSubstr("got 8000, want 16000"));
}

TEST(InferCodecTest, QuotesCutAndEscapeForeignText) {
  EXPECT_EQ(Quoted("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(Quoted(std::string(1000, 'q')), "\"" + std::string(64, 'q') + "...\"");
}

struct Mistake {
  std::string name;
  std::function<void(ModelInferRequest&)> make;  // From Good().
  std::string text;                              // Part of the message.
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};
void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.name; }
class InferCodecMistake : public testing::TestWithParam<Mistake> {};

TEST_P(InferCodecMistake, GetsOneClearError) {
  ModelInferRequest request = Good();
  GetParam().make(request);
  const auto decoded = DecodeRequest(request, Model());
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), GetParam().code) << decoded.status();
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(GetParam().text));
}

auto& Parameter(ModelInferRequest& request, const std::string& name) {
  return (*request.mutable_parameters())[name];
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, InferCodecMistake,
    testing::Values(
        Mistake{"missing",
                [](auto& r) {
                  r.mutable_inputs()->RemoveLast();
                  r.mutable_raw_input_contents()->RemoveLast();
                },
                "model \"m\": expected 2 inputs but got 1 inputs: missing \"x\" (got \"k\")"},
        Mistake{"none",
                [](auto& r) {
                  r.clear_inputs();
                  r.clear_raw_input_contents();
                },
                "expected 2 inputs but got 0 inputs: missing \"x\", \"k\" (got none)"},
        Mistake{"misnamed", [](auto& r) { r.mutable_inputs(1)->set_name("X"); },
                "model \"m\": unexpected input \"X\", want \"x\", \"k\""},
        Mistake{"surplus",
                [](auto& r) {
                  AddInput(r, "w", "FP32", {1});
                  r.add_raw_input_contents(Raw<float>({1}));
                },
                "unexpected input \"w\""},
        Mistake{"duplicate",
                [](auto& r) {
                  r.mutable_inputs(0)->CopyFrom(r.inputs(1));
                  r.set_raw_input_contents(0, r.raw_input_contents(1));
                },
                "input \"x\" of model \"m\": given more than once"},
        Mistake{"datatype", [](auto& r) { r.mutable_inputs(1)->set_datatype("FP64"); },
                "input \"x\" of model \"m\": got datatype \"FP64\", want FP32"},
        Mistake{"no_datatype", [](auto& r) { r.mutable_inputs(1)->clear_datatype(); },
                "got datatype \"\", want FP32"},
        Mistake{"bytes_datatype", [](auto& r) { r.mutable_inputs(1)->set_datatype("BYTES"); },
                "got datatype \"BYTES\", want FP32"},
        Mistake{"rank", [](auto& r) { r.mutable_inputs(1)->add_shape(1); },
                "input \"x\" of model \"m\": got 3 dims, want 2: [1,2]"},
        Mistake{"shape", [](auto& r) { r.mutable_inputs(1)->set_shape(1, 3); },
                "input \"x\" of model \"m\": got shape [1,3], want [1,2]"},
        Mistake{"batch", [](auto& r) { r.mutable_inputs(1)->set_shape(0, 8); },
                "got shape [8,2], want [1,2]"},
        Mistake{"unknown_dim", [](auto& r) { r.mutable_inputs(1)->set_shape(0, -1); },
                "got shape [-1,2], want [1,2]"},
        Mistake{"huge_dim", [](auto& r) { r.mutable_inputs(1)->set_shape(0, INT64_MAX); },
                "got shape [9223372036854775807,2], want [1,2]"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Contents, InferCodecMistake,
    testing::Values(
        Mistake{"raw_too_short", [](auto& r) { r.set_raw_input_contents(1, "1234567"); },
                "input \"x\" of model \"m\": got 7 bytes in raw_input_contents, want 8 for FP32 "
                "[1,2]"},
        Mistake{"raw_too_long", [](auto& r) { r.mutable_raw_input_contents(0)->append("1"); },
                "got 25 bytes in raw_input_contents, want 24 for INT64 [3]"},
        Mistake{"raw_too_few", [](auto& r) { r.mutable_raw_input_contents()->RemoveLast(); },
                "model \"m\": got 1 raw_input_contents, want 2"},
        Mistake{"raw_too_many", [](auto& r) { r.add_raw_input_contents("a"); },
                "model \"m\": got 3 raw_input_contents, want 2"},
        Mistake{"raw_and_typed",
                [](auto& r) { r.mutable_inputs(1)->mutable_contents()->add_fp32_contents(1); },
                "contents field must not be specified when using raw_input_contents for 'x' for "
                "model 'm'"},
        Mistake{"no_data", [](auto& r) { r.clear_raw_input_contents(); },
                "input \"k\" of model \"m\": got no data, want 24 bytes in raw_input_contents or 3 "
                "elements"},
        Mistake{"wrong_field",
                [](auto& r) {
                  r = GoodTyped();
                  r.mutable_inputs(1)->mutable_contents()->Clear();
                  r.mutable_inputs(1)->mutable_contents()->add_fp64_contents(1);
                },
                "input \"x\" of model \"m\": got fp64_contents, want fp32_contents for datatype "
                "FP32"},
        Mistake{"two_fields",
                [](auto& r) {
                  r = GoodTyped();
                  r.mutable_inputs(1)->mutable_contents()->add_bytes_contents("a");
                },
                "got bytes_contents, want fp32_contents"},
        Mistake{"too_few_elements",
                [](auto& r) {
                  r = GoodTyped();
                  r.mutable_inputs(0)->mutable_contents()->mutable_int64_contents()->RemoveLast();
                },
                "input \"k\" of model \"m\": got 2 elements in int64_contents, want 3 for shape "
                "[3]"},
        Mistake{"too_many_elements",
                [](auto& r) {
                  r = GoodTyped();
                  r.mutable_inputs(0)->mutable_contents()->add_int64_contents(4);
                },
                "got 4 elements in int64_contents, want 3"}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Outputs, InferCodecMistake,
    testing::Values(
        Mistake{"unknown_output", [](auto& r) { r.add_outputs()->set_name("q"); },
                "model \"m\": unexpected inference output \"q\", want \"y\", \"z\""},
        Mistake{"duplicate_output",
                [](auto& r) {
                  r.add_outputs()->set_name("y");
                  r.add_outputs()->set_name("y");
                },
                "output \"y\" of model \"m\": requested more than once"},
        Mistake{"classification_kind",
                [](auto& r) {
                  r.add_outputs()->set_name("y");
                  (*r.mutable_outputs(0)->mutable_parameters())["classification"].set_bool_param(
                      true);
                },
                "parameter \"classification\": got bool_param, want int64_param"},
        Mistake{"classification",
                [](auto& r) {
                  r.add_outputs()->set_name("y");
                  (*r.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(
                      3);
                },
                "classification is not supported", absl::StatusCode::kUnimplemented},
        Mistake{"output_in_shared_memory",
                [](auto& r) {
                  r.add_outputs()->set_name("y");
                  (*r.mutable_outputs(0)->mutable_parameters())["shared_memory_region"]
                      .set_string_param("a");
                },
                "output \"y\" of model \"m\": shared memory is not supported",
                absl::StatusCode::kUnimplemented}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Parameters, InferCodecMistake,
    testing::Values(
        Mistake{"priority_kind", [](auto& r) { Parameter(r, "priority").set_string_param("high"); },
                "parameter \"priority\": got string_param, want uint64_param or int64_param"},
        Mistake{"priority_negative", [](auto& r) { Parameter(r, "priority").set_int64_param(-1); },
                "parameter \"priority\": got -1, want 0 to 2147483647"},
        Mistake{"priority_large",
                [](auto& r) { Parameter(r, "priority").set_uint64_param(UINT64_MAX); },
                "got 18446744073709551615, want 0 to 2147483647"},
        Mistake{"timeout_kind", [](auto& r) { Parameter(r, "timeout").set_double_param(0.5); },
                "parameter \"timeout\": got double_param, want int64_param"},
        Mistake{"timeout_empty", [](auto& r) { Parameter(r, "timeout"); },
                "parameter \"timeout\": got nothing, want int64_param"},
        Mistake{"timeout_negative", [](auto& r) { Parameter(r, "timeout").set_int64_param(-5); },
                "parameter \"timeout\": got -5, want microseconds"},
        Mistake{"sequence_id_kind",
                [](auto& r) { Parameter(r, "sequence_id").set_bool_param(true); },
                "parameter \"sequence_id\": got bool_param, want int64_param or string_param"},
        Mistake{"sequence_start_kind",
                [](auto& r) { Parameter(r, "sequence_start").set_int64_param(1); },
                "parameter \"sequence_start\": got int64_param, want bool_param"},
        Mistake{"sequence", [](auto& r) { Parameter(r, "sequence_id").set_int64_param(9); },
                "sequences with state in the server are not supported",
                absl::StatusCode::kUnimplemented},
        Mistake{
            "input_in_shared_memory",
            [](auto& r) {
              (*r.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param(
                  "a");
            },
            "input \"k\" of model \"m\": shared memory is not supported",
            absl::StatusCode::kUnimplemented}),
    [](const auto& info) { return info.param.name; });

// One element of each type in its typed field gives the bytes of the machine's own number.
struct TypedCase {
  DataType type;
  std::function<void(inference::InferTensorContents&)> add;
  std::string bytes;
};
void PrintTo(const TypedCase& typed, std::ostream* out) { *out << ProtocolName(typed.type); }
class TypedContentsTest : public testing::TestWithParam<TypedCase> {};

TEST_P(TypedContentsTest, BecomesTheMachinesNumber) {
  const std::vector<PortInfo> inputs = {{"v", GetParam().type, {1}, {}}};
  ModelInferRequest request;
  auto& input = AddInput(request, "v", std::string(ProtocolName(GetParam().type)), {1});
  GetParam().add(*input.mutable_contents());
  const auto decoded = DecodeRequest(request, {"m", inputs, Outputs()});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(Text(decoded->inputs[0]), GetParam().bytes);
}

INSTANTIATE_TEST_SUITE_P(
    All, TypedContentsTest,
    testing::Values(
        TypedCase{DataType::kBool, [](auto& c) { c.add_bool_contents(true); }, Raw<char>({1})},
        TypedCase{DataType::kInt8, [](auto& c) { c.add_int_contents(-7); }, Raw<std::int8_t>({-7})},
        TypedCase{DataType::kInt16, [](auto& c) { c.add_int_contents(-700); },
                  Raw<std::int16_t>({-700})},
        TypedCase{DataType::kInt32, [](auto& c) { c.add_int_contents(-70000); },
                  Raw<std::int32_t>({-70000})},
        TypedCase{DataType::kInt64, [](auto& c) { c.add_int64_contents(INT64_MIN); },
                  Raw<std::int64_t>({INT64_MIN})},
        TypedCase{DataType::kUint8, [](auto& c) { c.add_uint_contents(255); },
                  Raw<std::uint8_t>({255})},
        TypedCase{DataType::kUint16, [](auto& c) { c.add_uint_contents(65535); },
                  Raw<std::uint16_t>({65535})},
        TypedCase{DataType::kUint32, [](auto& c) { c.add_uint_contents(UINT32_MAX); },
                  Raw<std::uint32_t>({UINT32_MAX})},
        TypedCase{DataType::kUint64, [](auto& c) { c.add_uint64_contents(UINT64_MAX); },
                  Raw<std::uint64_t>({UINT64_MAX})},
        TypedCase{DataType::kFloat32, [](auto& c) { c.add_fp32_contents(1.25f); },
                  Raw<float>({1.25f})},
        TypedCase{DataType::kFloat64, [](auto& c) { c.add_fp64_contents(1e300); },
                  Raw<double>({1e300})}),
    [](const auto& info) { return std::string(ProtocolName(info.param.type)); });

TEST(TypedContentsTest, RefusesAValueOutOfTheTypesRange) {
  const std::vector<PortInfo> inputs = {{"v", DataType::kInt8, {2}, {}}};
  ModelInferRequest request;
  auto& input = AddInput(request, "v", "INT8", {2});
  input.mutable_contents()->add_int_contents(-128);
  input.mutable_contents()->add_int_contents(128);
  const auto decoded = DecodeRequest(request, {"m", inputs, Outputs()});
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decoded.status().message()),
              HasSubstr("input \"v\" of model \"m\": got 128 as element 1, want INT8"));
}

TEST(TypedContentsTest, HalfPrecisionTravelsRawOnly) {
  const std::vector<PortInfo> inputs = {{"v", DataType::kFloat16, {1}, {}}};
  ModelInferRequest request;
  AddInput(request, "v", "FP16", {1}).mutable_contents()->add_fp32_contents(1);
  const auto decoded = DecodeRequest(request, {"m", inputs, Outputs()});
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("FP16 has no typed field"));
  request.mutable_inputs(0)->clear_contents();
  request.add_raw_input_contents(std::string("\0\x3c", 2));
  EXPECT_TRUE(DecodeRequest(request, {"m", inputs, Outputs()}).ok());
}

TEST(InferCodecTest, RefusesABooleanThatIsNeitherZeroNorOne) {
  const std::vector<PortInfo> inputs = {{"v", DataType::kBool, {3}, {}}};
  ModelInferRequest request;
  AddInput(request, "v", "BOOL", {3});
  request.add_raw_input_contents(std::string("\0\1\2", 3));
  const auto decoded = DecodeRequest(request, {"m", inputs, Outputs()});
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(decoded.status().message()),
              HasSubstr("got byte 2 as element 2, want 0 or 1 for BOOL"));
}

}  // namespace
}  // namespace sluice
