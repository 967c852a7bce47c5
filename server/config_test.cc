#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "server/config_keys.h"
#include "server/yaml_tree.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() : folder_(testing::TempDir() + "sluice_config_test") {
    std::filesystem::create_directories(folder_);
  }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<Config> Read(std::string_view text) {
    std::ofstream(folder_ / "c.yaml", std::ios::binary) << text;
    return ReadConfig(folder_ / "c.yaml");
  }
  // The message for a text that must be refused; the folder's name taken out.
  std::string Refusal(std::string_view text) {
    const absl::StatusOr<Config> config = Read(text);
    if (config.ok()) return "accepted";
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    std::string message(config.status().message());
    const std::string prefix = folder_.string() + "/";
    for (std::size_t at; (at = message.find(prefix)) != std::string::npos;) {
      message.erase(at, prefix.size());
    }
    return message;
  }

  const std::filesystem::path folder_;
};

TEST_F(ConfigTest, ReadsEveryKey) {
  const absl::StatusOr<Config> config = Read(R"(
server_name: edge
listen: ["127.0.0.1:1", "unix:/run/a.sock"]
metrics: { listen: "127.0.0.1:2", insecure: true }
tls: { certificate: c.pem, key: /etc/k.pem, client_ca: ../ca.pem, loopback: true }
socket: { mode: 0600, group: video }
memory: { budget: 256MiB }
cache_dir: /var/cache/x
compute: { threads: 2, slots: 1 }
storage: { io_uring: false }
limits: { max_request: 1MiB, max_queue: 3, max_in_flight: 4, max_connections: 5 }
drain_timeout: 1.5s
log: { level: warn }
model_repository: /srv/models
models:
  - name: a.b-C_9
    version: 7
    path: net/m.onnx
    dims: { batch: 1, "x[2]": 608 }
    values: { sr: 16000, shape: [1, -1.5] }
    pipeline: resident
    priority: 1
    deadline: 50ms
    load: explicit
  - { name: b, path: b.onnx, max_resident: 16MiB }
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server_name, "edge");
  EXPECT_THAT(config->listen, ElementsAre("127.0.0.1:1", "unix:/run/a.sock"));
  EXPECT_EQ(config->metrics_listen, "127.0.0.1:2");
  EXPECT_EQ(config->budget, 256_MiB);
  EXPECT_EQ(config->cache_dir, "/var/cache/x");
  EXPECT_EQ(config->threads, 2);
  EXPECT_FALSE(config->io_uring);
  EXPECT_EQ(config->max_request, 1_MiB);
  EXPECT_EQ(config->max_queue, 3u);
  EXPECT_EQ(config->max_in_flight, 4u);
  EXPECT_EQ(config->max_connections, 5u);
  EXPECT_EQ(config->drain_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(config->log_level, "warn");
  EXPECT_EQ(config->model_repository, "/srv/models");
  ASSERT_EQ(config->models.size(), 2u);
  EXPECT_EQ(config->models[0].max_resident, std::nullopt);
  EXPECT_EQ(config->models[1].max_resident, 16_MiB);
  const ModelConfig& model = config->models[0];
  EXPECT_EQ(model.name, "a.b-C_9");
  EXPECT_EQ(model.version, "7");
  EXPECT_EQ(model.path, folder_ / "net/m.onnx");
  EXPECT_EQ(model.root, "");
  EXPECT_EQ(model.dims.at("x[2]"), 608);
  EXPECT_THAT(model.values.at("sr"), testing::ElementsAre(16000));
  EXPECT_THAT(model.values.at("shape"), testing::ElementsAre(1, -1.5));
  EXPECT_EQ(model.pipeline, ModelConfig::Pipeline::kResident);
  EXPECT_EQ(model.priority, 1);
  EXPECT_EQ(model.deadline, std::chrono::milliseconds(50));
  EXPECT_EQ(model.load, ModelConfig::Load::kExplicit);
  EXPECT_THAT(model.where, HasSubstr("c.yaml:16"));
  EXPECT_TRUE(config->metrics_insecure);
  EXPECT_EQ(config->tls->certificate, folder_ / "c.pem");
  EXPECT_EQ(config->tls->key, "/etc/k.pem");
  EXPECT_EQ(config->tls->client_ca, folder_.parent_path() / "ca.pem");
  EXPECT_TRUE(config->tls->loopback);
  EXPECT_EQ(config->socket.mode, 0600u);
  EXPECT_EQ(config->socket.group, "video");
}

TEST_F(ConfigTest, TakesDefaultsFromAnEmptyFile) {
  for (const std::string_view text : {"", "# nothing\n", "models:\nmemory:\n"}) {
    const absl::StatusOr<Config> config = Read(text);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->budget, std::nullopt);
    EXPECT_EQ(config->budget_percent, 50);
    EXPECT_TRUE(config->models.empty());
  }
}

TEST_F(ConfigTest, ReadsThePercentageOfTheMachine) {
  const absl::StatusOr<Config> config = Read("memory: {budget: 12.5%}");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->budget, std::nullopt);
  EXPECT_EQ(config->budget_percent, 12.5);
}

TEST_F(ConfigTest, ReportsEveryErrorWithItsLine) {
  const std::string refusal = Refusal(R"(
memory:
  budget: lots
compute: { threads: 1000, slots: 2 }
listen: ["127.0.0.1:8001", nowhere]
models:
  - name: a/b
    path: x.onnx
  - path: y.onnx
    pipeline: planned
    deadline: 50
  - { name: c, path: c.onnx, pipeline: resident, max_resident: 1MiB }
)");
  EXPECT_THAT(refusal, HasSubstr("c.yaml:12: models[2].max_resident: got pipeline: resident"));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:3: memory.budget: got \"lots\", want bytes such as"));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:4: compute.threads: got \"1000\", want "));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:4: compute.slots: got \"2\", want 1 ("));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:5: listen[1]: got \"nowhere\", want HOST:PORT"));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:7: models[0].name: got \"a/b\", want "));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:9: models[1].name: got nothing, want the model's name"));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:10: models[1].pipeline: got \"planned\", want "
                                 "asynchronous or resident (others are not supported)"));
  EXPECT_THAT(refusal, HasSubstr("c.yaml:11: models[1].deadline: got \"50\", want "));
}

TEST_F(ConfigTest, SuggestsTheKeyThatWasMeant) {
  EXPECT_THAT(Refusal("servr_name: x"), HasSubstr("did you mean \"server_name\"?"));
  EXPECT_THAT(Refusal("memory: {budgt: 1MiB}"), HasSubstr("did you mean \"memory.budget\"?"));
  EXPECT_THAT(Refusal("budget: 1MiB"), HasSubstr("did you mean \"memory.budget\"?"));
  EXPECT_THAT(
      Refusal("models: [{name: a, path: b, priorty: 1}]"),
      HasSubstr("c.yaml:1: models[0].priorty: got an unknown key, want a known key: did you "
                "mean \"priority\"?"));
  EXPECT_THAT(Refusal("zzzzzzzzzz: 1"), Not(HasSubstr("did you mean")));
}

TEST_F(ConfigTest, RefusesAddressesThatOtherMachinesReach) {
  for (const std::string_view address :
       {"0.0.0.0:8001", "[::]:8001", "192.168.1.2:1", "edge.local:1", "127.0.0.1.example.com:1"}) {
    const std::string listen = absl::StrFormat("listen: [\"%s\"]\n", address);
    EXPECT_THAT(Refusal(listen), HasSubstr("c.yaml:1: listen[0]: got ")) << address;
    EXPECT_TRUE(Read(listen + "insecure: true").ok()) << address;
    EXPECT_THAT(Refusal(absl::StrFormat("metrics: {listen: \"%s\"}", address)),
                HasSubstr("metrics.listen"));
  }
  EXPECT_TRUE(Read("listen: [\"[::1]:8001\", \"localhost:1\", \"127.9.9.9:0\"]").ok());
}

TEST_F(ConfigTest, TakesTlsOrInsecureForAddressesThatOtherMachinesReach) {
  const std::string tls = "tls: {certificate: c, key: k}\n";
  const std::string listen = "listen: [\"0.0.0.0:1\", \"127.0.0.1:1\", \"unix:/run/s\"]\n";
  const absl::StatusOr<Config> config = Read(listen + tls);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(SpeaksTls(*config, "0.0.0.0:1"));
  EXPECT_FALSE(SpeaksTls(*config, "127.0.0.1:1"));
  EXPECT_FALSE(SpeaksTls(*config, "unix:/run/s"));
  const auto everywhere = Read(listen + "tls: {certificate: c, key: k, loopback: true}\n");
  ASSERT_TRUE(everywhere.ok()) << everywhere.status();
  EXPECT_TRUE(SpeaksTls(*everywhere, "127.0.0.1:1"));
  EXPECT_FALSE(SpeaksTls(*everywhere, "unix:/run/s"));
  EXPECT_THAT(Refusal(listen + tls + "insecure: true"),
              HasSubstr("c.yaml:3: insecure: got true beside `tls`, want one of the two"));
  EXPECT_THAT(Refusal("tls: {key: k}"), HasSubstr("c.yaml:1: tls.certificate: got nothing"));
  EXPECT_THAT(Refusal("tls: {certificate: c}"), HasSubstr("c.yaml:1: tls.key: got nothing"));
}

TEST_F(ConfigTest, ServesMetricsToOthersOnlyWhenToldSo) {
  const std::string tls = "tls: {certificate: c, key: k}\n";
  EXPECT_THAT(Refusal(tls + "metrics: {listen: \"0.0.0.0:1\"}"),
              HasSubstr("c.yaml:2: metrics.listen: got \"0.0.0.0:1\", which other machines"));
  EXPECT_TRUE(Read(tls + "metrics: {listen: \"0.0.0.0:1\", insecure: true}").ok());
}

TEST_F(ConfigTest, RefusesSocketModesThatMakeNoSense) {
  for (const std::string_view mode : {"0770", "4660", "0066", "8", "rw", "0o660", "06600"}) {
    EXPECT_THAT(Refusal(absl::StrFormat("socket: {mode: %s}", mode)), HasSubstr("socket.mode: got"))
        << mode;
  }
  EXPECT_EQ(Read("socket: {mode: 606}")->socket.mode, 0606u);
}

TEST_F(ConfigTest, RefusesWhatCannotBeServed) {
  EXPECT_THAT(Refusal("models: [{name: a, path: x}, {name: a, path: y}]"),
              HasSubstr("models[1].name: got \"a\" again, want each name once"));
  EXPECT_THAT(Refusal("models: [{name: a, path: x, dims: {b: {min: 1, max: 2}}}]"),
              HasSubstr("models[0].dims.b: got a map, want one size"));
  EXPECT_THAT(Refusal("models: [{name: a, path: x, dims: {b: 0}}]"), HasSubstr("dims.b"));
  EXPECT_THAT(Refusal("models: [{name: a, path: x, values: {sr: fast}}]"),
              HasSubstr("models[0].values.sr: got \"fast\", want a number, or a list"));
  EXPECT_THAT(Refusal("models: [{name: a, path: x, values: {sr: []}}]"), HasSubstr("values.sr"));
  EXPECT_THAT(Refusal("models: [{name: a, path: x, load: request}]"), HasSubstr("load"));
  EXPECT_THAT(Refusal("cache_dir: relative"), HasSubstr("want an absolute path"));
  EXPECT_THAT(Refusal("listen: []"), HasSubstr("listen"));
  EXPECT_THAT(Refusal("memory: 3"), HasSubstr("memory: got \"3\", want a map"));
  EXPECT_THAT(Refusal("[1]"), HasSubstr("configuration: got a list, want a map"));
  EXPECT_THAT(Refusal("limits: {max_request: 3GiB}"), HasSubstr("limits.max_request"));
}

TEST_F(ConfigTest, RefusesHostileYamlCheaply) {
  EXPECT_THAT(Refusal(std::string(300 * 1024, 'a')), HasSubstr("want at most 262144"));
  EXPECT_THAT(Refusal("a: &x [1]\nb: *x"), HasSubstr("anchors are not supported"));
  EXPECT_THAT(Refusal(std::string(40, '[') + std::string(40, ']')), HasSubstr("levels of nesting"));
  EXPECT_NE(Refusal(std::string(200'000, '[')), "accepted");
  EXPECT_NE(Refusal(std::string(200'000, '{')), "accepted");
  EXPECT_THAT(Refusal("a: 1\na: 2"), HasSubstr("c.yaml:2: a: got this key twice"));
  EXPECT_THAT(Refusal("a: [1"), HasSubstr("c.yaml:1: got text that is not YAML"));
  EXPECT_THAT(Refusal("a: 1\n---\nb: 1"), HasSubstr("several documents"));
  std::string keys;
  for (int i = 0; i < 1500; ++i) keys += absl::StrFormat("k%d: 1\n", i);
  EXPECT_THAT(Refusal(keys), HasSubstr("more than 1000 keys"));
}

TEST_F(ConfigTest, SaysWhenThereIsNoSuchFile) {
  EXPECT_EQ(ReadConfig(folder_ / "none.yaml").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadConfig(folder_).status().code(), absl::StatusCode::kInvalidArgument);
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ConfigurationPage, HasALineForEveryKey) {
  const std::string page = Slurp(SLUICE_SOURCE_DIR "/docs/configuration.md");
  ASSERT_FALSE(page.empty());
  for (const std::vector<KeyInfo>& keys : {DaemonKeys(), ModelKeys()}) {
    for (const KeyInfo& key : keys) {
      EXPECT_THAT(page, HasSubstr(absl::StrFormat("| `%s` |", key.path)));
    }
  }
}

TEST(ExampleConfiguration, IsValidAndShowsEveryKey) {
  const absl::StatusOr<Config> config = ReadConfig(SLUICE_SOURCE_DIR "/configs/sluice.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  const std::string text = Slurp(SLUICE_SOURCE_DIR "/configs/sluice.yaml");
  for (const std::vector<KeyInfo>& keys : {DaemonKeys(), ModelKeys()}) {
    for (const KeyInfo& key : keys) {
      const std::size_t dot = key.path.rfind('.');
      const std::string_view leaf =
          dot == std::string_view::npos ? key.path : key.path.substr(dot + 1);
      EXPECT_THAT(text, HasSubstr(absl::StrFormat("%s:", leaf)));
    }
  }
}

}  // namespace
}  // namespace sluice
