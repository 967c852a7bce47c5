// Any bytes as an inference request: measured, parsed and decoded against a model with ports of
// several types. Nothing may crash, and the measured size must cover what the message takes.

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <cstdint>

#include "base/check.h"
#include "server/infer_codec.h"
#include "server/request_size.h"

namespace sluice {
namespace {

const std::vector<PortInfo>& Inputs() {
  static const std::vector<PortInfo> ports = {
      {"x", DataType::kFloat32, {1, 4}, {}}, {"i", DataType::kInt8, {2}, {}},
      {"n", DataType::kInt64, {}, {}},       {"u", DataType::kUint16, {3}, {}},
      {"b", DataType::kBool, {2}, {}},       {"e", DataType::kFloat64, {0, 7}, {}},
      {"h", DataType::kFloat16, {2}, {}}};
  return ports;
}

void DecodeAny(const std::uint8_t* data, std::size_t size) {
  google::protobuf::io::ArrayInputStream stream(data, static_cast<int>(size), 7);
  const absl::StatusOr<RequestSize> measured = MeasureRequest(stream);
  inference::ModelInferRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  // What protobuf accepts, the walk accepts, but for names beyond its limit.
  if (!measured.ok()) return;
  SLUICE_CHECK(measured->parsed >= Bytes::Of(request.SpaceUsedLong()));

  const std::vector<PortInfo> outputs = {{"y", DataType::kFloat32, {1, 2}, {}},
                                         {"z", DataType::kInt64, {1}, {}}};
  const ModelInterface model{"m", Inputs(), outputs};
  const auto decoded = DecodeRequest(request, model);
  if (!decoded.ok()) return;
  for (std::size_t i = 0; i < Inputs().size(); ++i) {
    SLUICE_CHECK(decoded->inputs[i].size() ==
                 TensorBytes(Inputs()[i].type, Inputs()[i].shape).count());
  }
  const auto answer = AnswerHeader(request, "1", model, decoded->outputs);
  SLUICE_CHECK(answer.outputs_size() == static_cast<int>(decoded->outputs.size()));
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // What protobuf says about each input would fill the disk.
  [[maybe_unused]] static auto* const quiet = google::protobuf::SetLogHandler(nullptr);
  sluice::DecodeAny(data, size);
  return 0;
}
