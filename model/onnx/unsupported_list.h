// model/onnx/unsupported_list.h
//
// What a model needs and we lack, gathered so that one error tells all of it.

#ifndef SLUICE_MODEL_ONNX_UNSUPPORTED_LIST_H_
#define SLUICE_MODEL_ONNX_UNSUPPORTED_LIST_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace sluice {

// One thing that is missing.
struct UnsupportedThing {
  std::string what;                 // Such as "Resize-18: antialias is not supported".
  std::size_t count = 0;            // How often the model needs it.
  std::vector<std::string> places;  // Names of the first few nodes or tensors.
};

class UnsupportedList {
 public:
  // `what` such as "Resize-18: antialias is not supported"; `where` the node's or tensor's name.
  void Add(const std::string& what, const std::string& where);
  bool empty() const { return entries_.empty(); }

  // UNIMPLEMENTED: every `what`, how often, and the names of the first few places.
  absl::Status ToStatus() const;
  std::vector<UnsupportedThing> things() const;

 private:
  struct Places {
    std::size_t count = 0;
    std::vector<std::string> first;
  };
  std::map<std::string, Places> entries_;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_UNSUPPORTED_LIST_H_
