// Whatever the bytes are, ParseNpy refuses them or gives a tensor that fits its own shape, and what
// it gives is written and read again unchanged.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "client/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto tensor =
      sluice::ParseNpy(std::string(reinterpret_cast<const char*>(data), size), "input");
  if (!tensor.ok()) return 0;
  SLUICE_CHECK(*sluice::TensorBytes(tensor->datatype, tensor->shape) == tensor->data.size());
  const auto file = sluice::FormatNpy(*tensor);
  SLUICE_CHECK(file.ok());
  const auto again = sluice::ParseNpy(*file, "input");
  SLUICE_CHECK(again.ok() && again->shape == tensor->shape && again->data == tensor->data);
  return 0;
}
