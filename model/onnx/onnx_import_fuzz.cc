// Any bytes as an ONNX file: an error or a valid graph that simplifies and whose constants can be
// read; never a crash. Most inputs come from changes to the message, not to its bytes
// (onnx_mutator.h).

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/onnx/onnx_importer.h"
#include "model/onnx/onnx_mutator.h"
#include "model/rewrite.h"

namespace {

void ReadConstants(const sluice::Graph& graph) {
  std::vector<std::byte> window(4096);
  for (const sluice::Value& value : graph.values) {
    if (value.constant == nullptr) continue;
    const std::uint64_t size = value.constant->size().count();
    const std::uint64_t part = std::min<std::uint64_t>(size, window.size());
    const std::span<std::byte> into = std::span(window).first(static_cast<std::size_t>(part));
    // Nothing else writes the file, so what was checked when it was opened can be read.
    SLUICE_CHECK(value.constant->Read(sluice::Bytes(), into).ok());
    SLUICE_CHECK(value.constant->Read(sluice::Bytes::Of(size - part), into).ok());
  }
}

}  // namespace

// libFuzzer's own changes to bytes; the program that replays a corpus has none.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                                              std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  onnx::ModelProto model;
  if (seed % 4 == 0 || !model.ParseFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  sluice::OnnxMutator(seed).Mutate(model);
  const std::size_t changed = model.ByteSizeLong();
  if (changed > max_size || !model.SerializeToArray(data, static_cast<int>(changed))) return size;
  return changed;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // In memory: a file system would set the pace.
  static const int file = ::memfd_create("model", MFD_CLOEXEC);
  SLUICE_CHECK(file >= 0 && ::ftruncate(file, 0) == 0);
  SLUICE_CHECK(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  const sluice::ImportOptions options = {
      .dims = {{"batch", 1}, {"channels", 3}, {"height", 16}, {"width", 16}},
      .max_structure = sluice::Bytes::Of(1 << 20),
      .max_tensor = sluice::Bytes::Of(1 << 24),
      .max_nodes = 1000};
  auto model = sluice::ImportOnnx(path, options);
  if (model.ok()) {
    SLUICE_CHECK(sluice::Validate(model->graph).ok());
    ReadConstants(model->graph);
    const absl::Status simplified = sluice::Simplify(model->graph);
    SLUICE_CHECK(simplified.ok() || absl::IsDataLoss(simplified));
    SLUICE_CHECK(sluice::Validate(model->graph).ok());
  }
  return 0;
}
