#include "model/onnx/wire_reader.h"

#include <xxhash.h>

#include <algorithm>
#include <span>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

constexpr std::size_t kBufferSize = 64 * 1024;

void AppendVarint(std::uint64_t value, std::string& into) {
  for (; value >= 0x80; value >>= 7) into.push_back(static_cast<char>((value & 0x7f) | 0x80));
  into.push_back(static_cast<char>(value));
}

void AppendTag(std::uint32_t number, WireField::Type type, std::string& into) {
  AppendVarint((std::uint64_t{number} << 3) | static_cast<std::uint64_t>(type), into);
}

}  // namespace

struct WireReader::Hash {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state{XXH3_createState()};
};

WireReader::WireReader(const ModelFile& file, Bytes limit)
    : file_(file), limit_(limit), buffer_(kBufferSize), hash_(std::make_unique<Hash>()) {
  XXH3_64bits_reset(hash_->state.get());
}

WireReader::~WireReader() = default;

absl::Status WireReader::Charge(Bytes bytes) {
  charged_ += bytes;
  if (charged_ <= limit_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "its structure (all but the contents of tensors) takes more than the limit of %s",
      FormatBytes(limit_)));
}

absl::Status WireReader::Fill() {
  const Bytes left = file_.size() - position_;
  const Bytes want = std::min(left, Bytes::Of(kBufferSize));
  buffer_begin_ = position_;
  buffer_end_ = position_ + want;
  return file_.Read(position_, std::span(buffer_).first(static_cast<std::size_t>(want.count())));
}

absl::StatusOr<std::uint8_t> WireReader::Byte() {
  if (position_ >= file_.size()) {
    return absl::DataLossError(
        absl::StrFormat("the file ends at byte %d in the middle of a field", position_.count()));
  }
  if (position_ < buffer_begin_ || position_ >= buffer_end_) SLUICE_RETURN_IF_ERROR(Fill());
  const std::byte byte = buffer_[static_cast<std::size_t>((position_ - buffer_begin_).count())];
  XXH3_64bits_update(hash_->state.get(), &byte, 1);
  position_ += Bytes::Of(1);
  return static_cast<std::uint8_t>(byte);
}

absl::StatusOr<std::uint64_t> WireReader::Varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    SLUICE_ASSIGN_OR_RETURN(const std::uint8_t byte, Byte());
    if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("byte %d: a varint is longer than ten bytes", position_.count()));
}

absl::StatusOr<WireField> WireReader::Next(Bytes end) {
  const Bytes start = position_;
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t tag, Varint());
  WireField field;
  field.type = static_cast<WireField::Type>(tag & 7);
  if (tag >> 3 == 0 || tag >> 3 >= (1u << 29)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("byte %d: got field number %d", start.count(), tag >> 3));
  }
  field.number = static_cast<std::uint32_t>(tag >> 3);
  switch (field.type) {
    case WireField::Type::kVarint: {
      SLUICE_ASSIGN_OR_RETURN(field.value, Varint());
      break;
    }
    case WireField::Type::kLength: {
      SLUICE_ASSIGN_OR_RETURN(const std::uint64_t size, Varint());
      field.size = Bytes::Of(size);
      break;
    }
    case WireField::Type::kFixed64:
      field.size = Bytes::Of(8);
      break;
    case WireField::Type::kFixed32:
      field.size = Bytes::Of(4);
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrFormat("byte %d: field %d has wire type %d, want 0, 1, 2 or 5", start.count(),
                          field.number, tag & 7));
  }
  field.begin = position_;
  if (field.end() > end) {
    const std::string message =
        absl::StrFormat("byte %d: field %d has %d bytes of contents, but only %d are left",
                        start.count(), field.number, field.size.count(), (end - position_).count());
    if (field.end() > file_.size() && end == file_.size()) return absl::DataLossError(message);
    return absl::InvalidArgumentError(message);
  }
  SLUICE_RETURN_IF_ERROR(Charge(position_ - start));
  return field;
}

absl::Status WireReader::Consume(const WireField& field, std::string* into) {
  SLUICE_RETURN_IF_ERROR(Charge(field.size));
  while (position_ < field.end()) {
    if (position_ < buffer_begin_ || position_ >= buffer_end_) SLUICE_RETURN_IF_ERROR(Fill());
    const Bytes run = std::min(field.end(), buffer_end_) - position_;
    const auto* bytes = reinterpret_cast<const char*>(buffer_.data()) +
                        static_cast<std::size_t>((position_ - buffer_begin_).count());
    XXH3_64bits_update(hash_->state.get(), bytes, static_cast<std::size_t>(run.count()));
    if (into != nullptr) into->append(bytes, static_cast<std::size_t>(run.count()));
    position_ += run;
  }
  return absl::OkStatus();
}

absl::Status WireReader::Copy(const WireField& field, std::string& into) {
  AppendTag(field.number, field.type, into);
  if (field.type == WireField::Type::kVarint) {
    AppendVarint(field.value, into);
    return absl::OkStatus();
  }
  if (field.type == WireField::Type::kLength) AppendVarint(field.size.count(), into);
  return Consume(field, &into);
}

absl::Status WireReader::Drop(const WireField& field) { return Consume(field, nullptr); }

void WireReader::Skip(const WireField& field) { position_ = field.end(); }

std::uint64_t WireReader::hash() const { return XXH3_64bits_digest(hash_->state.get()); }

void AppendLengthTag(std::uint32_t number, std::size_t length, std::string& into) {
  AppendTag(number, WireField::Type::kLength, into);
  AppendVarint(length, into);
}

}  // namespace sluice
