#include "tests/networks/onnx_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tests/networks/wire.h"

namespace sluice {
namespace {

// Field numbers of onnx.proto, by message.
namespace model {
constexpr std::uint32_t kIrVersion = 1, kProducerName = 2, kGraph = 7, kOpsetImport = 8;
}
namespace opset {
constexpr std::uint32_t kDomain = 1, kVersion = 2;
}
namespace graph {
constexpr std::uint32_t kNode = 1, kName = 2, kInitialiser = 5, kInput = 11, kOutput = 12;
}
namespace node {
constexpr std::uint32_t kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5;
}
namespace attribute {
constexpr std::uint32_t kName = 1, kFloat = 2, kInt = 3, kString = 4, kInts = 8, kType = 20;
}
namespace tensor {
constexpr std::uint32_t kDims = 1, kDataType = 2, kName = 8, kRawData = 9;
}
namespace value_info {
constexpr std::uint32_t kName = 1, kType = 2, kTensorType = 1, kElemType = 1, kShape = 2, kDim = 1,
                        kDimValue = 1, kDimParam = 2;
}

// AttributeProto.AttributeType.
enum class AttributeType : std::int64_t { kFloat = 1, kInt = 2, kString = 3, kInts = 7 };

std::string AttributeMessage(const OnnxAttribute& attr) {
  std::string message;
  wire::AppendBytes(message, attribute::kName, attr.name);
  AttributeType type{};
  if (const auto* number = std::get_if<std::int64_t>(&attr.value)) {
    wire::AppendInt(message, attribute::kInt, *number);
    type = AttributeType::kInt;
  } else if (const auto* real = std::get_if<float>(&attr.value)) {
    wire::AppendFloat(message, attribute::kFloat, *real);
    type = AttributeType::kFloat;
  } else if (const auto* text = std::get_if<std::string>(&attr.value)) {
    wire::AppendBytes(message, attribute::kString, *text);
    type = AttributeType::kString;
  } else {
    for (const std::int64_t number : std::get<std::vector<std::int64_t>>(attr.value)) {
      wire::AppendInt(message, attribute::kInts, number);
    }
    type = AttributeType::kInts;
  }
  wire::AppendInt(message, attribute::kType, static_cast<std::int64_t>(type));
  return message;
}

std::string ValueInfoMessage(std::string_view name, OnnxType type, std::span<const OnnxDim> dims) {
  std::string shape;
  for (const OnnxDim& dim : dims) {
    std::string message;
    if (const auto* number = std::get_if<std::int64_t>(&dim)) {
      wire::AppendInt(message, value_info::kDimValue, *number);
    } else {
      wire::AppendBytes(message, value_info::kDimParam, std::get<std::string>(dim));
    }
    wire::AppendBytes(shape, value_info::kDim, message);
  }
  std::string tensor_type;
  wire::AppendInt(tensor_type, value_info::kElemType, static_cast<std::int64_t>(type));
  wire::AppendBytes(tensor_type, value_info::kShape, shape);
  std::string type_message;
  wire::AppendBytes(type_message, value_info::kTensorType, tensor_type);
  std::string message;
  wire::AppendBytes(message, value_info::kName, name);
  wire::AppendBytes(message, value_info::kType, type_message);
  return message;
}

absl::Status SystemError(int error, const std::filesystem::path& path, std::string_view what) {
  return absl::ErrnoToStatus(error, absl::StrFormat("%s: cannot %s", path.string(), what));
}

// A file under a temporary name until it is whole.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path)
      : path_(path), part_(path.string() + ".part") {}
  ~NewFile() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(part_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Open() {
    fd_ = open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd_ < 0 ? SystemError(errno, part_, "create") : absl::OkStatus();
  }

  absl::Status Append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return SystemError(errno, part_, "write");
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Commit() {
    if (fdatasync(fd_) != 0) return SystemError(errno, part_, "sync");
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    if (rename(part_.c_str(), path_.c_str()) != 0) return SystemError(errno, path_, "rename to");
    const int fd = std::exchange(fd_, -1);
    return close(fd) != 0 ? SystemError(errno, path_, "close") : absl::OkStatus();
  }

 private:
  std::filesystem::path path_, part_;
  int fd_ = -1;
};

constexpr std::size_t kChunk = std::size_t{1} << 18;  // Weights made at a time; 1 MiB of bytes.

// Makes the weights piece by piece in `buffer`.
absl::Status AppendWeights(NewFile& file, const UniformWeights& weights, std::uint64_t count,
                           std::span<float> buffer) {
  for (std::uint64_t first = 0; first < count;) {
    const std::size_t length = std::min<std::uint64_t>(buffer.size(), count - first);
    const std::span<float> values = buffer.first(length);
    FillWeights(weights, first, values);
    SLUICE_RETURN_IF_ERROR(
        file.Append({reinterpret_cast<const char*>(values.data()), values.size_bytes()}));
    first += length;
  }
  return absl::OkStatus();
}

template <typename T>
std::string BytesOf(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

void OnnxFile::AddNode(std::string_view op, std::string_view name, std::vector<std::string> inputs,
                       std::string output, std::vector<OnnxAttribute> attributes) {
  std::ranges::sort(attributes, {}, &OnnxAttribute::name);
  nodes_.push_back({.op = std::string(op),
                    .name = std::string(name),
                    .output = std::move(output),
                    .inputs = std::move(inputs),
                    .attributes = std::move(attributes)});
}

void OnnxFile::RenameLastOutput(std::string_view from, std::string_view to) {
  if (nodes_.back().output == from) nodes_.back().output = std::string(to);
}

void OnnxFile::AddInput(std::string_view name, OnnxType type, std::span<const OnnxDim> shape) {
  wire::AppendBytes(inputs_, graph::kInput, ValueInfoMessage(name, type, shape));
}

void OnnxFile::AddOutput(std::string_view name, OnnxType type, std::span<const OnnxDim> shape) {
  wire::AppendBytes(outputs_, graph::kOutput, ValueInfoMessage(name, type, shape));
}

void OnnxFile::AddInitialiser(std::string_view name, OnnxType type,
                              std::span<const std::int64_t> shape, std::uint64_t raw_size,
                              std::variant<UniformWeights, std::string> values) {
  Initialiser initialiser{
      .name = std::string(name), .header = {}, .raw_size = raw_size, .values = std::move(values)};
  for (const std::int64_t dim : shape) wire::AppendInt(initialiser.header, tensor::kDims, dim);
  wire::AppendInt(initialiser.header, tensor::kDataType, static_cast<std::int64_t>(type));
  wire::AppendBytes(initialiser.header, tensor::kName, name);
  wire::AppendHeader(initialiser.header, tensor::kRawData, raw_size);
  initialisers_.push_back(std::move(initialiser));
}

void OnnxFile::AddWeights(std::string_view name, std::span<const std::int64_t> shape,
                          const UniformWeights& weights) {
  std::uint64_t count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<std::uint64_t>(dim);
  AddInitialiser(name, OnnxType::kFloat, shape, count * sizeof(float), weights);
}

void OnnxFile::AddFloats(std::string_view name, std::span<const std::int64_t> shape,
                         std::span<const float> values) {
  AddInitialiser(name, OnnxType::kFloat, shape, values.size_bytes(), BytesOf(values));
}

void OnnxFile::AddInts(std::string_view name, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> values) {
  AddInitialiser(name, OnnxType::kInt64, shape, values.size_bytes(), BytesOf(values));
}

bool OnnxFile::HasInitialiser(std::string_view name) const {
  return std::ranges::any_of(initialisers_,
                             [name](const Initialiser& known) { return known.name == name; });
}

std::string OnnxFile::NodesMessage() const {
  std::string graph_fields;
  for (const Node& step : nodes_) {
    std::string message;
    for (const std::string& input : step.inputs) wire::AppendBytes(message, node::kInput, input);
    wire::AppendBytes(message, node::kOutput, step.output);
    wire::AppendBytes(message, node::kName, step.name);
    wire::AppendBytes(message, node::kOpType, step.op);
    for (const OnnxAttribute& attr : step.attributes) {
      wire::AppendBytes(message, node::kAttribute, AttributeMessage(attr));
    }
    wire::AppendBytes(graph_fields, graph::kNode, message);
  }
  return graph_fields;
}

absl::Status OnnxFile::Write(const std::filesystem::path& path) const {
  std::string before = NodesMessage();
  wire::AppendBytes(before, graph::kName, name_);
  const std::string after = inputs_ + outputs_;

  std::vector<std::string> headers;  // Of each initialiser: its field in the graph, its own start.
  std::uint64_t graph_size = before.size() + after.size();
  for (const Initialiser& initialiser : initialisers_) {
    std::string& header = headers.emplace_back();
    wire::AppendHeader(header, graph::kInitialiser,
                       initialiser.header.size() + initialiser.raw_size);
    header += initialiser.header;
    graph_size += header.size() + initialiser.raw_size;
  }

  constexpr std::int64_t kIrVersion = 8;
  std::string start;
  wire::AppendInt(start, model::kIrVersion, kIrVersion);
  wire::AppendBytes(start, model::kProducerName, "gen_models");
  wire::AppendHeader(start, model::kGraph, graph_size);

  NewFile file(path);
  SLUICE_RETURN_IF_ERROR(file.Open());
  SLUICE_RETURN_IF_ERROR(file.Append(start));
  SLUICE_RETURN_IF_ERROR(file.Append(before));
  std::vector<float> buffer(kChunk);
  for (std::size_t i = 0; i < initialisers_.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(file.Append(headers[i]));
    if (const auto* weights = std::get_if<UniformWeights>(&initialisers_[i].values)) {
      const std::uint64_t count = initialisers_[i].raw_size / sizeof(float);
      SLUICE_RETURN_IF_ERROR(AppendWeights(file, *weights, count, buffer));
    } else {
      SLUICE_RETURN_IF_ERROR(file.Append(std::get<std::string>(initialisers_[i].values)));
    }
  }
  SLUICE_RETURN_IF_ERROR(file.Append(after));
  std::string opset_id, end;
  wire::AppendBytes(opset_id, opset::kDomain, "");
  wire::AppendInt(opset_id, opset::kVersion, opset_);
  wire::AppendBytes(end, model::kOpsetImport, opset_id);
  SLUICE_RETURN_IF_ERROR(file.Append(end));
  return file.Commit();
}

}  // namespace sluice
