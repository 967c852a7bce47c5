// server/typed_contents.h
//
// Tensors in the typed fields of a request (InferTensorContents).

#ifndef SLUICE_SERVER_TYPED_CONTENTS_H_
#define SLUICE_SERVER_TYPED_CONTENTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/program.h"
#include "open_inference.pb.h"

namespace sluice {

// True when a field has an element.
bool HasContents(const inference::InferTensorContents& contents);

// The tensor as row-major little-endian bytes. `where` names the tensor in errors.
// Fails: INVALID_ARGUMENT, a field that does not belong to the port's type, another number of
//        elements than the shape's, a value out of the type's range. Nothing is allocated before
//        the number of elements has been compared.
absl::StatusOr<std::vector<std::byte>> ConvertContents(
    const inference::InferTensorContents& contents, const PortInfo& port, const std::string& where);

}  // namespace sluice

#endif  // SLUICE_SERVER_TYPED_CONTENTS_H_
