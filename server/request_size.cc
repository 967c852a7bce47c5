#include "server/request_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Field numbers of inference.ModelInferRequest and what lies in it.
constexpr int kModelName = 1, kModelVersion = 2, kInputs = 5, kRawInputContents = 7;
constexpr int kInputShape = 3, kInputContents = 5;
constexpr int kBool = 1, kInt = 2, kInt64 = 3, kUint = 4, kUint64 = 5, kFp32 = 6, kFp64 = 7,
              kBytes = 8;

// A repeated field doubles its array when it is full.
constexpr std::uint64_t kGrowth = 2;
// Objects of a tensor and of its contents, their pointers included.
constexpr std::uint64_t kTensorObject = 640;
constexpr std::uint64_t kStringObject = 96;
// One number that is not in a packed array, or an unknown one.
constexpr std::uint64_t kLoneNumber = 48;
// Most memory for a byte of any other field: two bytes make at most a requested output, a map
// entry, a string or an unknown field.
constexpr std::uint64_t kOtherFactor = 128;

// Bytes in memory of one element of a typed field; zero for those that are not numbers.
std::uint64_t ElementSize(int field) {
  switch (field) {
    case kBool:
      return 1;
    case kInt:
    case kUint:
    case kFp32:
      return 4;
    case kInt64:
    case kUint64:
    case kFp64:
      return 8;
    default:
      return 0;
  }
}

absl::Status NotProtobuf(const CodedInputStream& in) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "the message is not an inference.ModelInferRequest: its wire format is broken near byte %d",
      in.CurrentPosition()));
}

class Walk {
 public:
  explicit Walk(CodedInputStream& in) : in_(in) {}

  absl::Status Request(RequestSize& size) {
    while (true) {
      const int start = in_.CurrentPosition();
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) break;
      if (!Delimited(tag)) {
        SLUICE_RETURN_IF_ERROR(Other(tag, start));
        continue;
      }
      std::uint32_t length = 0;
      SLUICE_RETURN_IF_ERROR(Length(length));
      switch (WireFormatLite::GetTagFieldNumber(tag)) {
        case kModelName:
          SLUICE_RETURN_IF_ERROR(Name(length, size.model_name));
          break;
        case kModelVersion:
          SLUICE_RETURN_IF_ERROR(Name(length, size.model_version));
          break;
        case kInputs:
          SLUICE_RETURN_IF_ERROR(Nested(length, &Walk::Input));
          break;
        case kRawInputContents:
          size.raw += Bytes::Of(length);
          Add(Bytes::Of(kStringObject) + Bytes::Of(length));
          SLUICE_RETURN_IF_ERROR(Skip(length));
          break;
        default:
          SLUICE_RETURN_IF_ERROR(Skip(length));
          Add(Bytes::Of(static_cast<std::uint64_t>(in_.CurrentPosition() - start)) * kOtherFactor);
      }
    }
    if (!in_.ConsumedEntireMessage()) return NotProtobuf(in_);
    size.wire = Bytes::Of(static_cast<std::uint64_t>(in_.CurrentPosition()));
    size.parsed = parsed_;
    return absl::OkStatus();
  }

 private:
  static bool Delimited(std::uint32_t tag) {
    return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  }

  static bool IsNumber(std::uint32_t tag) {
    const auto type = WireFormatLite::GetTagWireType(tag);
    return type == WireFormatLite::WIRETYPE_VARINT || type == WireFormatLite::WIRETYPE_FIXED32 ||
           type == WireFormatLite::WIRETYPE_FIXED64;
  }

  void Add(Bytes bytes) { parsed_ += bytes; }

  absl::Status Length(std::uint32_t& length) {
    if (!in_.ReadVarint32(&length) || length > INT32_MAX) return NotProtobuf(in_);
    return absl::OkStatus();
  }

  absl::Status Skip(std::uint32_t length) {
    return in_.Skip(static_cast<int>(length)) ? absl::OkStatus() : NotProtobuf(in_);
  }

  // Any field without a rule of its own.
  absl::Status Other(std::uint32_t tag, int start) {
    if (!WireFormatLite::SkipField(&in_, tag)) return NotProtobuf(in_);
    Add(Bytes::Of(static_cast<std::uint64_t>(in_.CurrentPosition() - start)) * kOtherFactor);
    return absl::OkStatus();
  }

  absl::Status LoneNumber(std::uint32_t tag) {
    Add(Bytes::Of(kLoneNumber));
    return WireFormatLite::SkipField(&in_, tag) ? absl::OkStatus() : NotProtobuf(in_);
  }

  absl::Status Name(std::uint32_t length, std::string& name) {
    if (length > static_cast<std::uint32_t>(kMaxModelName)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "model_name or model_version: got %d bytes, want at most %d", length, kMaxModelName));
    }
    Add(Bytes::Of(kStringObject) + Bytes::Of(length));
    return in_.ReadString(&name, static_cast<int>(length)) ? absl::OkStatus() : NotProtobuf(in_);
  }

  absl::Status Nested(std::uint32_t length, absl::Status (Walk::*fields)()) {
    const CodedInputStream::Limit limit = in_.PushLimit(static_cast<int>(length));
    SLUICE_RETURN_IF_ERROR((this->*fields)());
    if (!in_.ConsumedEntireMessage() || in_.BytesUntilLimit() > 0) return NotProtobuf(in_);
    in_.PopLimit(limit);
    return absl::OkStatus();
  }

  absl::Status Input() {
    Add(Bytes::Of(kTensorObject));
    while (true) {
      const int start = in_.CurrentPosition();
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) return absl::OkStatus();
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      if (!Delimited(tag) || (field != kInputShape && field != kInputContents)) {
        SLUICE_RETURN_IF_ERROR(Other(tag, start));
        continue;
      }
      std::uint32_t length = 0;
      SLUICE_RETURN_IF_ERROR(Length(length));
      if (field == kInputShape) {
        SLUICE_RETURN_IF_ERROR(Varints(length, sizeof(std::int64_t)));
      } else {
        Add(Bytes::Of(kTensorObject));
        SLUICE_RETURN_IF_ERROR(Nested(length, &Walk::Contents));
      }
    }
  }

  absl::Status Contents() {
    while (true) {
      const int start = in_.CurrentPosition();
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) return absl::OkStatus();
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      if (!Delimited(tag)) {
        SLUICE_RETURN_IF_ERROR(IsNumber(tag) ? LoneNumber(tag) : Other(tag, start));
        continue;
      }
      std::uint32_t length = 0;
      SLUICE_RETURN_IF_ERROR(Length(length));
      if (field == kFp32 || field == kFp64) {
        Add(Bytes::Of(length) * kGrowth);
        SLUICE_RETURN_IF_ERROR(Skip(length));
      } else if (ElementSize(field) > 0) {
        SLUICE_RETURN_IF_ERROR(Varints(length, ElementSize(field)));
      } else {
        const std::uint64_t factor = field == kBytes ? 1 : kOtherFactor;
        Add(Bytes::Of(kStringObject) + Bytes::Of(length) * factor);
        SLUICE_RETURN_IF_ERROR(Skip(length));
      }
    }
  }

  // A packed array: each of its numbers ends in a byte below 0x80.
  absl::Status Varints(std::uint32_t length, std::uint64_t element_size) {
    std::uint64_t elements = 0;
    while (length > 0) {
      const void* data = nullptr;
      int available = 0;
      if (!in_.GetDirectBufferPointer(&data, &available) || available <= 0) return NotProtobuf(in_);
      const auto take = std::min(length, static_cast<std::uint32_t>(available));
      const auto* bytes = static_cast<const std::uint8_t*>(data);
      for (std::uint32_t i = 0; i < take; ++i) elements += bytes[i] < 0x80 ? 1 : 0;
      SLUICE_RETURN_IF_ERROR(Skip(take));
      length -= take;
    }
    Add(Bytes::Of(elements) * (element_size * kGrowth));
    return absl::OkStatus();
  }

  CodedInputStream& in_;
  Bytes parsed_ = Bytes::Of(kTensorObject);
};

}  // namespace

absl::StatusOr<RequestSize> MeasureRequest(google::protobuf::io::ZeroCopyInputStream& message) {
  CodedInputStream in(&message);
  RequestSize size;
  SLUICE_RETURN_IF_ERROR(Walk(in).Request(size));
  return size;
}

}  // namespace sluice
