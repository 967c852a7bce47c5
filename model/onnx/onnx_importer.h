// model/onnx/onnx_importer.h
//
// An ONNX file becomes a Graph. Opsets 1 to 21, each operator with the meaning of its version.
//
// The file is never parsed or mapped whole: a walk over the wire format (as
// the Protocol Buffers encoding defines it) locates the initialisers and leaves them where they
// are; the rest, which is small, is parsed. Constants of the graph are windows into the file, or
// into its external data files.

#ifndef SLUICE_MODEL_ONNX_ONNX_IMPORTER_H_
#define SLUICE_MODEL_ONNX_ONNX_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "model/graph.h"
#include "model/onnx/unsupported_list.h"

namespace sluice {

struct ImportOptions {
  // Values of symbolic dimensions, by name ("batch"), by place ("x[2]"), or, for an input of rank 4
  // whose dimension has no entry otherwise, by role: batch, channels, height, width.
  std::map<std::string, std::int64_t> dims = {};
  // Contents of inputs, by name: row-major elements of the input's type and shape. Used only where
  // the shape of something depends on them (the new shape of a reshape, a trip count): the graph
  // is then for these contents alone, and ImportedModel::specialised names the input.
  std::map<std::string, std::vector<std::byte>> values = {};
  // The same as numbers, which become elements of the input's type.
  std::map<std::string, std::vector<double>> numbers = {};
  // The model and its external data must lie in this folder once links are resolved. Empty: the
  // model anywhere, its external data in the folder where the file itself lies.
  std::filesystem::path root = {};
  // Everything but initialisers that lie in the file; more is refused before it is read.
  Bytes max_structure = Bytes::Of(16 * 1024 * 1024);
  // Largest tensor, constant or not, and the sum of what graphs generate (ConstantOfShape).
  Bytes max_tensor = Bytes::Of(std::uint64_t{4} << 30);
  std::size_t max_nodes = 100'000;
  // Filled, where it is given, when the import fails with UNIMPLEMENTED: what is missing.
  std::vector<UnsupportedThing>* missing = nullptr;
};

struct ImportedModel {
  Graph graph;
  // Every file that it reads: the model itself, then its external data.
  std::vector<std::filesystem::path> files;
  std::string producer;
  std::int64_t opset = 0;
  // Inputs whose contents the graph was made for, and those contents.
  std::map<std::string, std::vector<std::byte>> specialised;
  // An upper estimate of what the graph holds beside constants that stay in files.
  Bytes structure_memory;
  // XXH3-64 of everything but the initialisers' contents.
  std::uint64_t structure_hash = 0;
};

// Fails: NOT_FOUND, no such file. INVALID_ARGUMENT, not a valid model, a dimension that has no
//        value, a file outside the root, or that is no file. UNIMPLEMENTED, with the whole list of
//        operators or types that are missing: operator, version, node. DATA_LOSS, a file too short
//        for its own tensors. RESOURCE_EXHAUSTED, over a limit above. Messages name the file, and
//        the node or tensor.
// Memory: max_structure at most twice, whatever the size of the file. Leaves nothing of the file in
//        the page cache but what it read.
// Threads: callable from anywhere.
absl::StatusOr<ImportedModel> ImportOnnx(const std::filesystem::path& path,
                                         const ImportOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_ONNX_IMPORTER_H_
