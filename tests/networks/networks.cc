#include "tests/networks/networks.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "tests/networks/architectures.h"
#include "tests/networks/layers.h"

namespace sluice {
namespace {

struct Network {
  std::string_view name;
  void (*build)(LayerBuilder&);
};

constexpr Network kNetworks[] = {
    {"resnet50",
     [](LayerBuilder& b) {
       BuildResNet(b, {3, 4, 6, 3});
     }},
    {"resnet152",
     [](LayerBuilder& b) {
       BuildResNet(b, {3, 8, 36, 3});
     }},
    {"vgg16", BuildVgg16},
    {"densenet201", BuildDenseNet201},
    {"mobilenet_v2", BuildMobileNetV2},
    {"inception_v3", BuildInceptionV3},
    {"yolo_like", BuildYoloLike},
    {"unet", BuildUnet},
    {"bert_base", BuildBertBase},
};

}  // namespace

std::vector<std::string_view> NetworkNames() {
  std::vector<std::string_view> names;
  for (const Network& network : kNetworks) names.push_back(network.name);
  return names;
}

absl::Status WriteNetwork(std::string_view name, const NetworkOptions& options,
                          const std::filesystem::path& out) {
  const auto* network = std::ranges::find(kNetworks, name, &Network::name);
  if (network == std::end(kNetworks)) {
    std::string known;
    for (const std::string_view other : NetworkNames()) {
      known += (known.empty() ? "" : ", ") + std::string(other);
    }
    return absl::InvalidArgumentError(
        absl::StrFormat("network \"%s\" is not known; there are %s", name, known));
  }
  constexpr std::int64_t kLargestBatch = 65536;
  if (options.batch < 1 || options.batch > kLargestBatch) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch is %d, want 1 to %d", options.batch, kLargestBatch));
  }
  LayerBuilder builder(name, options);
  network->build(builder);
  return builder.Write(out);
}

}  // namespace sluice
