// The parts of the wire that need no daemon: states, texts, sockets.

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "server/answer_buffer.h"
#include "server/grpc_status.h"
#include "server/health_service.h"
#include "server/listen_address.h"
#include "server/wire_message.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TEST(GrpcStatusTest, KeepsCodeAndMessage) {
  const grpc::Status status = ToGrpc(absl::DataLossError("extent 3: checksum"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DATA_LOSS);
  EXPECT_EQ(status.error_message(), "extent 3: checksum");
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(GrpcStatusTest, CutsAMessageThatNoHeaderCarries) {
  const grpc::Status status = ToGrpc(absl::InternalError(std::string(100'000, 'x')));
  EXPECT_EQ(status.error_message().size(), kMaxStatusMessage);
  EXPECT_THAT(status.error_message(), testing::EndsWith("x..."));
}

TEST(WatchStateTest, TellsTheFirstStateAtOnce) {
  WatchState state;
  EXPECT_EQ(state.OnHealth(Health::kNotServing), Health::kNotServing);
}

TEST(WatchStateTest, IsSilentWhileNothingChanges) {
  WatchState state;
  (void)state.OnHealth(Health::kServing);
  EXPECT_EQ(state.OnWritten(), std::nullopt);
  EXPECT_EQ(state.OnHealth(Health::kServing), std::nullopt);
  EXPECT_FALSE(state.writing());
}

TEST(WatchStateTest, TellsAChangeAfterTheOpenWrite) {
  WatchState state;
  (void)state.OnHealth(Health::kUnknown);
  EXPECT_EQ(state.OnHealth(Health::kServing), std::nullopt);
  EXPECT_EQ(state.OnWritten(), Health::kServing);
}

TEST(WatchStateTest, SkipsWhatWasUndoneDuringTheOpenWrite) {
  WatchState state;
  (void)state.OnHealth(Health::kServing);
  (void)state.OnHealth(Health::kNotServing);
  (void)state.OnHealth(Health::kServing);
  EXPECT_EQ(state.OnWritten(), std::nullopt);
}

TEST(AnswerBufferTest, TheWireCarriesHeaderAndTensors) {
  const std::vector<PortInfo> outputs = {{"y", DataType::kFloat32, {2}, {}},
                                         {"e", DataType::kInt64, {0}, {}},
                                         {"z", DataType::kUint8, {300}, {}}};
  const ModelInterface model{"m", {}, outputs};
  const std::vector<std::size_t> order = {2, 1, 0};
  auto tensors = std::make_shared<AnswerBuffer>(model, order);
  ASSERT_EQ(tensors->tensors().size(), 3u);
  std::ranges::fill(tensors->tensors()[0], std::byte{'z'});
  std::ranges::fill(tensors->tensors()[2], std::byte{'y'});
  const std::weak_ptr<AnswerBuffer> watch = tensors;

  inference::ModelInferRequest request;
  request.set_id("7");
  const inference::ModelInferResponse header = AnswerHeader(request, "1", model, order);
  {
    grpc::ByteBuffer wire = SerializeAnswer(header, tensors);
    tensors.reset();
    EXPECT_FALSE(watch.expired()) << "the message must own what it sends";
    grpc::ProtoBufferReader reader(&wire);
    inference::ModelInferResponse answer;
    ASSERT_TRUE(answer.ParseFromZeroCopyStream(&reader));
    EXPECT_THAT(answer.raw_output_contents(),
                testing::ElementsAre(std::string(300, 'z'), "", std::string(8, 'y')));
    answer.clear_raw_output_contents();
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(answer, header));
  }
  EXPECT_TRUE(watch.expired());
}

TEST(AnswerBufferTest, TensorsAreCutToTheSizesThatWereComputed) {
  std::vector<PortInfo> outputs = {{"boxes", DataType::kInt64, {100, 3}, {}},
                                   {"fixed", DataType::kFloat32, {2}, {}}};
  outputs[0].dynamic = PortInfo::Dynamic{0, BufferIndex{}};
  const ModelInterface model{"m", {}, outputs};
  const std::vector<std::size_t> order = {1, 0};
  AnswerBuffer tensors(model, order);
  ASSERT_EQ(tensors.counts().size(), 2u);
  tensors.counts()[0] = 7;
  tensors.CutToCounts(model, order);
  EXPECT_EQ(tensors.tensors()[0].size(), 8u);
  EXPECT_EQ(tensors.tensors()[1].size(), 7u * 3 * 8);
}

// `text` as a zlib stream (15 window bits) or a gzip stream (31), in slices of `piece` bytes.
grpc::ByteBuffer Compressed(const std::string& text, int window_bits, std::size_t piece = 7) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < packed.size(); at += piece) {
    slices.emplace_back(packed.substr(at, piece));
  }
  return {slices.data(), slices.size()};
}

std::string TextOf(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(slice.begin(), slice.end());
  return text;
}

TEST(WireMessageTest, GivesGzipAndZlibBackAsPlainBytes) {
  std::string text;
  for (unsigned i = 0; i < 200'000; ++i) text += static_cast<char>(i * i / 7);
  for (const int window_bits : {15, 31}) {
    grpc::ByteBuffer message = Compressed(text, window_bits);
    ASSERT_TRUE(Decompress(message, Bytes::Of(text.size())).ok());
    EXPECT_EQ(TextOf(message), text);
  }
}

TEST(WireMessageTest, LeavesPlainBytesAlone) {
  const grpc::Slice slice(std::string("\x0a\x01m", 3));
  grpc::ByteBuffer message(&slice, 1);
  ASSERT_TRUE(Decompress(message, Bytes::Of(3)).ok());
  EXPECT_EQ(TextOf(message), "\x0a\x01m");
  EXPECT_EQ(Decompress(message, Bytes::Of(2)).code(), absl::StatusCode::kResourceExhausted);
}

TEST(WireMessageTest, StopsABombAtTheLimit) {
  grpc::ByteBuffer message = Compressed(std::string(8'000'000, 'z'), 31, 4096);
  ASSERT_LT(message.Length(), 100'000u);
  EXPECT_EQ(Decompress(message, 1_MiB).code(), absl::StatusCode::kResourceExhausted);
}

TEST(WireMessageTest, RefusesEveryTruncatedOrLengthenedStream) {
  const std::string packed = TextOf(Compressed("a small text", 31));
  for (std::size_t length = 2; length < packed.size() + 3; ++length) {
    if (length == packed.size()) continue;
    std::string broken = packed;
    broken.resize(length, 'x');
    const grpc::Slice slice(broken);
    grpc::ByteBuffer message(&slice, 1);
    EXPECT_EQ(Decompress(message, 1_MiB).code(), absl::StatusCode::kInvalidArgument) << length;
  }
}

TEST(WireMessageTest, ASmallCallTakesNoLargeMessage) {
  inference::ModelReadyRequest request;
  request.set_name(std::string(kSmallMessage.count(), 'n'));
  grpc::ByteBuffer wire = Serialize(request);
  EXPECT_EQ(ParseSmall(wire, request).code(), absl::StatusCode::kResourceExhausted);
}

TEST(ListenAddressTest, TellsSocketsFromPorts) {
  EXPECT_EQ(SocketPath("unix:/run/a.sock"), "/run/a.sock");
  EXPECT_EQ(SocketPath("127.0.0.1:80"), std::nullopt);
  EXPECT_EQ(WithPort("[::1]:0", 41), "[::1]:41");
  EXPECT_EQ(WithPort("unix:/run/a.sock", 1), "unix:/run/a.sock");
}

class SocketPathTest : public testing::Test {
 protected:
  SocketPathTest() {
    std::string pattern = testing::TempDir() + "sluice" + std::string(6, 'X');
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ / "s.sock";
  }
  ~SocketPathTest() override { std::filesystem::remove_all(folder_); }

  int Bind() const {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd, 1), 0);
    return fd;
  }

  std::filesystem::path folder_, path_;
};

TEST_F(SocketPathTest, NothingThereIsFine) { EXPECT_TRUE(ClearSocketPath(path_).ok()); }

TEST_F(SocketPathTest, RemovesASocketThatNobodyAnswers) {
  close(Bind());
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(ClearSocketPath(path_).ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SocketPathTest, LeavesASocketThatSomebodyAnswers) {
  const int fd = Bind();
  const absl::Status status = ClearSocketPath(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another process answers there"));
  EXPECT_TRUE(std::filesystem::exists(path_));
  close(fd);
}

TEST_F(SocketPathTest, LeavesAFileThatIsNoSocket) {
  std::ofstream(path_) << "precious";
  const absl::Status status = ClearSocketPath(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a socket"));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(SocketPathTest, RefusesAPathThatNoSocketCanHave) {
  const absl::Status status = ClearSocketPath("/" + std::string(200, 'p'));
  EXPECT_THAT(std::string(status.message()), HasSubstr("got a path of 201 bytes, want 1 to 107"));
}

}  // namespace
}  // namespace sluice
