// model/onnx/wire_reader.h
//
// Reads the fields of a Protocol Buffers message straight from a file, in order, through a small
// buffer; what is skipped is not read.
// Source: the encoding as protobuf.dev/programming-guides/encoding defines it.

#ifndef SLUICE_MODEL_ONNX_WIRE_READER_H_
#define SLUICE_MODEL_ONNX_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "model/model_file.h"

namespace sluice {

// A field as it lies in the file.
struct WireField {
  enum class Type : std::uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };
  std::uint32_t number = 0;
  Type type = Type::kVarint;
  std::uint64_t value = 0;  // Of a varint.
  Bytes begin, size;        // Of the contents of the other types.
  Bytes end() const { return begin + size; }
};

// Threads: one at a time. Owns: nothing; `file` outlives it.
class WireReader {
 public:
  // Everything that is read, and what Charge adds, counts towards `limit`.
  WireReader(const ModelFile& file, Bytes limit);
  ~WireReader();

  Bytes position() const { return position_; }

  // Reads a tag, and the value or the length that follows it. Does not read contents.
  // Fails: INVALID_ARGUMENT, not the wire format, or contents that go beyond `end` where the
  //        message ends. DATA_LOSS, contents that go beyond the file's end. RESOURCE_EXHAUSTED,
  //        over the limit.
  absl::StatusOr<WireField> Next(Bytes end);

  // Appends the field as it was, contents too, to `into`. Requires: `field` came from Next just
  // now.
  absl::Status Copy(const WireField& field, std::string& into);
  // Reads the contents and forgets them: they count and are hashed.
  absl::Status Drop(const WireField& field);
  // Goes past the contents without reading them: they neither count nor are hashed.
  void Skip(const WireField& field);

  // Books memory that a message takes beyond its bytes in the file.
  absl::Status Charge(Bytes bytes);

  // XXH3-64 of all that was read.
  std::uint64_t hash() const;
  // The sum of what was charged.
  Bytes charged() const { return charged_; }

 private:
  absl::StatusOr<std::uint8_t> Byte();
  absl::StatusOr<std::uint64_t> Varint();
  absl::Status Fill();
  absl::Status Consume(const WireField& field, std::string* into);

  const ModelFile& file_;
  Bytes limit_, charged_, position_;
  std::vector<std::byte> buffer_;
  Bytes buffer_begin_, buffer_end_;  // What of the file the buffer holds.
  struct Hash;
  std::unique_ptr<Hash> hash_;
};

// Appends a tag and a length, or a varint field, to a message.
void AppendLengthTag(std::uint32_t number, std::size_t length, std::string& into);

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_WIRE_READER_H_
