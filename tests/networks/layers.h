// tests/networks/layers.h
//
// The layers that the generated networks are made of, as exporters write them. Names of tensors are
// numbered in the order of the calls, and so are the streams of weights: the same calls give the
// same file.

#ifndef SLUICE_TESTS_NETWORKS_LAYERS_H_
#define SLUICE_TESTS_NETWORKS_LAYERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/networks/networks.h"
#include "tests/networks/onnx_file.h"

namespace sluice {

enum class Activation { kNone, kRelu, kRelu6, kLeaky, kMish };

using Tensor = std::string;  // A tensor is its name.
using Ints = std::vector<std::int64_t>;

// Height and width of a window; one number is a square.
struct Window {
  Window(std::int64_t side) : height(side), width(side) {}  // NOLINT(google-explicit-constructor)
  Window(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  std::int64_t height, width;
};

struct ConvOptions {
  std::int64_t stride = 1;
  std::optional<std::int64_t> pad = std::nullopt;  // Empty: keeps height and width at stride 1.
  std::int64_t groups = 1;
  bool batch_norm = true;
  bool bias = true;  // Without batch norm only.
  Activation activation = Activation::kRelu;
  double gamma = 1;  // Scales the batch norm's weights.
  double gain = 6;   // Weights lie within the root of gain over inputs.
};

class LayerBuilder {
 public:
  LayerBuilder(std::string_view name, const NetworkOptions& options)
      : file_(std::string(name), kOpset), options_(options) {}

  // The first dimension of a shape given here is replaced by the options' batch.
  Tensor Input(std::string_view name, const Ints& shape, OnnxType type = OnnxType::kFloat);
  void Output(const Tensor& x, const Ints& shape, std::string_view name = "output");
  void OutputAsIs(const Tensor& x, const Ints& shape);  // Under the name that it has.

  Tensor Op(std::string_view op, std::vector<Tensor> inputs,
            std::vector<OnnxAttribute> attributes = {}, std::string_view name = {});
  Tensor Conv(const Tensor& x, std::int64_t in, std::int64_t out, Window kernel,
              const ConvOptions& options = {});
  Tensor UpConv(const Tensor& x, std::int64_t in, std::int64_t out);  // 2 x 2, stride 2.
  Tensor BatchNormRelu(const Tensor& x, std::int64_t channels);
  Tensor MaxPool(const Tensor& x, std::int64_t kernel, std::int64_t stride, std::int64_t pad = 0);
  Tensor AveragePool(const Tensor& x, std::int64_t kernel, std::int64_t stride,
                     std::int64_t pad = 0);
  Tensor Concat(std::vector<Tensor> parts) { return Op("Concat", std::move(parts), {{"axis", 1}}); }
  Tensor Upsample(const Tensor& x);  // Nearest, twice as high and wide.
  Tensor Dense(const Tensor& x, std::int64_t in, std::int64_t out, std::string_view name,
               double gain = 3);
  // MatMul and Add, as exporters write a dense layer on sequences.
  Tensor Linear(const Tensor& x, std::int64_t in, std::int64_t out, const std::string& name,
                double deviation);
  Tensor LayerNorm(const Tensor& x, std::int64_t width, const std::string& name);
  Tensor Gelu(const Tensor& x);
  Tensor Attention(const Tensor& x, std::int64_t width, std::int64_t heads, const std::string& name,
                   const Tensor& mask, double deviation);

  Tensor Scalar(double value);
  Tensor Constant(const Ints& values, std::string_view name = {});  // int64, rank one.
  Tensor Zero();                                                    // int64, rank zero.
  Tensor Uniform(std::string_view name, const Ints& shape, double low, double high);

  absl::Status Write(const std::filesystem::path& path) const { return file_.Write(path); }

 private:
  static constexpr std::int64_t kOpset = 13;

  UniformWeights NextWeights(double low, double high);
  Tensor Add(std::string_view name, const Ints& shape, const UniformWeights& weights);
  Tensor Activate(const Tensor& x, Activation activation);
  std::vector<OnnxDim> Batched(const Ints& shape) const;

  OnnxFile file_;
  NetworkOptions options_;
  std::uint32_t drawn_ = 0;  // Tensors of weights.
  int number_ = 0;           // Of the last layer or node.
};

}  // namespace sluice

#endif  // SLUICE_TESTS_NETWORKS_LAYERS_H_
