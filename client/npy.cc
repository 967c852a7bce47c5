#include "client/npy.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/file.h"

namespace sluice {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 64 * 1024;
constexpr std::size_t kMaxRank = 32;  // NumPy's own limit.

absl::Status Refuse(std::string_view where, std::string_view found, std::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrFormat("%s: got %s, want %s", where, found, wanted));
}

// The Python literal of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool Take(char wanted) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  std::optional<std::string_view> String() {
    SkipSpace();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view string = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return string;
  }
  std::optional<bool> Bool() {
    SkipSpace();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    return std::nullopt;
  }
  std::optional<std::int64_t> Number() {
    SkipSpace();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        return std::nullopt;
      }
      ++at_;
    }
    if (at_ == begin) return std::nullopt;
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Written by Python 2.
    return value;
  }
  std::optional<std::vector<std::int64_t>> Tuple() {
    std::vector<std::int64_t> numbers;
    if (!Take('(')) return std::nullopt;
    while (!Take(')')) {
      const std::optional<std::int64_t> number = Number();
      if (!number.has_value() || numbers.size() == kMaxRank) return std::nullopt;
      numbers.push_back(*number);
      if (Take(',')) continue;
      if (!Take(')')) return std::nullopt;
      break;
    }
    return numbers;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

struct Header {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

// Absent when the text is not the dictionary of three keys.
std::optional<Header> ParseHeader(std::string_view text) {
  Scanner scanner(text);
  Header header;
  if (!scanner.Take('{')) return std::nullopt;
  while (!scanner.Take('}')) {
    const std::optional<std::string_view> key = scanner.String();
    if (!key.has_value() || !scanner.Take(':')) return std::nullopt;
    bool known = false;
    if (*key == "descr" && !header.descr) known = (header.descr = scanner.String()).has_value();
    if (*key == "fortran_order" && !header.fortran_order) {
      known = (header.fortran_order = scanner.Bool()).has_value();
    }
    if (*key == "shape" && !header.shape) known = (header.shape = scanner.Tuple()).has_value();
    if (!known) return std::nullopt;
    if (scanner.Take(',')) continue;
    if (!scanner.Take('}')) return std::nullopt;
    break;
  }
  if (!scanner.AtEnd() || !header.descr || !header.fortran_order || !header.shape) {
    return std::nullopt;
  }
  return header;
}

// The header's text is contents[begin, end); the data follows.
struct HeaderPlace {
  std::size_t begin = 0, end = 0;
};

absl::StatusOr<HeaderPlace> FindHeader(std::string_view contents, std::string_view where) {
  if (contents.substr(0, kMagic.size()) != kMagic) {
    return Refuse(where, "a file that does not begin as one of NumPy's", "a .npy file");
  }
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(contents[at]));
  };
  if (contents.size() < 10) {
    return Refuse(where, absl::StrFormat("%d bytes", contents.size()), "a whole .npy header");
  }
  const std::size_t version = byte(6);
  if (version < 1 || version > 3) {
    return Refuse(where, absl::StrFormat(".npy version %d.%d", version, byte(7)),
                  "version 1.0, 2.0 or 3.0");
  }
  HeaderPlace place;
  place.begin = version == 1 ? 10 : 12;
  if (contents.size() < place.begin) {
    return Refuse(where, absl::StrFormat("%d bytes", contents.size()), "a whole .npy header");
  }
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMaxHeader || length > contents.size() - place.begin) {
    return Refuse(where,
                  absl::StrFormat("a header of %d bytes in a file of %d", length, contents.size()),
                  absl::StrFormat("a whole header of at most %d bytes", kMaxHeader));
  }
  place.end = place.begin + length;
  return place;
}

}  // namespace

absl::StatusOr<Tensor> ParseNpy(std::string contents, std::string_view where) {
  SLUICE_ASSIGN_OR_RETURN(const HeaderPlace place, FindHeader(contents, where));
  const std::optional<Header> header =
      ParseHeader(std::string_view(contents).substr(place.begin, place.end - place.begin));
  if (!header.has_value()) {
    return Refuse(where, "a header of another form",
                  "{'descr': ..., 'fortran_order': ..., 'shape': (...), }");
  }
  const ElementType* type = FindNpyType(*header->descr);
  if (type == nullptr) {
    return Refuse(where, absl::StrFormat("type '%s'", *header->descr),
                  "a little-endian number or boolean: <f4, <f2, <f8, |u1, |i1, <i8, |b1, ...");
  }
  Tensor tensor;
  tensor.datatype = std::string(type->datatype);
  tensor.shape = *header->shape;
  if (*header->fortran_order && tensor.shape.size() > 1) {
    return Refuse(where, "an array in column-major (Fortran) order",
                  "row-major order: save numpy.ascontiguousarray(array)");
  }
  const absl::StatusOr<std::uint64_t> bytes = TensorBytes(tensor.datatype, tensor.shape);
  if (!bytes.ok()) return Refuse(where, FormatShape(tensor.shape), "a shape that fits memory");
  if (*bytes != contents.size() - place.end) {
    return Refuse(where, absl::StrFormat("%d bytes of data", contents.size() - place.end),
                  absl::StrFormat("%d for %s %s", *bytes, type->npy, FormatShape(tensor.shape)));
  }
  contents.erase(0, place.end);
  tensor.data = std::move(contents);
  return tensor;
}

absl::StatusOr<Tensor> ReadNpy(const std::filesystem::path& path) {
  SLUICE_ASSIGN_OR_RETURN(std::string contents, ReadFile(path, kMaxTensorFile));
  return ParseNpy(std::move(contents), path.string());
}

absl::StatusOr<std::string> FormatNpy(const Tensor& tensor) {
  const ElementType* type = FindDatatype(tensor.datatype);
  if (type == nullptr || type->npy.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "tensor \"%s\": got type %s, want one that NumPy has", tensor.name, tensor.datatype));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t bytes, TensorBytes(tensor.datatype, tensor.shape));
  if (bytes != tensor.data.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor \"%s\": got %d bytes, want %d for %s %s", tensor.name,
                        tensor.data.size(), bytes, tensor.datatype, FormatShape(tensor.shape)));
  }
  std::string shape;
  for (const std::int64_t dimension : tensor.shape)
    absl::StrAppendFormat(&shape, "%d, ", dimension);
  std::string header =
      absl::StrFormat("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type->npy, shape);
  constexpr std::size_t kPreamble = 10, kAlignment = 64;
  while ((kPreamble + header.size() + 1) % kAlignment != 0) header.push_back(' ');
  header.push_back('\n');
  std::string contents(kMagic);
  contents += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
               static_cast<char>(header.size() >> 8)};
  contents += header;
  contents += tensor.data;
  return contents;
}

}  // namespace sluice
