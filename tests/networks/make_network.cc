// sluice_make_network NAME --out FILE: writes one of the generated networks as an ONNX file.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "tests/networks/networks.h"

int main(int argc, char** argv) {
  std::vector<std::string> names;
  for (const std::string_view name : sluice::NetworkNames()) names.emplace_back(name);

  CLI::App app(
      "Writes a published architecture at full size, with seeded weights, as an ONNX file.",
      "sluice_make_network");
  app.footer("Example:\n  sluice_make_network resnet152 --out resnet152.onnx");
  std::string name, out;
  sluice::NetworkOptions options;
  app.add_option("NAME", name, "Architecture")->required()->check(CLI::IsMember(names));
  app.add_option("--out", out, "File to write")->required();
  app.add_option("--seed", options.seed, "The same seed gives the same bytes")
      ->capture_default_str();
  app.add_option("--batch", options.batch, "First dimension of inputs and outputs")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_flag("--dynamic", options.dynamic_batch, "Leave that dimension open, called \"batch\"")
      ->excludes("--batch");
  CLI11_PARSE(app, argc, argv);

  const absl::Status status = sluice::WriteNetwork(name, options, out);
  if (!status.ok()) {
    std::fprintf(stderr, "sluice_make_network: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(out, error);
  std::fprintf(stderr, "%s: %s, %.1f MB\n", out.c_str(), name.c_str(),
               static_cast<double>(bytes) / 1e6);
  return 0;
}
