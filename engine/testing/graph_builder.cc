#include "engine/testing/graph_builder.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

template <typename Element>
std::shared_ptr<const Constant> Contents(const std::vector<Element>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(Element));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return InlineConstant(std::move(bytes));
}

}  // namespace

ValueId GraphBuilder::Input(Shape shape, DataType type) {
  const ValueId id = graph_.Add(
      {absl::StrFormat("input%d", graph_.inputs.size()), type, std::move(shape), nullptr});
  graph_.inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::Weights(Shape shape, float low, float high) {
  std::vector<float> elements(ElementCount(shape));
  for (float& element : elements) {
    element = low + (high - low) * static_cast<float>(random_() >> 40) * 0x1p-24f;
  }
  return Floats(std::move(shape), std::move(elements));
}

ValueId GraphBuilder::Floats(Shape shape, std::vector<float> elements) {
  SLUICE_CHECK(elements.size() == ElementCount(shape));
  return graph_.Add({absl::StrFormat("constant%d", graph_.values.size()), DataType::kFloat32,
                     std::move(shape), Contents(elements)});
}

ValueId GraphBuilder::Integers(Shape shape, std::vector<std::int64_t> elements) {
  SLUICE_CHECK(elements.size() == ElementCount(shape));
  return graph_.Add({absl::StrFormat("constant%d", graph_.values.size()), DataType::kInt64,
                     std::move(shape), Contents(elements)});
}

ValueId GraphBuilder::Add(Operation operation, std::vector<std::optional<ValueId>> inputs,
                          std::optional<Shape> shape, std::optional<DataType> type) {
  std::vector<const Value*> values;
  for (const std::optional<ValueId>& input : inputs) {
    values.push_back(input ? &graph_.value(*input) : nullptr);
  }
  if (!shape) {
    const auto follows = OutputShape(operation, values);
    SLUICE_CHECK(follows.ok() && follows->has_value());
    shape = **follows;
  }
  const std::string name = absl::StrFormat("%s%d", Name(operation), graph_.nodes.size());
  const ValueId output =
      graph_.Add({name + " out", type.value_or(values.at(0)->type), *std::move(shape), nullptr});
  graph_.nodes.push_back({name, Name(operation), std::move(operation), std::move(inputs), output});
  return output;
}

Graph GraphBuilder::Finish(std::vector<ValueId> outputs) {
  graph_.name = "test";
  graph_.outputs = std::move(outputs);
  const absl::Status valid = Validate(graph_);
  if (!valid.ok()) absl::FPrintF(stderr, "%s\n", valid.ToString());
  SLUICE_CHECK(valid.ok());
  return std::move(graph_);
}

Convolution Conv(std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t groups,
                 std::int64_t dilation, std::size_t rank) {
  Convolution convolution;
  convolution.kernel.assign(rank, kernel);
  convolution.strides.assign(rank, stride);
  convolution.dilations.assign(rank, dilation);
  convolution.pads_begin.assign(rank, pad);
  convolution.pads_end.assign(rank, pad);
  convolution.groups = groups;
  return convolution;
}

Epilogue Then(Unary::Kind kind, float alpha, float beta) {
  Epilogue epilogue;
  epilogue.unary = {kind, alpha, beta};
  return epilogue;
}

Epilogue ThenAdd(std::uint32_t input) {
  Epilogue epilogue;
  epilogue.kind = Epilogue::Kind::kAdd;
  epilogue.input = input;
  return epilogue;
}

}  // namespace sluice
