// The program itself, as a caller sees it: exit code, stdout, stderr.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "client/fake_daemon.h"
#include "client/npy.h"
#include "client/picture.h"
#include "client/tensor_set.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Result {
  int code = -1;
  std::string out, err;
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, false); }
};

// Runs sluicectl with arguments that need no quoting.
Result RunProgram(const std::string& arguments, const std::string& environment = "") {
  const TestFolder folder;
  const std::string err = (folder.path() / "err").string();
  const std::string out = (folder.path() / "out").string();
  const std::string command = environment + " " SLUICECTL_PROGRAM " " + arguments + " >" + out +
                              " 2>" + err + " </dev/null";
  Result result;
  const int status = std::system(command.c_str());
  SLUICE_CHECK(WIFEXITED(status));
  result.code = WEXITSTATUS(status);
  result.out = *ReadFile(out, kMaxTensorFile);
  result.err = *ReadFile(err, kMaxTensorFile);
  return result;
}

class SluicectlTest : public testing::Test {
 protected:
  // The arguments, then the fake daemon's address.
  Result Ask(const std::string& arguments) {
    return RunProgram(arguments + " --address " + daemon_.address());
  }
  std::string File(const std::string& name) const { return (folder_.path() / name).string(); }
  // A picture of 32 x 16, twice the model's sides.
  std::string PictureFile() const {
    const Picture picture{
        .width = 32, .height = 16, .rgb = std::vector<std::uint8_t>(32 * 16 * 3, 100)};
    SLUICE_CHECK(WritePng(picture, File("in.png")).ok());
    return File("in.png");
  }

  TestFolder folder_;
  FakeDaemon daemon_;
};

TEST(SluicectlAloneTest, ExitsWithThreeWhenNobodyAnswers) {
  const TestFolder folder;
  const std::string address = "unix:" + (folder.path() / "none.sock").string();
  for (const char* command : {"status", "models", "metadata m", "ready", "ready m", "load m",
                              "unload m", "infer m --zeros"}) {
    const Result result = RunProgram(std::string(command) + " --address " + address);
    EXPECT_EQ(result.code, 3) << command;
    EXPECT_THAT(result.err, HasSubstr("no daemon answers at " + address)) << command;
    EXPECT_THAT(result.err, HasSubstr("Is sluiced running?")) << command;
    EXPECT_THAT(result.out, IsEmpty()) << command;
  }
}

TEST(SluicectlAloneTest, TakesTheAddressFromTheEnvironment) {
  const Result result = RunProgram("status", "SLUICE_ADDRESS=unix:/nowhere/at/all.sock");
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, HasSubstr("unix:/nowhere/at/all.sock"));
}

TEST(SluicectlAloneTest, TellsErrorsInJsonToo) {
  const Result result = RunProgram("status --json --address unix:/nowhere/at/all.sock");
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.json()["error"]["code"], "UNAVAILABLE");
}

TEST(SluicectlAloneTest, ExitsWithTwoOnWrongUsage) {
  for (const char* arguments :
       {"", "nonsense", "status surplus", "status --nonsense", "metadata", "infer", "infer m",
        "infer m --input =", "infer m --zeros --random 1", "infer m --zeros --repeat 0",
        "infer m --zeros --scale x", "infer m --zeros --mean 1,2", "infer m --zeros --order rbg",
        "infer m --zeros --layout hwc", "infer m --zeros --labels f", "infer m --zeros --top x",
        "status --timeout -1", "ready --wait x"}) {
    const Result result = RunProgram(arguments);
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_THAT(result.err, Not(IsEmpty())) << arguments;
  }
}

TEST(SluicectlAloneTest, HelpsWithExamplesForEachCommand) {
  for (const char* command : {"status", "models", "metadata", "ready", "load", "unload", "infer"}) {
    const Result result = RunProgram(std::string(command) + " --help");
    EXPECT_EQ(result.code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Example")) << command;
    EXPECT_THAT(result.out, HasSubstr(std::string("sluicectl ") + command)) << command;
    EXPECT_THAT(result.out, HasSubstr("--json")) << command;
  }
  EXPECT_THAT(RunProgram("--help").out, HasSubstr("Exit codes"));
  EXPECT_EQ(RunProgram("--version").code, 0);
}

TEST_F(SluicectlTest, TellsWhereTheMemoryIs) {
  const Result text = Ask("status");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("budget    96 MiB, set by the configuration"));
  EXPECT_THAT(text.out, HasSubstr("12.5 ms"));
  const Result json = Ask("status --json");
  EXPECT_EQ(json.json()["budget_bytes"], 96 << 20);
  EXPECT_EQ(json.json()["models"][0]["inferences"], 7);
  EXPECT_EQ(json.json()["ledger"][0]["line"], "weights");
}

TEST_F(SluicectlTest, ListsModelsWithReasons) {
  EXPECT_THAT(Ask("models").out, HasSubstr("chat: operator Attention 23"));
  EXPECT_EQ(Ask("models --json").json()["models"][1]["state"], "UNAVAILABLE");
}

TEST_F(SluicectlTest, TellsInputsAndOutputs) {
  EXPECT_THAT(Ask("metadata detector").out, HasSubstr("[1, 3, 8, 16]"));
  EXPECT_EQ(Ask("metadata detector --json").json()["inputs"][0]["shape"],
            nlohmann::json({1, 3, 8, 16}));
  const Result unknown = Ask("metadata unknown");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NOT_FOUND: Request for unknown model"));
}

TEST_F(SluicectlTest, SaysWhetherTheDaemonIsReady) {
  EXPECT_EQ(Ask("ready").code, 0);
  EXPECT_EQ(Ask("ready detector --json").json()["ready"], true);
  EXPECT_EQ(Ask("ready nobody").code, 1);
  daemon_.ready_after = 1;
  EXPECT_EQ(Ask("ready").code, 5);
  daemon_.ready_after = 3;
  EXPECT_EQ(Ask("ready --wait 60").code, 0);
}

TEST_F(SluicectlTest, LoadsAndUnloads) {
  EXPECT_EQ(Ask("load detector").out, "model detector is loaded\n");
  EXPECT_EQ(Ask("unload detector --json").json()["loaded"], false);
  const Result unknown = Ask("load nobody");
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("NOT_FOUND: failed to load 'nobody'"));
  EXPECT_EQ(Ask("unload nobody").code, 1);
  EXPECT_EQ(Ask("load").code, 2);
}

TEST_F(SluicectlTest, FindsTextInAPictureAndDrawsIt) {
  const Result result = Ask("infer detector --input x=" + PictureFile() +
                            " --scale 1/255 --text-regions " + File("found.png"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("1 text region:\n   1. at x="));
  EXPECT_THAT(result.out, HasSubstr("score 1.00"));
  const auto found = ReadPicture(File("found.png"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->width, 32u);
  EXPECT_NE(found->rgb, ReadPicture(File("in.png"))->rgb);
  const Tensor sent{.name = "x",
                    .datatype = "FP32",
                    .shape = {1, 3, 8, 16},
                    .data = daemon_.last_request.raw_input_contents(0)};
  EXPECT_THAT(*Values(sent), testing::Each(testing::DoubleNear(100.0 / 255, 1e-6)));
}

TEST_F(SluicectlTest, KeepsOutputsAsArraysAndAsATensorSet) {
  const Result result =
      Ask("infer detector --zeros --out " + File("npy") + " --raw " + File("set"));
  EXPECT_EQ(result.code, 0) << result.err;
  const auto array = ReadNpy(File("npy/map.npy"));
  ASSERT_TRUE(array.ok()) << array.status();
  const auto set = ReadTensorSet(File("set"));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ((*set)[0].data, array->data);
  // What was written can be sent again.
  EXPECT_EQ(Ask("infer detector --inputs " + File("set")).code, 0);
  EXPECT_EQ(daemon_.last_request.inputs(0).name(), "map");
}

TEST_F(SluicectlTest, RanksClassesWithLabels) {
  folder_.Write("labels", "zero\none\n");
  const Result result = Ask("infer detector --random 3 --top 2 --json --labels " + File("labels"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.json()["top"][0].size(), 2u);
  EXPECT_EQ(result.json()["top"][0][0]["index"], 2 * 16 + 3);
}

TEST_F(SluicectlTest, RepeatsAndTellsLatencies) {
  const Result text = Ask("infer detector --zeros --repeat 5");
  EXPECT_THAT(text.out, HasSubstr("answered 5 requests: min "));
  EXPECT_THAT(text.out, HasSubstr("p99"));
  const auto json = Ask("infer detector --zeros --repeat 5 --json").json();
  EXPECT_EQ(json["requests"], 5);
  EXPECT_LE(json["latency_seconds"]["min"], json["latency_seconds"]["p99"]);
}

TEST_F(SluicectlTest, ExitsWithOneWhenTheDaemonRefuses) {
  const Result result = Ask("infer broken --zeros");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "sluicectl: RESOURCE_EXHAUSTED: got 9 bytes, want 3\n");
  EXPECT_EQ(Ask("infer slow --zeros --timeout 0.05").code, 1);
}

TEST_F(SluicectlTest, ExitsWithFourOnFilesOfTheCallers) {
  const std::string cut = folder_.Write("cut.npy", "\x93NUMPY\1");
  const std::string page = PictureFile();
  for (const std::string& arguments : std::vector<std::string>{
           "--input x=" + File("none.npy"), "--input x=" + cut, "--input y=" + page,
           "--inputs " + folder_.path().string(), "--zeros --boxes",
           "--zeros --out " + cut + "/below", "--zeros --top 1 --labels " + File("none")}) {
    const Result result = Ask("infer detector " + arguments);
    EXPECT_EQ(result.code, 4) << arguments;
    EXPECT_THAT(result.err, HasSubstr("sluicectl: ")) << arguments;
  }
}

}  // namespace
}  // namespace sluice
