#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/fake_daemon.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TEST(ClientTest, SendsTensorsRawAndTakesTheAnswer) {
  FakeDaemon daemon;
  Client client(daemon.address());
  const std::vector<Tensor> inputs = {
      {.name = "x", .datatype = "FP32", .shape = {1, 2}, .data = "12345678"}};
  const auto outputs =
      client.Infer("detector", inputs,
                   {.version = "1", .outputs = {"map"}, .id = "a", .priority = 3, .timeout = {}});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  ASSERT_EQ(outputs->size(), 1u);
  EXPECT_EQ((*outputs)[0].name, "map");
  EXPECT_EQ((*outputs)[0].shape, (std::vector<std::int64_t>{1, 1, 8, 16}));
  EXPECT_EQ((*outputs)[0].data.size(), 512u);
  const inference::ModelInferRequest& request = daemon.last_request;
  EXPECT_EQ(request.model_version(), "1");
  EXPECT_EQ(request.id(), "a");
  EXPECT_EQ(request.parameters().at("priority").int64_param(), 3);
  EXPECT_EQ(request.inputs(0).name(), "x");
  EXPECT_EQ(request.raw_input_contents(0), "12345678");
  EXPECT_FALSE(request.inputs(0).has_contents());
  EXPECT_EQ(request.outputs(0).name(), "map");
}

TEST(ClientTest, CarriesMessagesLargerThanGrpcsDefault) {
  FakeDaemon daemon;
  Client client(daemon.address());
  const std::int64_t size = 6 * 1024 * 1024;
  ASSERT_TRUE(client
                  .Infer("detector",
                         {{.name = "x",
                           .datatype = "UINT8",
                           .shape = {size},
                           .data = std::string(static_cast<std::size_t>(size), 'x')}},
                         {})
                  .ok());
  EXPECT_EQ(daemon.last_request.raw_input_contents(0).size(), static_cast<std::size_t>(size));
}

TEST(ClientTest, PassesTheDaemonsCodeAndTextOn) {
  FakeDaemon daemon;
  Client client(daemon.address());
  const absl::Status refused = client.Infer("broken", {}, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "got 9 bytes, want 3");
  EXPECT_FALSE(IsUnreachable(refused));
  EXPECT_EQ(client.ModelReady("nobody", "").status().code(), absl::StatusCode::kNotFound);
}

TEST(ClientTest, GivesUpWhenTheTimeIsOver) {
  FakeDaemon daemon;
  Client client(daemon.address(), {.timeout = std::chrono::milliseconds(50)});
  const absl::Status late = client.Infer("slow", {}, {}).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(IsUnreachable(late));
}

TEST(ClientTest, TellsThatNobodyAnswersFromAnAnswer) {
  const TestFolder folder;
  Client client("unix:" + (folder.path() / "none.sock").string());
  const absl::Status nobody = client.ServerLive().status();
  EXPECT_EQ(nobody.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(IsUnreachable(nobody));
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("none.sock"));
}

TEST(ClientTest, RefusesAnAnswerWhoseBytesDoNotFitItsShape) {
  FakeDaemon daemon;
  daemon.raw_answer = "1234";
  Client client(daemon.address());
  const absl::Status wrong = client.Infer("detector", {}, {}).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("\"map\" of the answer: got 4 bytes"));
}

}  // namespace
}  // namespace sluice
