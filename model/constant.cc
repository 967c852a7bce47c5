#include "model/constant.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

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

}  // namespace

std::shared_ptr<const Constant> InlineConstant(std::vector<std::byte> contents) {
  return std::make_shared<Inline>(std::move(contents));
}

std::shared_ptr<const Constant> FilledConstant(std::vector<std::byte> element,
                                               std::uint64_t count) {
  SLUICE_CHECK(!element.empty());
  return std::make_shared<Filled>(std::move(element), count);
}

}  // namespace sluice
