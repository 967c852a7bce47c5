// sluicectl: asks a running sluiced. The command line; what the commands do stands in their files.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_format.h"
#include "client/command.h"
#include "client/infer_command.h"

namespace sluice {
namespace {

constexpr char kExitCodes[] =
    "Exit codes: 0 done; 1 the daemon answered with an error; 2 wrong usage; 3 no daemon answers;\n"
    "4 a file cannot be read, does not fit, or cannot be written; 5 (ready) not ready.";

void AddCommon(CLI::App& command, CommonOptions& options) {
  command.add_option("--address", options.address,
                     "Of the daemon: HOST:PORT or unix:/PATH (default: SLUICE_ADDRESS, else "
                     "unix:/run/sluice/sluice.sock where it exists, else 127.0.0.1:8001)");
  command.add_option("--timeout", options.timeout_seconds, "Seconds for each call; 0: no limit")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1e6));
  command.add_flag("--json", options.json, "Answer in JSON on stdout");
  constexpr const char* kTls = "TLS, for HOST:PORT addresses";
  command
      .add_option("--tls-ca", options.tls_ca,
                  "Speak TLS; FILE has the authorities that may have signed the daemon's "
                  "certificate")
      ->type_name("FILE")
      ->envname("SLUICE_TLS_CA")
      ->group(kTls);
  command.add_option("--tls-cert", options.tls_cert, "Certificate to show to a daemon that asks")
      ->type_name("FILE")
      ->envname("SLUICE_TLS_CERT")
      ->group(kTls);
  command.add_option("--tls-key", options.tls_key, "Its key")
      ->type_name("FILE")
      ->envname("SLUICE_TLS_KEY")
      ->group(kTls);
  command
      .add_option("--tls-name", options.tls_name,
                  "Name in the daemon's certificate, where the address has another")
      ->type_name("NAME")
      ->group(kTls);
}

// A check for CLI11: the error's text, or nothing.
template <typename Parse>
CLI::Validator CheckedBy(Parse parse, const char* kind) {
  return CLI::Validator(
      [parse](std::string& text) {
        const auto parsed = parse(text);
        return parsed.ok() ? std::string() : std::string(parsed.status().message());
      },
      kind);
}

// What the command line says in text and the library wants in numbers.
struct InferText {
  std::vector<std::string> inputs;
  std::string scale, mean, deviation, layout, order;
  std::uint64_t seed = 0;
  bool boxes = false;
};

void AddInferInputs(CLI::App& command, InferArguments& arguments, InferText& text) {
  command.add_option("MODEL", arguments.model, "The model's name")->required();
  command.add_option("--model-version", arguments.version, "A version; the newest by default");
  constexpr const char* kInputs = "Inputs";
  command
      .add_option("--input,-i", text.inputs,
                  "NAME=FILE, or FILE for a model's only input: .npy, raw values (.bin), or a "
                  "picture (.png .jpg .ppm .pgm), which is resized to the input's shape")
      ->check(CheckedBy(ParseNamedFile, "NAME=FILE"))
      ->group(kInputs)
      ->allow_extra_args(false);
  command.add_option("--inputs", arguments.inputs.folder, "A folder with a tensor set")
      ->type_name("DIR")
      ->group(kInputs);
  auto* zeros = command.add_flag("--zeros", arguments.inputs.zeros, "Zeros for all other inputs");
  zeros->group(kInputs);
  command.add_option("--random", text.seed, "Random values for all other inputs")
      ->type_name("SEED")
      ->excludes(zeros)
      ->group(kInputs);
  constexpr const char* kPictures = "Pictures: value = (byte * scale - mean) / std";
  command.add_option("--layout", text.layout, "nchw or nhwc; guessed from the shape by default")
      ->check(CLI::IsMember({"nchw", "nhwc"}))
      ->group(kPictures);
  command.add_option("--order", text.order, "rgb (default) or bgr")
      ->check(CLI::IsMember({"rgb", "bgr"}))
      ->group(kPictures);
  command.add_option("--scale", text.scale, "A number such as 1/255 (default 1)")
      ->check(CheckedBy(ParseNumber, "NUMBER"))
      ->group(kPictures);
  command.add_option("--mean", text.mean, "Red, green, blue, or one number (default 0)")
      ->check(CheckedBy(ParseThreeNumbers, "R,G,B"))
      ->group(kPictures);
  command.add_option("--std", text.deviation, "Red, green, blue, or one number (default 1)")
      ->check(CheckedBy(ParseThreeNumbers, "R,G,B"))
      ->group(kPictures);
}

void AddInferOutputs(CLI::App& command, InferArguments& arguments, InferText& text) {
  command.add_option("--repeat", arguments.repeat, "Ask so often, and tell min, median and p99")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  command.add_option("--priority", arguments.priority, "1 is highest; 0: the model's own")
      ->check(CLI::Range(0, 1000));
  constexpr const char* kOutputs = "Outputs";
  command.add_option("--output,-o", arguments.outputs, "Ask for this output only (repeatable)")
      ->type_name("NAME")
      ->group(kOutputs)
      ->allow_extra_args(false);
  command.add_option("--out", arguments.npy_folder, "Write each output to DIR/NAME.npy")
      ->type_name("DIR")
      ->group(kOutputs);
  command.add_option("--raw", arguments.raw_folder, "Write the outputs to DIR as a tensor set")
      ->type_name("DIR")
      ->group(kOutputs);
  auto* top =
      command.add_option("--top", arguments.top, "Tell the K best classes of the first output")
          ->type_name("K")
          ->check(CLI::Range(std::size_t{1}, std::size_t{100'000}))
          ->group(kOutputs);
  command.add_option("--labels", arguments.labels, "Names of the classes, one a line")
      ->type_name("FILE")
      ->needs(top)
      ->group(kOutputs);
  command
      .add_flag("--boxes", text.boxes,
                "The first output is a map of text, as text detectors give: tell its regions")
      ->group(kOutputs);
  command
      .add_option("--text-regions", arguments.regions_picture,
                  "As --boxes, and save the input picture with them drawn in, as PNG")
      ->type_name("FILE")
      ->group(kOutputs);
  command.footer(
      "Examples:\n"
      "  sluicectl infer resnet --input cat.jpg --scale 1/255 --mean 0.485,0.456,0.406 \\\n"
      "      --std 0.229,0.224,0.225 --top 5 --labels imagenet.txt\n"
      "  sluicectl infer detector --input x=page.png --scale 1/255 --text-regions found.png\n"
      "  sluicectl infer bert --input ids=ids.npy --input mask=mask.npy --out answers\n"
      "  sluicectl infer resnet --random 1 --repeat 100 --json");
}

// Requires: the checks of the options have passed.
void Complete(const InferText& text, bool random, InferArguments& arguments) {
  InputArguments& inputs = arguments.inputs;
  for (const std::string& input : text.inputs) inputs.files.push_back(*ParseNamedFile(input));
  if (random) inputs.seed = text.seed;
  PictureOptions& picture = inputs.picture;
  if (!text.scale.empty()) picture.scale = *ParseNumber(text.scale);
  if (!text.mean.empty()) picture.mean = *ParseThreeNumbers(text.mean);
  if (!text.deviation.empty()) picture.deviation = *ParseThreeNumbers(text.deviation);
  if (!text.layout.empty()) {
    picture.layout = text.layout == "nchw" ? Layout::kNchw : Layout::kNhwc;
  }
  if (text.order == "bgr") picture.order = ChannelOrder::kBgr;
  arguments.regions = text.boxes || !arguments.regions_picture.empty();
}

bool HasInputs(const InputArguments& inputs) {
  return !inputs.files.empty() || !inputs.folder.empty() || inputs.zeros || inputs.seed.has_value();
}

// The commands that take a model's name at most.
struct PlainCommands {
  CLI::App* status = nullptr;
  CLI::App* models = nullptr;
  CLI::App* metadata = nullptr;
  CLI::App* ready = nullptr;
  CLI::App* load = nullptr;
  CLI::App* unload = nullptr;
};

PlainCommands AddPlainCommands(CLI::App& app, CommonOptions& options, ReadyArguments& arguments) {
  PlainCommands commands;
  commands.status = app.add_subcommand("status", "Budget, ledger, process and models' memory");
  commands.status->footer("Examples:\n  sluicectl status\n  sluicectl status --json");
  commands.models =
      app.add_subcommand("models", "Every model, its state, and why it is unavailable");
  commands.models->footer("Example:\n  sluicectl models --address unix:/run/sluice/sluice.sock");
  commands.metadata = app.add_subcommand("metadata", "A model's inputs and outputs");
  commands.metadata->footer("Example:\n  sluicectl metadata detector");
  commands.metadata->add_option("MODEL", arguments.model, "The model's name")->required();
  commands.ready =
      app.add_subcommand("ready", "Exit 0 when the daemon, or a model, is ready; else 5");
  commands.ready->footer(
      "Examples:\n  sluicectl ready && echo up\n  sluicectl ready detector --wait 60");
  commands.ready->add_option("MODEL", arguments.model, "The model's name; without: the daemon");
  commands.ready->add_option("--wait", arguments.wait_seconds, "Wait so long for it, in seconds")
      ->check(CLI::Range(0.0, 1e6));
  commands.load = app.add_subcommand(
      "load",
      "Loads a model that the daemon's configuration or repository describes; waits for it");
  commands.load->footer(
      "Without --timeout it waits as long as the load takes. A model that is loaded is loaded "
      "anew\n"
      "when its files have changed.\nExample:\n  sluicectl load detector");
  commands.unload =
      app.add_subcommand("unload", "Takes a model out of memory, once what waits is answered");
  commands.unload->footer("Example:\n  sluicectl unload detector");
  for (CLI::App* command : {commands.load, commands.unload}) {
    command->add_option("MODEL", arguments.model, "The model's name")->required();
    AddCommon(*command, options);
  }
  for (CLI::App* command : {commands.metadata, commands.ready}) {
    command->add_option("--model-version", arguments.version, "A version; the newest by default");
  }
  for (CLI::App* command : {commands.status, commands.models, commands.metadata, commands.ready}) {
    AddCommon(*command, options);
  }
  return commands;
}

int Main(int argc, char** argv) {
  CLI::App app("Asks a running sluiced: status, models, metadata, ready, load, unload, infer.",
               "sluicectl");
  app.require_subcommand(0, 1);
  app.set_help_all_flag("--help-all", "Help of every command");
  app.set_version_flag("--version", "sluicectl " SLUICE_VERSION);
  app.footer(kExitCodes);
  CommonOptions options{.address = DefaultAddress()};
  AddCommon(app, options);
  ReadyArguments ready;
  const PlainCommands commands = AddPlainCommands(app, options, ready);
  InferArguments infer;
  InferText text;
  CLI::App* infer_command =
      app.add_subcommand("infer", "Sends inputs to a model and tells its answer");
  AddInferInputs(*infer_command, infer, text);
  AddInferOutputs(*infer_command, infer, text);
  AddCommon(*infer_command, options);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) {
      throw CLI::RequiredError(
          "One of the commands status, models, metadata, ready, load, unload, infer");
    }
    Complete(text, infer_command->count("--random") > 0, infer);
    if (infer_command->parsed() && !HasInputs(infer.inputs)) {
      throw CLI::RequiredError("One of --input, --inputs, --zeros, --random");
    }
    if (options.tls_cert.empty() != options.tls_key.empty()) {
      throw CLI::ValidationError("--tls-cert and --tls-key: want both or none");
    }
    if (options.tls_ca.empty() && !(options.tls_cert.empty() && options.tls_name.empty())) {
      throw CLI::ValidationError("--tls-cert and --tls-name: want --tls-ca with them");
    }
  } catch (const CLI::ParseError& error) {
    // Help and version leave this way too, with 0.
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (const absl::Status read = ReadTlsFiles(options); !read.ok()) {
    return FailHere(options, read, kExitFile);
  }
  if (commands.status->parsed()) return RunStatus(options);
  if (commands.models->parsed()) return RunModels(options);
  if (commands.metadata->parsed()) return RunMetadata(options, ready.model, ready.version);
  if (commands.ready->parsed()) return RunReady(options, ready);
  if (commands.load->parsed()) {
    const bool limited = app.count("--timeout") + commands.load->count("--timeout") > 0;
    if (!limited) options.timeout_seconds = 0;
    return RunLoad(options, ready.model);
  }
  if (commands.unload->parsed()) return RunUnload(options, ready.model);
  return RunInfer(options, infer);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
