// Einsum, taken apart: diagonals of repeated letters, sums over letters that nobody else has, and
// operand by operand products, as matrix products where something is summed and element by element
// where nothing is.

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/onnx_node.h"

namespace sluice {
namespace {

// A dimension's name: a letter, or beyond them a place in the ellipsis, the innermost first.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool Contains(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

struct Term {
  std::string letters;
  std::optional<std::size_t> ellipsis;  // Before which letter.
};

absl::StatusOr<Term> ParseTerm(std::string_view text) {
  Term term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      term.letters += text[i];
    } else if (text.substr(i, 3) == "..." && !term.ellipsis) {
      term.ellipsis = term.letters.size();
      i += 2;
    } else {
      return absl::InvalidArgumentError(
          absl::StrFormat("\"%s\" is not made of letters and one ellipsis", text));
    }
  }
  return term;
}

// The labels of a tensor of `rank` dimensions.
absl::StatusOr<Labels> LabelsOf(const Term& term, std::size_t rank) {
  const std::size_t letters = term.letters.size();
  if (rank < letters || (!term.ellipsis && rank > letters)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "\"%s\" does not name the dimensions of a tensor that has %d", term.letters, rank));
  }
  Labels labels(term.letters.begin(), term.letters.end());
  for (std::size_t i = 0; i < rank - letters; ++i) {  // The innermost first.
    labels.insert(labels.begin() + static_cast<std::ptrdiff_t>(*term.ellipsis),
                  kEllipsis + static_cast<Label>(i));
  }
  return labels;
}

struct Equation {
  std::vector<Term> inputs;
  std::optional<Term> output;
};

absl::StatusOr<Equation> ParseEquation(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  Equation equation;
  std::string_view left = text;
  if (const std::size_t arrow = text.find("->"); arrow != std::string::npos) {
    SLUICE_ASSIGN_OR_RETURN(equation.output, ParseTerm(left.substr(arrow + 2)));
    left = left.substr(0, arrow);
  }
  while (true) {
    const std::size_t comma = left.find(',');
    SLUICE_ASSIGN_OR_RETURN(Term term, ParseTerm(left.substr(0, comma)));
    equation.inputs.push_back(std::move(term));
    if (comma == std::string_view::npos) return equation;
    left = left.substr(comma + 1);
  }
}

struct Operand {
  ValueId value{};
  Labels labels;
};

class Decomposition {
 public:
  explicit Decomposition(OnnxNode& node) : node_(node) {}

  MaybeValue Run(std::vector<Operand> operands, const Labels& output) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      SLUICE_RETURN_IF_ERROR(TakeDiagonals(operands[i]));
    }
    Operand result = operands[0];
    for (std::size_t i = 0; i < operands.size(); ++i) {
      Labels kept = output;  // What this operand's dimensions are still needed for.
      for (std::size_t later = i + 1; later < operands.size(); ++later) {
        kept.insert(kept.end(), operands[later].labels.begin(), operands[later].labels.end());
      }
      if (i == 0) {
        SLUICE_RETURN_IF_ERROR(SumOthers(result, kept));
      } else {
        SLUICE_ASSIGN_OR_RETURN(result, Combine(std::move(result), operands[i], kept));
      }
    }
    return Permuted(result, output);
  }

 private:
  const Shape& shape(const Operand& operand) const {
    return node_.graph().value(operand.value).shape;
  }
  std::int64_t SizeOf(const Operand& operand, Label label) const {
    const auto at = std::ranges::find(operand.labels, label) - operand.labels.begin();
    return shape(operand)[static_cast<std::size_t>(at)];
  }

  // Brings the dimensions into the order of `labels`, all of which the operand must have.
  MaybeValue Permuted(const Operand& operand, const Labels& labels) {
    Transpose transpose;
    for (const Label label : labels) {
      transpose.perm.push_back(std::ranges::find(operand.labels, label) - operand.labels.begin());
    }
    if (labels == operand.labels) return operand.value;
    return node_.Emit(std::move(transpose), {operand.value});
  }

  // One dimension for each letter: two of one letter become rows of which every (n + 1)th is taken.
  absl::Status TakeDiagonals(Operand& operand) {
    for (std::size_t i = 0; i < operand.labels.size(); ++i) {
      const Label label = operand.labels[i];
      const auto again = std::find(operand.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   operand.labels.end(), label);
      if (again == operand.labels.end()) continue;
      const auto j = static_cast<std::size_t>(again - operand.labels.begin());
      const std::int64_t n = shape(operand)[i];
      if (shape(operand)[j] != n || n >= (std::int64_t{1} << 31)) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "one letter names dimensions %d and %d of %s", i, j, FormatShape(shape(operand))));
      }
      Transpose last;
      Labels rest;
      Shape flat;
      for (std::size_t d = 0; d < operand.labels.size(); ++d) {
        if (d == i || d == j) continue;
        last.perm.push_back(static_cast<std::int64_t>(d));
        rest.push_back(operand.labels[d]);
        flat.push_back(shape(operand)[d]);
      }
      last.perm.push_back(static_cast<std::int64_t>(i));
      last.perm.push_back(static_cast<std::int64_t>(j));
      flat.push_back(n * n);
      SLUICE_ASSIGN_OR_RETURN(ValueId y, node_.Emit(std::move(last), {operand.value}));
      SLUICE_ASSIGN_OR_RETURN(y, node_.EmitReshape(y, flat));
      Slice diagonal{.starts = std::vector<std::int64_t>(flat.size(), 0),
                     .steps = std::vector<std::int64_t>(flat.size(), 1)};
      diagonal.steps.back() = n + 1;
      flat.back() = n;
      SLUICE_ASSIGN_OR_RETURN(operand.value, node_.Emit(std::move(diagonal), {y}, flat));
      rest.push_back(label);
      operand.labels = std::move(rest);
      i = static_cast<std::size_t>(-1);  // From the start: a letter may stand three times.
    }
    return absl::OkStatus();
  }

  // Sums over what nobody else needs.
  absl::Status SumOthers(Operand& operand, const Labels& kept) {
    Reduce sum{.kind = Reduce::Kind::kSum, .axes = {}};
    Labels rest;
    Shape left;
    for (std::size_t d = 0; d < operand.labels.size(); ++d) {
      if (Contains(kept, operand.labels[d])) {
        rest.push_back(operand.labels[d]);
        left.push_back(shape(operand)[d]);
      } else {
        sum.axes.push_back(static_cast<std::int64_t>(d));
      }
    }
    if (sum.axes.empty()) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(operand.value, node_.Emit(std::move(sum), {operand.value}, left));
    operand.labels = std::move(rest);
    return absl::OkStatus();
  }

  // Two sizes of one letter are equal, or one of them is 1 and repeats.
  absl::Status Agree(Operand& a, Operand& b, const Labels& shared) {
    for (const Label label : shared) {
      const std::int64_t of_a = SizeOf(a, label), of_b = SizeOf(b, label);
      if (of_a == of_b) continue;
      if (of_a != 1 && of_b != 1) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a letter names dimensions of %d and of %d", of_a, of_b));
      }
      Operand& narrow = of_a == 1 ? a : b;
      Shape wide = shape(narrow);
      wide[static_cast<std::size_t>(std::ranges::find(narrow.labels, label) -
                                    narrow.labels.begin())] = std::max(of_a, of_b);
      SLUICE_ASSIGN_OR_RETURN(narrow.value, node_.Emit(Expand{}, {narrow.value}, wide));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Operand> Combine(Operand a, Operand b, const Labels& kept) {
    Labels kept_by_a = kept, kept_by_b = kept;
    kept_by_a.insert(kept_by_a.end(), b.labels.begin(), b.labels.end());
    kept_by_b.insert(kept_by_b.end(), a.labels.begin(), a.labels.end());
    SLUICE_RETURN_IF_ERROR(SumOthers(a, kept_by_a));
    SLUICE_RETURN_IF_ERROR(SumOthers(b, kept_by_b));
    Labels batch, summed, of_a, of_b;
    for (const Label label : a.labels) {
      (!Contains(b.labels, label) ? of_a : Contains(kept, label) ? batch : summed).push_back(label);
    }
    for (const Label label : b.labels) {
      if (!Contains(a.labels, label)) of_b.push_back(label);
    }
    Labels shared = batch;
    shared.insert(shared.end(), summed.begin(), summed.end());
    SLUICE_RETURN_IF_ERROR(Agree(a, b, shared));
    Operand result{.value = {}, .labels = batch};
    result.labels.insert(result.labels.end(), of_a.begin(), of_a.end());
    result.labels.insert(result.labels.end(), of_b.begin(), of_b.end());
    Shape wanted;
    for (const Label label : result.labels) {
      wanted.push_back(SizeOf(Contains(a.labels, label) ? a : b, label));
    }
    SLUICE_ASSIGN_OR_RETURN(result.value, Product(a, b, {batch, of_a, summed, of_b}));
    SLUICE_ASSIGN_OR_RETURN(result.value, node_.EmitReshape(result.value, wanted));
    return result;
  }

  struct Roles {
    Labels batch, rows, summed, columns;
  };

  // [batch, rows, summed] times [batch, summed, columns], each group one dimension.
  MaybeValue Product(const Operand& a, const Operand& b, const Roles& roles) {
    SLUICE_ASSIGN_OR_RETURN(const ValueId left,
                            Grouped(a, {&roles.batch, &roles.rows, &roles.summed}));
    SLUICE_ASSIGN_OR_RETURN(const ValueId right,
                            Grouped(b, {&roles.batch, &roles.summed, &roles.columns}));
    // A product of one column and one row is one of elements.
    if (roles.summed.empty()) return node_.EmitBinary(Binary::Kind::kMultiply, left, right);
    return node_.Emit(MatMul{}, {left, right});
  }

  MaybeValue Grouped(const Operand& operand, const std::vector<const Labels*>& groups) {
    Labels order;
    Shape grouped;
    for (const Labels* group : groups) {
      std::int64_t size = 1;
      for (const Label label : *group) {
        order.push_back(label);
        size *= SizeOf(operand, label);
      }
      grouped.push_back(size);
    }
    SLUICE_ASSIGN_OR_RETURN(const ValueId permuted, Permuted(operand, order));
    return node_.EmitReshape(permuted, std::move(grouped));
  }

  OnnxNode& node_;
};

// Without an arrow: the ellipsis, then the letters that stand once, in the order of the alphabet.
Labels ImplicitOutput(const std::vector<Operand>& operands) {
  std::map<Label, int> times;
  for (const Operand& operand : operands) {
    for (const Label label : operand.labels) ++times[label];
  }
  Labels output, letters;
  for (const auto& [label, count] : times) {
    if (label >= kEllipsis) {
      output.insert(output.begin(), label);
    } else if (count == 1) {
      letters.push_back(label);
    }
  }
  output.insert(output.end(), letters.begin(), letters.end());
  return output;
}

absl::StatusOr<Labels> StatedOutput(const Term& term, const std::vector<Operand>& operands) {
  std::size_t broadcast = 0;  // Dimensions in the longest ellipsis.
  for (const Operand& operand : operands) {
    broadcast = std::max<std::size_t>(
        broadcast, static_cast<std::size_t>(std::ranges::count_if(
                       operand.labels, [](Label label) { return label >= kEllipsis; })));
  }
  SLUICE_ASSIGN_OR_RETURN(Labels output,
                          LabelsOf(term, term.letters.size() + (term.ellipsis ? broadcast : 0)));
  for (std::size_t i = 0; i < output.size(); ++i) {
    const bool known = std::ranges::any_of(
        operands, [&](const Operand& operand) { return Contains(operand.labels, output[i]); });
    if (!known || std::ranges::count(output, output[i]) != 1) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "output \"%s\" has a letter twice or one that no input has", term.letters));
    }
  }
  return output;
}

MaybeValue Einsum(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const Equation equation, ParseEquation(node.String("equation", "")));
  if (equation.inputs.size() != node.input_count()) {
    return absl::InvalidArgumentError(absl::StrFormat("the equation has %d inputs, the node %d",
                                                      equation.inputs.size(), node.input_count()));
  }
  std::vector<Operand> operands;
  operands.reserve(equation.inputs.size());
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    if (!node.input(i)) return absl::InvalidArgumentError(absl::StrFormat("input %d is absent", i));
    SLUICE_ASSIGN_OR_RETURN(Labels labels, LabelsOf(equation.inputs[i], node.shape(i).size()));
    operands.push_back({*node.input(i), std::move(labels)});
  }
  Labels output = ImplicitOutput(operands);
  if (equation.output) {
    SLUICE_ASSIGN_OR_RETURN(output, StatedOutput(*equation.output, operands));
  }
  return Decomposition(node).Run(std::move(operands), output);
}

constexpr OnnxOperator kOperators[] = {{"Einsum", 1, SIZE_MAX, Einsum}};

}  // namespace

std::span<const OnnxOperator> EinsumOperators() { return kOperators; }

}  // namespace sluice
