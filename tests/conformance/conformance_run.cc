#include "tests/conformance/conformance_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/testing/program_runner.h"
#include "model/element_cast.h"
#include "model/host_tensor.h"
#include "model/onnx/onnx_importer.h"
#include "model/rewrite.h"

namespace sluice {
namespace {

constexpr int kThreads = 2;
constexpr unsigned kMostSeconds = 60;

std::vector<std::byte> Contents(const Value& value) {
  std::vector<std::byte> bytes(value.constant->size().count());
  SLUICE_CHECK(value.constant->Read(Bytes(), bytes).ok());
  return bytes;
}

std::vector<double> AsDoubles(DataType type, std::span<const std::byte> bytes) {
  std::vector<double> numbers(bytes.size() / static_cast<std::size_t>(SizeOf(type).count()));
  CastLoopFor(type, DataType::kFloat64)(bytes.data(), reinterpret_cast<std::byte*>(numbers.data()),
                                        numbers.size());
  return numbers;
}

bool Close(double found, double wanted, Tolerance tolerance) {
  if (std::isnan(wanted) || std::isnan(found)) return std::isnan(wanted) && std::isnan(found);
  if (std::isinf(wanted) || std::isinf(found)) return wanted == found;
  return std::fabs(found - wanted) <= tolerance.absolute + tolerance.relative * std::fabs(wanted);
}

// Fails: DATA_LOSS, saying what differs.
absl::Status Compare(const Value& wanted, DataType type, const Shape& shape,
                     const TensorContents& found, Tolerance tolerance) {
  if (type != wanted.type || shape != wanted.shape) {
    return absl::DataLossError(
        absl::StrFormat("output \"%s\" is %s %s, want %s %s", wanted.name, ProtocolName(type),
                        FormatShape(shape), ProtocolName(wanted.type), FormatShape(wanted.shape)));
  }
  const std::vector<std::byte> want = Contents(wanted);
  if (!IsFloat(type)) {
    if (std::ranges::equal(found, want)) return absl::OkStatus();
    return absl::DataLossError(absl::StrFormat("output \"%s\" has other elements", wanted.name));
  }
  const std::vector<double> a = AsDoubles(type, found), b = AsDoubles(type, want);
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (Close(a[i], b[i], tolerance)) continue;
    return absl::DataLossError(
        absl::StrFormat("output \"%s\" has %g at %u, want %g", wanted.name, a[i], i, b[i]));
  }
  return absl::OkStatus();
}

ImportOptions OptionsFor(const ConformanceTest& test) {
  ImportOptions options;
  for (const Value& input : test.inputs) {
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      options.dims[absl::StrFormat("%s[%u]", input.name, d)] = input.shape[d];
    }
    options.values[input.name] = Contents(input);
  }
  return options;
}

// Refusals come as they are; a wrong answer is DATA_LOSS.
absl::Status RunTest(const ConformanceCase& test, const ConformanceTest& read,
                     Tolerance tolerance) {
  SLUICE_ASSIGN_OR_RETURN(ImportedModel model,
                          ImportOnnx(test.folder / "model.onnx", OptionsFor(read)));
  SLUICE_RETURN_IF_ERROR(Simplify(model.graph));
  ComputeTeam team(kThreads);
  const std::unique_ptr<Backend> backend = CpuBackend(kThreads);
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<Program> program,
                          LowerOn(team, *backend, model.graph));
  ProgramRunner runner(team, *program);
  SLUICE_RETURN_IF_ERROR(runner.Pack());
  std::vector<TensorContents> inputs;
  for (const PortInfo& port : program->inputs()) {
    for (const Value& input : read.inputs) {
      if (input.name == port.name) inputs.push_back(Contents(input));
    }
  }
  if (inputs.size() != program->inputs().size()) {
    return absl::DataLossError(absl::StrFormat("the model has %u inputs, %u of them known",
                                               program->inputs().size(), inputs.size()));
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<TensorContents> outputs, runner.Run(inputs));
  if (outputs.size() != read.outputs.size()) {
    return absl::DataLossError(
        absl::StrFormat("got %u outputs, want %u", outputs.size(), read.outputs.size()));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const PortInfo& port = program->outputs()[i];
    SLUICE_RETURN_IF_ERROR(
        Compare(read.outputs[i], port.type, runner.output_shapes()[i], outputs[i], tolerance));
  }
  return absl::OkStatus();
}

// Without the folder, which is another on every machine.
std::string Reason(const absl::Status& status, const ConformanceCase& test) {
  std::string reason(status.message());
  const std::string folder = (test.folder / "model.onnx").string();
  for (std::size_t at; (at = reason.find(folder)) != std::string::npos;) {
    reason.replace(at, folder.size(), "model.onnx");
  }
  for (char& c : reason) {
    if (c == '\n') c = ' ';
  }
  return absl::StrFormat("%s: %s", absl::StatusCodeToString(status.code()), reason);
}

// What a child says: the kind, the class and the reason, each behind a character.
Verdict ParseVerdict(const std::string& said) {
  if (said.size() < 2) return {.kind = Verdict::Kind::kWrong, .reason = "it said nothing"};
  return {.kind = static_cast<Verdict::Kind>(said[0] - '0'),
          .test_class = static_cast<ConformanceClass>(said[1] - '0'),
          .reason = said.substr(2)};
}

}  // namespace

Verdict RunHere(const ConformanceCase& test, Tolerance tolerance) {
  const absl::StatusOr<ConformanceTest> read = ReadConformanceTest(test);
  if (!read.ok()) {
    return {.kind = Verdict::Kind::kRefused, .reason = Reason(read.status(), test)};
  }
  if (read->kind != ConformanceClass::kCore) {
    return {.kind = Verdict::Kind::kOther, .test_class = read->kind, .reason = {}};
  }
  const absl::Status status = RunTest(test, *read, tolerance);
  if (status.ok()) return {};
  const bool wrong = absl::IsDataLoss(status) || absl::IsInternal(status);
  return {.kind = wrong ? Verdict::Kind::kWrong : Verdict::Kind::kRefused,
          .reason = Reason(status, test)};
}

Verdict RunApart(const ConformanceCase& test, Tolerance tolerance) {
  int ends[2] = {};
  SLUICE_CHECK(::pipe(ends) == 0);
  const pid_t child = ::fork();
  SLUICE_CHECK(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    ::alarm(kMostSeconds);
    const Verdict verdict = RunHere(test, tolerance);
    const std::string said =
        std::string({static_cast<char>('0' + static_cast<int>(verdict.kind)),
                     static_cast<char>('0' + static_cast<int>(verdict.test_class))}) +
        verdict.reason;
    const bool whole = ::write(ends[1], said.data(), said.size()) == std::ssize(said);
    ::_exit(whole ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    said.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  SLUICE_CHECK(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ParseVerdict(said);
  return {.kind = Verdict::Kind::kWrong,
          .reason = WIFSIGNALED(status) ? absl::StrFormat("ended by signal %d", WTERMSIG(status))
                                        : absl::StrFormat("ended with %d", WEXITSTATUS(status))};
}

}  // namespace sluice
