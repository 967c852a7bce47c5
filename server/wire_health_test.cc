// Health, reflection and sockets, over the wire as any client would.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "server/metrics_server.h"
#include "server/process_usage.h"
#include "server/wire_test_daemon.h"

namespace sluice {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::HasSubstr;

class WireHealthTest : public WireTest {};

TEST_F(WireHealthTest, ChecksTheHealthOfServerServicesAndModels) {
  const auto stub = grpc::health::v1::Health::NewStub(channel_);
  const auto check = [&](const std::string& name) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    const grpc::Status status = stub->Check(&context, request, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status())
           : status.error_code() == grpc::StatusCode::NOT_FOUND ? "NOT_FOUND"
                                                                : "?";
  };
  EXPECT_EQ(check(""), "SERVING");
  EXPECT_EQ(check("inference.GRPCInferenceService"), "SERVING");
  EXPECT_EQ(check("sluice.v1.Sluice"), "SERVING");
  EXPECT_EQ(check("mnist"), "SERVING");
  EXPECT_EQ(check("broken"), "NOT_SERVING");
  EXPECT_EQ(check("nobody"), "NOT_FOUND");
  EXPECT_TRUE(AwaitHealth(channel_, "nobody", HealthCheckResponse::SERVICE_UNKNOWN));
}

// Sends one request on the reflection stream; the answer's bytes.
std::string Reflect(const std::shared_ptr<grpc::Channel>& channel, const std::string& message) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  EXPECT_TRUE(wait());
  const grpc::Slice slice(message);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  EXPECT_TRUE(wait());
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  EXPECT_TRUE(wait());
  std::vector<grpc::Slice> slices;
  (void)answer.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& each : slices) {
    bytes.append(reinterpret_cast<const char*>(each.begin()), each.size());
  }
  call->WritesDone(nullptr);
  EXPECT_TRUE(wait());
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(wait());
  return bytes;
}

TEST_F(WireHealthTest, ReflectionListsItsServicesAndDescribesHealth) {
  const std::string list = Reflect(channel_, "\x3a\x01*");  // list_services
  EXPECT_THAT(list, HasSubstr("inference.GRPCInferenceService"));
  EXPECT_THAT(list, HasSubstr("sluice.v1.Sluice"));
  EXPECT_THAT(list, HasSubstr("grpc.health.v1.Health"));
  // file_containing_symbol
  EXPECT_THAT(Reflect(channel_, "\x22\x15grpc.health.v1.Health"), HasSubstr("HealthCheckRequest"));
}

TEST_F(WireHealthTest, TheSocketIsForItsOwnerAndGroupOnly) {
  struct stat status {};
  ASSERT_EQ(stat((daemon_->folder() / "s.sock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660u);
}

TEST_F(WireHealthTest, AnAddressThatIsTakenIsNamed) {
  Config config = daemon_->config();
  config.listen = {daemon_->server().addresses()[1]};
  const auto second = GrpcServer::Start(config, daemon_->service());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              testing::AllOf(HasSubstr(config.listen[0]), HasSubstr("Address already in use")));
  config.listen = {daemon_->server().addresses()[0]};
  const auto third = GrpcServer::Start(config, daemon_->service());
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("another process answers there"));
  EXPECT_TRUE(std::filesystem::exists(daemon_->folder() / "s.sock"));
}

// One HTTP exchange with 127.0.0.1; everything that is answered.
std::string Exchange(int port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(fd, buffer, sizeof(buffer))) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  close(fd);
  return answer;
}

TEST_F(WireHealthTest, ServesMetricsAndAPageForPeople) {
  inference::ModelInferResponse answer;
  inference::ModelInferRequest wrong = Digit();
  ASSERT_TRUE(Infer(wrong, &answer).ok());
  wrong.set_model_name("nobody");
  ASSERT_FALSE(Infer(wrong, &answer).ok());
  const auto server =
      MetricsServer::Start("127.0.0.1:0", daemon_->service(), &daemon_->server().statistics());
  ASSERT_TRUE(server.ok()) << server.status();
  const auto get = [&](const std::string& line) {
    return Exchange((*server)->port(), line + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  };
  const std::string metrics = get("GET /metrics");
  EXPECT_THAT(metrics, testing::StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(metrics, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(metrics, HasSubstr("sluice_memory_budget_bytes 536870912"));
  EXPECT_THAT(metrics,
              testing::ContainsRegex(
                  "sluice_requests_total.model=\"mnist\",version=\"1\",code=\"OK\". [1-9]"));
  EXPECT_THAT(metrics,
              testing::ContainsRegex("sluice_requests_refused_total.code=\"NOT_FOUND\". [1-9]"));
  EXPECT_THAT(get("GET /"), HasSubstr("<td>mnist</td>"));
  EXPECT_THAT(get("GET /../etc/passwd"), testing::Not(HasSubstr("root:")));
  EXPECT_THAT(get("GET /nothing"), testing::StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(get("POST /metrics"), testing::StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(get("HEAD /metrics"), testing::EndsWith("\r\n\r\n"));
}

TEST_F(WireHealthTest, AMetricsAddressThatIsTakenIsNamed) {
  const std::string taken = daemon_->server().addresses()[1];
  const auto server = MetricsServer::Start(taken, daemon_->service());
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(server.status().message()),
              testing::AllOf(HasSubstr(taken), HasSubstr("Address already in use")));
}

// A watch that counts what it is told.
class CountingWatch final : public grpc::ClientReadReactor<HealthCheckResponse> {
 public:
  CountingWatch(grpc::health::v1::Health::Stub& stub, std::mutex& mutex,
                std::condition_variable& change)
      : mutex_(mutex), change_(change) {
    stub.async()->Watch(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      if (ok) last = response_.status();
    }
    change_.notify_all();
    if (ok) StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override {
    const std::lock_guard lock(mutex_);
    ended = status;
    change_.notify_all();
  }

  std::optional<HealthCheckResponse::ServingStatus> last;  // Under the mutex, as is `ended`.
  std::optional<grpc::Status> ended;

 private:
  std::mutex& mutex_;
  std::condition_variable& change_;
  grpc::ClientContext context_;
  HealthCheckRequest request_;
  HealthCheckResponse response_;
};

TEST(WireShutdownTest, TellsEveryWatcherAndEndsWithoutAThreadForEach) {
  if (!std::filesystem::exists(SharedModels() / "mnist_cnn" / "model.onnx")) {
    GTEST_SKIP() << "SLUICE_SHARED has no models/mnist_cnn/model.onnx";
  }
  TestDaemon daemon;
  ASSERT_TRUE(daemon.started());
  const auto channel = daemon.Channel();
  ASSERT_TRUE(AwaitHealth(channel, "", HealthCheckResponse::SERVING));
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  const std::uint64_t threads = ReadProcessUsage().threads;
  std::mutex mutex;
  std::condition_variable change;
  std::vector<std::unique_ptr<CountingWatch>> watches;
  for (int i = 0; i < 200; ++i) {
    watches.push_back(std::make_unique<CountingWatch>(*stub, mutex, change));
  }
  const auto all_told = [&](HealthCheckResponse::ServingStatus status) {
    return std::ranges::all_of(watches, [&](const auto& watch) { return watch->last == status; });
  };
  std::unique_lock lock(mutex);
  change.wait(lock, [&] { return all_told(HealthCheckResponse::SERVING); });
  EXPECT_LT(ReadProcessUsage().threads, threads + 20);
  lock.unlock();
  daemon.server().BeginShutdown();
  lock.lock();
  change.wait(lock, [&] { return all_told(HealthCheckResponse::NOT_SERVING); });
  lock.unlock();
  daemon.server().Shutdown(SteadyClock().Now() + std::chrono::seconds(10));
  lock.lock();
  change.wait(lock, [&] {
    return std::ranges::all_of(watches, [](const auto& watch) { return watch->ended.has_value(); });
  });
  for (const auto& watch : watches) {
    EXPECT_EQ(watch->ended->error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  EXPECT_FALSE(std::filesystem::exists(daemon.folder() / "s.sock"));
}

}  // namespace
}  // namespace sluice
