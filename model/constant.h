// model/constant.h
//
// The contents of a constant tensor, which may lie in a file and be larger than memory: readers
// ask for a window at a time.

#ifndef SLUICE_MODEL_CONSTANT_H_
#define SLUICE_MODEL_CONSTANT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "model/data_type.h"

namespace sluice {

// Elements in row-major order, little endian. Threads: callable from several at once.
class Constant {
 public:
  virtual ~Constant() = default;
  virtual Bytes size() const = 0;
  // Copies [offset, offset + into.size()) of the contents. Requires: within size().
  // Fails: DATA_LOSS when the file behind it cannot be read or has become shorter.
  virtual absl::Status Read(Bytes offset, std::span<std::byte> into) const = 0;
  // The contents, when they are in memory anyway; empty otherwise.
  virtual std::span<const std::byte> in_memory() const { return {}; }
  // Of a widened constant: the type that it is stored in, whose numbers all elements are.
  virtual std::optional<DataType> widened_from() const { return std::nullopt; }
};

// Bytes held in memory: small tensors and what folding computes.
std::shared_ptr<const Constant> InlineConstant(std::vector<std::byte> contents);

// `count` times the bytes of `element`, generated as they are read: never held whole.
std::shared_ptr<const Constant> FilledConstant(std::vector<std::byte> element, std::uint64_t count);

// Elements of kFloat16 or kBfloat16 as kFloat32, converted as they are read.
std::shared_ptr<const Constant> WidenedConstant(std::shared_ptr<const Constant> narrow,
                                                DataType type);

}  // namespace sluice

#endif  // SLUICE_MODEL_CONSTANT_H_
