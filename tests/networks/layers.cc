#include "tests/networks/layers.h"

#include <array>
#include <cmath>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

OnnxAttribute Float(std::string_view name, float value) { return {std::string(name), value}; }
OnnxAttribute Int(std::string_view name, std::int64_t value) { return {std::string(name), value}; }
OnnxAttribute List(std::string_view name, Ints values) {
  return {std::string(name), std::move(values)};
}
OnnxAttribute Text(std::string_view name, std::string_view value) {
  return {std::string(name), std::string(value)};
}

}  // namespace

std::vector<OnnxDim> LayerBuilder::Batched(const Ints& shape) const {
  std::vector<OnnxDim> dims(shape.begin(), shape.end());
  if (options_.dynamic_batch) {
    dims.front() = std::string("batch");
  } else {
    dims.front() = options_.batch;
  }
  return dims;
}

Tensor LayerBuilder::Input(std::string_view name, const Ints& shape, OnnxType type) {
  file_.AddInput(name, type, Batched(shape));
  return std::string(name);
}

void LayerBuilder::Output(const Tensor& x, const Ints& shape, std::string_view name) {
  file_.RenameLastOutput(x, name);
  file_.AddOutput(name, OnnxType::kFloat, Batched(shape));
}

void LayerBuilder::OutputAsIs(const Tensor& x, const Ints& shape) {
  file_.AddOutput(x, OnnxType::kFloat, Batched(shape));
}

Tensor LayerBuilder::Op(std::string_view op, std::vector<Tensor> inputs,
                        std::vector<OnnxAttribute> attributes, std::string_view name) {
  ++number_;
  const std::string given =
      name.empty() ? absl::StrFormat("%s_%d", op, number_) : std::string(name);
  const Tensor output = given + "_o";
  file_.AddNode(op, given, std::move(inputs), output, std::move(attributes));
  return output;
}

UniformWeights LayerBuilder::NextWeights(double low, double high) {
  return {.stream = WeightStream(options_.seed, ++drawn_), .low = low, .high = high, .scale = 1};
}

Tensor LayerBuilder::Add(std::string_view name, const Ints& shape, const UniformWeights& weights) {
  file_.AddWeights(name, shape, weights);
  return std::string(name);
}

Tensor LayerBuilder::Uniform(std::string_view name, const Ints& shape, double low, double high) {
  return Add(name, shape, NextWeights(low, high));
}

Tensor LayerBuilder::Scalar(double value) {
  const std::string name = absl::StrFormat("scalar_%g", value);
  if (!file_.HasInitialiser(name)) {
    const auto rounded = static_cast<float>(value);
    file_.AddFloats(name, {}, {&rounded, 1});
  }
  return name;
}

Tensor LayerBuilder::Constant(const Ints& values, std::string_view name) {
  const std::string given =
      name.empty() ? absl::StrFormat("c%d", file_.initialisers()) : std::string(name);
  const std::int64_t length = static_cast<std::int64_t>(values.size());
  file_.AddInts(given, {&length, 1}, values);
  return given;
}

Tensor LayerBuilder::Zero() {
  const std::int64_t zero = 0;
  file_.AddInts("zero", {}, {&zero, 1});
  return "zero";
}

Tensor LayerBuilder::Conv(const Tensor& x, std::int64_t in, std::int64_t out, Window kernel,
                          const ConvOptions& options) {
  const std::string name = absl::StrFormat("conv%d", ++number_);
  const std::int64_t fan_in = in / options.groups * kernel.height * kernel.width;
  const double most = std::sqrt(options.gain / static_cast<double>(fan_in));
  std::vector<Tensor> inputs = {
      x, Uniform(name + ".weight", {out, in / options.groups, kernel.height, kernel.width}, -most,
                 most)};
  if (!options.batch_norm && options.bias) {
    inputs.push_back(Uniform(name + ".bias", {out}, -.05, .05));
  }
  const std::int64_t pad_h = options.pad.value_or((kernel.height - 1) / 2);
  const std::int64_t pad_w = options.pad.value_or((kernel.width - 1) / 2);
  Tensor y = Op("Conv", std::move(inputs),
                {List("kernel_shape", {kernel.height, kernel.width}),
                 List("strides", {options.stride, options.stride}),
                 List("pads", {pad_h, pad_w, pad_h, pad_w}), List("dilations", {1, 1}),
                 Int("group", options.groups)},
                name);
  if (options.batch_norm) {
    UniformWeights scales = NextWeights(.8, 1.2);
    scales.scale = static_cast<float>(options.gamma);
    const std::vector<Tensor> norm = {
        y, Add(name + ".bn.weight", {out}, scales), Uniform(name + ".bn.bias", {out}, -.1, .1),
        Uniform(name + ".bn.mean", {out}, -.1, .1), Uniform(name + ".bn.var", {out}, .8, 1.2)};
    y = Op("BatchNormalization", norm, {Float("epsilon", 1e-5f)}, name + "_bn");
  }
  return Activate(y, options.activation);
}

Tensor LayerBuilder::UpConv(const Tensor& x, std::int64_t in, std::int64_t out) {
  const std::string name = absl::StrFormat("up%d", ++number_);
  const double most = std::sqrt(6 / static_cast<double>(in));
  const std::vector<Tensor> inputs = {x, Uniform(name + ".weight", {in, out, 2, 2}, -most, most),
                                      Uniform(name + ".bias", {out}, -.05, .05)};
  return Op("ConvTranspose", inputs, {List("kernel_shape", {2, 2}), List("strides", {2, 2})});
}

Tensor LayerBuilder::BatchNormRelu(const Tensor& x, std::int64_t channels) {
  const std::string name = absl::StrFormat("bn%d", ++number_);
  const std::vector<Tensor> inputs = {x, Uniform(name + ".weight", {channels}, .8, 1.2),
                                      Uniform(name + ".bias", {channels}, -.1, .1),
                                      Uniform(name + ".mean", {channels}, -.1, .1),
                                      Uniform(name + ".var", {channels}, .8, 1.2)};
  return Activate(Op("BatchNormalization", inputs, {Float("epsilon", 1e-5f)}, name),
                  Activation::kRelu);
}

Tensor LayerBuilder::Activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return Op("Relu", {x});
    case Activation::kRelu6:
      return Op("Clip", {x, Scalar(0), Scalar(6)});
    case Activation::kLeaky:
      return Op("LeakyRelu", {x}, {Float("alpha", 0.1f)});
    case Activation::kMish:
      return Op("Mul", {x, Op("Tanh", {Op("Softplus", {x})})});
  }
  return x;
}

Tensor LayerBuilder::MaxPool(const Tensor& x, std::int64_t kernel, std::int64_t stride,
                             std::int64_t pad) {
  return Op("MaxPool", {x},
            {List("kernel_shape", {kernel, kernel}), List("strides", {stride, stride}),
             List("pads", Ints(4, pad))});
}

Tensor LayerBuilder::AveragePool(const Tensor& x, std::int64_t kernel, std::int64_t stride,
                                 std::int64_t pad) {
  return Op("AveragePool", {x},
            {List("kernel_shape", {kernel, kernel}), List("strides", {stride, stride}),
             List("pads", Ints(4, pad)), Int("count_include_pad", 1)});
}

Tensor LayerBuilder::Upsample(const Tensor& x) {
  const std::string scales = absl::StrFormat("scales%d", number_);
  constexpr std::array<std::int64_t, 1> kShape = {4};
  constexpr std::array<float, 4> kScales = {1, 1, 2, 2};
  file_.AddFloats(scales, kShape, kScales);
  return Op("Resize", {x, "", scales},
            {Text("mode", "nearest"), Text("coordinate_transformation_mode", "asymmetric"),
             Text("nearest_mode", "floor")});
}

Tensor LayerBuilder::Dense(const Tensor& x, std::int64_t in, std::int64_t out,
                           std::string_view name, double gain) {
  ++number_;
  const std::string given = name.empty() ? absl::StrFormat("fc%d", number_) : std::string(name);
  const double most = std::sqrt(gain / static_cast<double>(in));
  const std::vector<Tensor> inputs = {x, Uniform(given + ".weight", {out, in}, -most, most),
                                      Uniform(given + ".bias", {out}, -.05, .05)};
  return Op("Gemm", inputs, {Float("alpha", 1), Float("beta", 1), Int("transB", 1)}, given);
}

Tensor LayerBuilder::Linear(const Tensor& x, std::int64_t in, std::int64_t out,
                            const std::string& name, double deviation) {
  const double most = deviation * std::sqrt(3.0);
  const Tensor product =
      Op("MatMul", {x, Uniform(name + ".weight", {in, out}, -most, most)}, {}, name + "_mm");
  return Op("Add", {product, Uniform(name + ".bias", {out}, -.02, .02)}, {}, name + "_add");
}

Tensor LayerBuilder::LayerNorm(const Tensor& x, std::int64_t width, const std::string& name) {
  const Tensor gamma = Uniform(name + ".gamma", {width}, .9, 1.1);
  const Tensor beta = Uniform(name + ".beta", {width}, -.05, .05);
  const std::vector<OnnxAttribute> last_axis = {List("axes", {-1}), Int("keepdims", 1)};
  const Tensor centred = Op("Sub", {x, Op("ReduceMean", {x}, last_axis)});
  const Tensor variance = Op("ReduceMean", {Op("Pow", {centred, Scalar(2)})}, last_axis);
  const Tensor deviation = Op("Sqrt", {Op("Add", {variance, Scalar(1e-5)})});
  const Tensor normal = Op("Div", {centred, deviation});
  return Op("Add", {Op("Mul", {normal, gamma}), beta}, {}, name);
}

Tensor LayerBuilder::Gelu(const Tensor& x) {
  const Tensor erf = Op("Erf", {Op("Div", {x, Scalar(std::sqrt(2.0))})});
  const Tensor twice = Op("Mul", {x, Op("Add", {erf, Scalar(1)})});
  return Op("Mul", {twice, Scalar(0.5)});
}

Tensor LayerBuilder::Attention(const Tensor& x, std::int64_t width, std::int64_t heads,
                               const std::string& name, const Tensor& mask, double deviation) {
  const std::int64_t head = width / heads;
  const Tensor q = Linear(x, width, width, name + ".q", deviation);
  const Tensor k = Linear(x, width, width, name + ".k", deviation);
  const Tensor v = Linear(x, width, width, name + ".v", deviation);
  const Tensor shape = Constant({0, 0, heads, head}, name + ".shape");
  const auto split = [&](const Tensor& t, Ints perm) {
    return Op("Transpose", {Op("Reshape", {t, shape})}, {List("perm", std::move(perm))});
  };
  Tensor scores = Op("MatMul", {split(q, {0, 2, 1, 3}), split(k, {0, 2, 3, 1})});
  scores = Op("Div", {scores, Scalar(std::sqrt(static_cast<double>(head)))});
  scores = Op("Add", {scores, mask});
  Tensor context =
      Op("MatMul", {Op("Softmax", {scores}, {Int("axis", -1)}), split(v, {0, 2, 1, 3})});
  context = Op("Transpose", {context}, {List("perm", {0, 2, 1, 3})});
  context = Op("Reshape", {context, Constant({0, 0, width}, name + ".merge")});
  return Linear(context, width, width, name + ".out", deviation);
}

}  // namespace sluice
