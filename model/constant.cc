#include "model/constant.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "model/element_cast.h"

namespace sluice {
namespace {

class Inline final : public Constant {
 public:
  explicit Inline(std::vector<std::byte> contents) : contents_(std::move(contents)) {}
  Bytes size() const override { return Bytes::Of(contents_.size()); }
  absl::Status Read(Bytes offset, std::span<std::byte> into) const override {
    SLUICE_CHECK(offset + Bytes::Of(into.size()) <= size());
    if (!into.empty()) std::memcpy(into.data(), contents_.data() + offset.count(), into.size());
    return absl::OkStatus();
  }
  std::span<const std::byte> in_memory() const override { return contents_; }

 private:
  std::vector<std::byte> contents_;
};

class Filled final : public Constant {
 public:
  Filled(std::vector<std::byte> element, std::uint64_t count)
      : element_(std::move(element)), size_(Bytes::Of(element_.size()) * count) {}
  Bytes size() const override { return size_; }
  absl::Status Read(Bytes offset, std::span<std::byte> into) const override {
    SLUICE_CHECK(offset + Bytes::Of(into.size()) <= size_);
    std::size_t phase = static_cast<std::size_t>(offset.count() % element_.size());
    for (std::size_t done = 0; done < into.size(); phase = 0) {
      const std::size_t run = std::min(into.size() - done, element_.size() - phase);
      std::memcpy(into.data() + done, element_.data() + phase, run);
      done += run;
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::byte> element_;
  Bytes size_;
};

class Widened final : public Constant {
 public:
  Widened(std::shared_ptr<const Constant> narrow, DataType type)
      : narrow_(std::move(narrow)), type_(type), widen_(CastLoopFor(type, DataType::kFloat32)) {}
  Bytes size() const override { return narrow_->size() * 2; }
  std::optional<DataType> widened_from() const override { return type_; }

  absl::Status Read(Bytes offset, std::span<std::byte> into) const override {
    SLUICE_CHECK(offset + Bytes::Of(into.size()) <= size());
    constexpr std::size_t kChunk = 1024;  // Elements.
    alignas(float) std::array<std::byte, kChunk * sizeof(float)> wide;
    alignas(float) std::array<std::byte, kChunk * kNarrow> narrow;
    std::uint64_t at = offset.count();
    while (!into.empty()) {
      // A window may begin and end within an element.
      const std::uint64_t first = at / sizeof(float);
      const auto skipped = static_cast<std::size_t>(at % sizeof(float));
      const std::size_t count =
          std::min(kChunk, (skipped + into.size() + sizeof(float) - 1) / sizeof(float));
      SLUICE_RETURN_IF_ERROR(
          narrow_->Read(Bytes::Of(first * kNarrow), std::span(narrow).first(count * kNarrow)));
      widen_(narrow.data(), wide.data(), count);
      const std::size_t run = std::min(into.size(), count * sizeof(float) - skipped);
      std::memcpy(into.data(), wide.data() + skipped, run);
      into = into.subspan(run);
      at += run;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr std::size_t kNarrow = 2;  // Bytes of an element.

  std::shared_ptr<const Constant> narrow_;
  DataType type_;
  CastLoop widen_;
};

}  // namespace

std::shared_ptr<const Constant> InlineConstant(std::vector<std::byte> contents) {
  return std::make_shared<Inline>(std::move(contents));
}

std::shared_ptr<const Constant> FilledConstant(std::vector<std::byte> element,
                                               std::uint64_t count) {
  SLUICE_CHECK(!element.empty());
  return std::make_shared<Filled>(std::move(element), count);
}

std::shared_ptr<const Constant> WidenedConstant(std::shared_ptr<const Constant> narrow,
                                                DataType type) {
  SLUICE_CHECK(type == DataType::kFloat16 || type == DataType::kBfloat16);
  return std::make_shared<Widened>(std::move(narrow), type);
}

}  // namespace sluice
