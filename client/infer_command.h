// client/infer_command.h
//
// `sluicectl infer`: files in, an answer in words, files out.

#ifndef SLUICE_CLIENT_INFER_COMMAND_H_
#define SLUICE_CLIENT_INFER_COMMAND_H_

#include <cstddef>
#include <string>
#include <vector>

#include "client/command.h"
#include "client/infer_inputs.h"

namespace sluice {

struct InferArguments {
  std::string model;
  std::string version;
  InputArguments inputs;
  std::vector<std::string> outputs;  // Empty: all.
  int priority = 0;
  std::size_t repeat = 1;
  std::string npy_folder;  // Empty: outputs are not kept.
  std::string raw_folder;
  std::size_t top = 0;          // 0: classes are not ranked.
  std::string labels;           // A file; empty: classes are told by number.
  bool regions = false;         // The first output is a map of text.
  std::string regions_picture;  // Where to save the picture with them drawn in; may be empty.
};

ExitCode RunInfer(const CommonOptions& options, const InferArguments& arguments);

}  // namespace sluice

#endif  // SLUICE_CLIENT_INFER_COMMAND_H_
