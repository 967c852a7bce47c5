#include "tests/networks/architectures.h"

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

// Arguments of a call are evaluated in any order, elements of a braced list from left to right: two
// layers meet in one expression only in a list, since their order gives them their names.

namespace sluice {
namespace {

constexpr std::int64_t kClasses = 1000;

void Classify(LayerBuilder& b, const Tensor& x, std::int64_t channels) {
  const Tensor flat = b.Op("Flatten", {b.Op("GlobalAveragePool", {x})}, {{"axis", 1}});
  const Tensor scores = b.Dense(flat, channels, kClasses, "classifier");
  b.Output(b.Op("Softmax", {scores}, {{"axis", 1}}), {1, kClasses});
}

}  // namespace

void BuildResNet(LayerBuilder& b, const std::array<int, 4>& blocks) {
  const int count = std::accumulate(blocks.begin(), blocks.end(), 0);
  const double gamma = 0.3 * std::sqrt(16.0 / count);
  Tensor x = b.Conv(b.Input("input", {1, 3, 224, 224}), 3, 64, 7, {.stride = 2});
  x = b.MaxPool(x, 3, 2, 1);
  std::int64_t in = 64;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t middle = std::int64_t{64} << stage, out = middle * 4;
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      Tensor y = b.Conv(x, in, middle, 1);
      y = b.Conv(y, middle, middle, 3, {.stride = stride});
      y = b.Conv(y, middle, out, 1, {.activation = Activation::kNone, .gamma = gamma});
      Tensor shortcut = x;
      if (i == 0) {
        shortcut =
            b.Conv(x, in, out, 1, {.stride = stride, .activation = Activation::kNone, .gain = 3});
      }
      x = b.Op("Relu", {b.Op("Add", {y, shortcut})});
      in = out;
    }
  }
  Classify(b, x, in);
}

void BuildVgg16(LayerBuilder& b) {
  Tensor x = b.Input("input", {1, 3, 224, 224});
  std::int64_t in = 3;
  const std::pair<std::int64_t, int> stages[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  for (const auto& [out, layers] : stages) {
    for (int i = 0; i < layers; ++i) {
      x = b.Conv(x, in, out, 3, {.batch_norm = false});
      in = out;
    }
    x = b.MaxPool(x, 2, 2);
  }
  x = b.Op("Flatten", {x}, {{"axis", 1}});
  x = b.Op("Relu", {b.Dense(x, 512 * 49, 4096, "", 6)});
  x = b.Op("Relu", {b.Dense(x, 4096, 4096, "", 6)});
  x = b.Dense(x, 4096, kClasses, "", 1);
  b.Output(b.Op("Softmax", {x}, {{"axis", 1}}), {1, kClasses});
}

void BuildDenseNet201(LayerBuilder& b) {
  constexpr std::int64_t kGrowth = 32;
  constexpr ConvOptions kBare = {
      .batch_norm = false, .bias = false, .activation = Activation::kNone};
  Tensor x = b.Conv(b.Input("input", {1, 3, 224, 224}), 3, 64, 7, {.stride = 2});
  x = b.MaxPool(x, 3, 2, 1);
  std::int64_t channels = 64;
  const std::array<int, 4> blocks = {6, 12, 48, 32};
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    std::vector<Tensor> features = {x};
    for (int i = 0; i < blocks[block]; ++i) {
      Tensor y = features.size() == 1 ? features.front() : b.Concat(features);
      y = b.BatchNormRelu(y, channels);
      y = b.Conv(y, channels, 4 * kGrowth, 1);
      features.push_back(b.Conv(y, 4 * kGrowth, kGrowth, 3, kBare));
      channels += kGrowth;
    }
    x = b.BatchNormRelu(b.Concat(features), channels);
    if (block + 1 == blocks.size()) break;
    x = b.Conv(x, channels, channels / 2, 1, kBare);
    channels /= 2;
    x = b.AveragePool(x, 2, 2);
  }
  Classify(b, x, channels);
}

void BuildMobileNetV2(LayerBuilder& b) {
  struct Stage {
    std::int64_t expansion, channels, repeats, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  constexpr Activation kAct = Activation::kRelu6;
  Tensor x =
      b.Conv(b.Input("input", {1, 3, 224, 224}), 3, 32, 3, {.stride = 2, .activation = kAct});
  std::int64_t in = 32;
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.repeats; ++i) {
      const std::int64_t inner = in * stage.expansion;
      Tensor y = x;
      if (stage.expansion != 1) y = b.Conv(y, in, inner, 1, {.activation = kAct});
      y = b.Conv(y, inner, inner, 3,
                 {.stride = i == 0 ? stage.stride : 1, .groups = inner, .activation = kAct});
      y = b.Conv(y, inner, stage.channels, 1,
                 {.activation = Activation::kNone, .gamma = 0.7, .gain = 3});
      x = i > 0 && in == stage.channels ? b.Op("Add", {x, y}) : y;
      in = stage.channels;
    }
  }
  x = b.Conv(x, 320, 1280, 1, {.activation = kAct});
  Classify(b, x, 1280);
}

void BuildInceptionV3(LayerBuilder& b) {
  constexpr ConvOptions kNoPad = {.pad = 0};
  constexpr ConvOptions kHalve = {.stride = 2, .pad = 0};
  const auto conv = [&b](const Tensor& t, std::int64_t in, std::int64_t out, Window kernel) {
    return b.Conv(t, in, out, kernel);
  };
  Tensor x = b.Conv(b.Input("input", {1, 3, 299, 299}), 3, 32, 3, kHalve);
  x = b.Conv(x, 32, 32, 3, kNoPad);
  x = b.MaxPool(conv(x, 32, 64, 3), 3, 2);
  x = b.Conv(conv(x, 64, 80, 1), 80, 192, 3, kNoPad);
  x = b.MaxPool(x, 3, 2);
  std::int64_t c = 192;
  for (const std::int64_t pooled : {32, 64, 64}) {
    x = b.Concat({conv(x, c, 64, 1), conv(conv(x, c, 48, 1), 48, 64, 5),
                  conv(conv(conv(x, c, 64, 1), 64, 96, 3), 96, 96, 3),
                  conv(b.AveragePool(x, 3, 1, 1), c, pooled, 1)});
    c = 64 + 64 + 96 + pooled;
  }
  x = b.Concat({b.Conv(x, c, 384, 3, kHalve),
                b.Conv(conv(conv(x, c, 64, 1), 64, 96, 3), 96, 96, 3, kHalve), b.MaxPool(x, 3, 2)});
  c = 768;
  for (const std::int64_t k : {128, 160, 160, 192}) {
    const auto far = [&](const Tensor& t) {  // Four factors of 7 x 7.
      const Tensor y = conv(conv(conv(t, c, k, 1), k, k, {7, 1}), k, k, {1, 7});
      return conv(conv(y, k, k, {7, 1}), k, 192, {1, 7});
    };
    x = b.Concat({conv(x, c, 192, 1), conv(conv(conv(x, c, k, 1), k, k, {1, 7}), k, 192, {7, 1}),
                  far(x), conv(b.AveragePool(x, 3, 1, 1), c, 192, 1)});
  }
  const auto factored = [&](const Tensor& t) {
    return conv(conv(conv(t, c, 192, 1), 192, 192, {1, 7}), 192, 192, {7, 1});
  };
  x = b.Concat({b.Conv(conv(x, c, 192, 1), 192, 320, 3, kHalve),
                b.Conv(factored(x), 192, 192, 3, kHalve), b.MaxPool(x, 3, 2)});
  c = 1280;
  for (int i = 0; i < 2; ++i) {
    const Tensor t = conv(x, c, 384, 1);
    const Tensor u = conv(conv(x, c, 448, 1), 448, 384, 3);
    x = b.Concat({conv(x, c, 320, 1), conv(t, 384, 384, {1, 3}), conv(t, 384, 384, {3, 1}),
                  conv(u, 384, 384, {1, 3}), conv(u, 384, 384, {3, 1}),
                  conv(b.AveragePool(x, 3, 1, 1), c, 192, 1)});
    c = 2048;
  }
  Classify(b, x, c);
}

void BuildUnet(LayerBuilder& b) {
  constexpr std::int64_t kSide = 256, kBase = 64;
  constexpr int kLevels = 4;
  Tensor x = b.Input("input", {1, 3, kSide, kSide});
  std::int64_t in = 3;
  std::vector<std::pair<Tensor, std::int64_t>> skips;
  const auto twice = [&b](const Tensor& t, std::int64_t from, std::int64_t to) {
    return b.Conv(b.Conv(t, from, to, 3), to, to, 3);
  };
  for (int level = 0; level < kLevels; ++level) {
    const std::int64_t out = kBase << level;
    x = twice(x, in, out);
    skips.emplace_back(x, out);
    x = b.MaxPool(x, 2, 2);
    in = out;
  }
  x = twice(x, in, kBase << kLevels);
  in = kBase << kLevels;
  for (; !skips.empty(); skips.pop_back()) {
    const auto& [skip, channels] = skips.back();
    x = b.Concat({skip, b.UpConv(x, in, channels)});
    x = twice(x, 2 * channels, channels);
    in = channels;
  }
  x = b.Conv(x, in, 2, 1, {.batch_norm = false, .activation = Activation::kNone, .gain = 1});
  b.Output(b.Op("Sigmoid", {x}), {1, 2, kSide, kSide});
}

namespace {

// The parts of YOLOv4 that repeat.
class Yolo {
 public:
  explicit Yolo(LayerBuilder& b) : b_(b) {}

  Tensor Mish(const Tensor& x, std::int64_t in, std::int64_t out, std::int64_t kernel,
              std::int64_t stride = 1, double gamma = 1) {
    return b_.Conv(x, in, out, kernel,
                   {.stride = stride, .activation = Activation::kMish, .gamma = gamma});
  }

  Tensor Leaky(const Tensor& x, std::int64_t in, std::int64_t out, std::int64_t kernel,
               std::int64_t stride = 1) {
    return b_.Conv(x, in, out, kernel, {.stride = stride, .activation = Activation::kLeaky});
  }

  // Cross-stage partial block: half the channels go through `repeats` residuals, half around them.
  Tensor CrossStage(const Tensor& input, int stage, std::int64_t out, int repeats) {
    const std::int64_t in = std::int64_t{32} << stage;
    const std::int64_t half = stage == 0 ? out : out / 2;
    const std::int64_t inner = stage == 0 ? half / 2 : half;
    const Tensor x = Mish(input, in, out, 3, 2);
    const Tensor around = Mish(x, out, half, 1);
    Tensor y = Mish(x, out, half, 1);
    for (int i = 0; i < repeats; ++i) {
      y = b_.Op("Add", {y, Mish(Mish(y, half, inner, 1), inner, half, 3, 1, 0.4)});
    }
    y = Mish(y, half, half, 1);
    return Mish(b_.Concat({y, around}), 2 * half, out, 1);
  }

  Tensor Three(Tensor x, std::int64_t in, std::int64_t narrow) {
    x = Leaky(x, in, narrow, 1);
    x = Leaky(x, narrow, 2 * narrow, 3);
    return Leaky(x, 2 * narrow, narrow, 1);
  }

  Tensor Five(Tensor x, std::int64_t in, std::int64_t narrow) {
    x = Three(x, in, narrow);
    x = Leaky(x, narrow, 2 * narrow, 3);
    return Leaky(x, 2 * narrow, narrow, 1);
  }

  Tensor Up(const Tensor& x, std::int64_t in, std::int64_t out) {
    return b_.Upsample(Leaky(x, in, out, 1));
  }

  void Head(const Tensor& x, std::int64_t in, std::int64_t side, std::string_view name) {
    constexpr std::int64_t kBoxes = 255;
    const Tensor y = b_.Conv(Leaky(x, in, 2 * in, 3), 2 * in, kBoxes, 1,
                             {.batch_norm = false, .activation = Activation::kNone, .gain = 3});
    b_.Output(y, {1, kBoxes, side, side}, name);
  }

 private:
  LayerBuilder& b_;
};

}  // namespace

void BuildYoloLike(LayerBuilder& b) {
  constexpr std::int64_t kSide = 416;
  Yolo yolo(b);
  Tensor x = yolo.Mish(b.Input("input", {1, 3, kSide, kSide}), 3, 32, 3);
  std::vector<Tensor> taps;
  constexpr std::pair<std::int64_t, int> kStages[] = {
      {64, 1}, {128, 2}, {256, 8}, {512, 8}, {1024, 4}};
  for (const auto& [out, repeats] : kStages) {
    x = yolo.CrossStage(x, static_cast<int>(taps.size()), out, repeats);
    taps.push_back(x);
  }
  x = yolo.Three(x, 1024, 512);
  x = b.Concat({b.MaxPool(x, 13, 1, 6), b.MaxPool(x, 9, 1, 4), b.MaxPool(x, 5, 1, 2), x});
  const Tensor n5 = yolo.Three(x, 2048, 512);
  const Tensor n4 =
      yolo.Five(b.Concat({yolo.Leaky(taps[3], 512, 256, 1), yolo.Up(n5, 512, 256)}), 512, 256);
  const Tensor n3 =
      yolo.Five(b.Concat({yolo.Leaky(taps[2], 256, 128, 1), yolo.Up(n4, 256, 128)}), 256, 128);
  yolo.Head(n3, 128, kSide / 8, "head8");
  const Tensor m4 = yolo.Five(b.Concat({yolo.Leaky(n3, 128, 256, 3, 2), n4}), 512, 256);
  yolo.Head(m4, 256, kSide / 16, "head16");
  const Tensor m5 = yolo.Five(b.Concat({yolo.Leaky(m4, 256, 512, 3, 2), n5}), 1024, 512);
  yolo.Head(m5, 512, kSide / 32, "head32");
}

void BuildBertBase(LayerBuilder& b) {
  constexpr std::int64_t kLayers = 12, kWidth = 768, kHeads = 12, kInner = 3072,
                         kVocabulary = 30522, kPositions = 512, kLength = 128;
  const Tensor ids = b.Input("input_ids", {1, kLength}, OnnxType::kInt64);
  const Tensor types = b.Input("token_type_ids", {1, kLength}, OnnxType::kInt64);
  const Tensor attended = b.Input("attention_mask", {1, kLength}, OnnxType::kInt64);
  const auto embedding = [&b](std::string_view name, std::int64_t rows) {
    return b.Uniform(name, {rows, kWidth}, -.035, .035);
  };
  const auto look_up = [&](std::string_view name, std::int64_t rows, const Tensor& which) {
    return b.Op("Gather", {embedding(name, rows), which}, {{"axis", 0}});
  };
  Tensor x = b.Op("Add", {look_up("word_emb", kVocabulary, ids), look_up("type_emb", 2, types)});
  const Tensor positions = b.Op("Slice", {embedding("pos_emb", kPositions), b.Constant({0}),
                                          b.Constant({kLength}), b.Constant({0})});
  x = b.LayerNorm(b.Op("Add", {x, positions}), kWidth, "emb_ln");

  Tensor mask = b.Op("Unsqueeze", {attended, b.Constant({1, 2})});
  mask = b.Op("Cast", {mask}, {{"to", static_cast<std::int64_t>(OnnxType::kFloat)}});
  mask = b.Op("Mul", {b.Op("Sub", {b.Scalar(1), mask}), b.Scalar(-10000)});
  for (std::int64_t i = 0; i < kLayers; ++i) {
    const std::string name = absl::StrFormat("layer%d", i);
    const Tensor y = b.Attention(x, kWidth, kHeads, name + ".attn", mask, 0.03);
    x = b.LayerNorm(b.Op("Add", {y, x}), kWidth, name + ".ln1");
    const Tensor wide = b.Gelu(b.Linear(x, kWidth, kInner, name + ".ff1", 0.03));
    const Tensor narrow = b.Linear(wide, kInner, kWidth, name + ".ff2", 0.03);
    x = b.LayerNorm(b.Op("Add", {narrow, x}), kWidth, name + ".ln2");
  }
  const Tensor first = b.Op("Gather", {x, b.Zero()}, {{"axis", 1}});
  b.OutputAsIs(x, {1, kLength, kWidth});
  b.Output(b.Op("Tanh", {b.Dense(first, kWidth, kWidth, "pooler")}), {1, kWidth}, "pooled");
}

}  // namespace sluice
