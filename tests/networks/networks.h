// tests/networks/networks.h
//
// Published architectures at full size with seeded weights, as ONNX files: what tests, benchmarks
// and the quickstart run when no trained network of the wanted size is at hand. Batch norms are
// nodes of their own, so that the importer has to fold them.

#ifndef SLUICE_TESTS_NETWORKS_NETWORKS_H_
#define SLUICE_TESTS_NETWORKS_NETWORKS_H_

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace sluice {

struct NetworkOptions {
  std::uint32_t seed = 1;      // The same seed gives the same bytes everywhere.
  std::int64_t batch = 1;      // First dimension of every input and output.
  bool dynamic_batch = false;  // That dimension is symbolic, called "batch"; `batch` is not used.
};

// resnet50, resnet152, vgg16, densenet201, mobilenet_v2, inception_v3, yolo_like, unet, bert_base.
std::vector<std::string_view> NetworkNames();

// Writes the network to `out`, or nothing: a file of that name is whole. Needs a few MiB of memory,
// however large the network is.
// Fails: INVALID_ARGUMENT, no such network or a batch below 1; what the system says of the file.
absl::Status WriteNetwork(std::string_view name, const NetworkOptions& options,
                          const std::filesystem::path& out);

}  // namespace sluice

#endif  // SLUICE_TESTS_NETWORKS_NETWORKS_H_
