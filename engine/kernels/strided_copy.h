// engine/kernels/strided_copy.h
//
// Copies elements from one set of strides to another: what transposes, slices, concatenations and
// repetitions are once their shapes are known.

#ifndef SLUICE_ENGINE_KERNELS_STRIDED_COPY_H_
#define SLUICE_ENGINE_KERNELS_STRIDED_COPY_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace sluice::kernels {

// One dimension of the copy; strides in elements, from 0 (repeat) to negative (backwards).
struct CopyDim {
  std::size_t size;
  std::ptrdiff_t from, to;
};

class StridedCopy {
 public:
  // `dims` outermost first, in the order of the destination; `start_from` and `start_to` are where
  // the first element lies. Requires: elements of 1, 2, 4 or 8 bytes; distinct destinations.
  StridedCopy(std::size_t element, std::vector<CopyDim> dims, std::ptrdiff_t start_from,
              std::ptrdiff_t start_to);

  // Threads: splits over the calling thread's team. The two do not overlap.
  void Run(const std::byte* from, std::byte* to) const;

  // "memcpy", "rows", "tiles" or "strided": how it goes about it.
  std::string_view method() const;

 private:
  template <typename T>
  void RunTyped(const T* from, T* to) const;

  std::size_t element_, count_ = 1;
  std::vector<CopyDim> outer_;
  // The two innermost dimensions. In tiles, `row_` is the one along which the source is contiguous.
  CopyDim row_{1, 0, 0}, column_{1, 1, 1};
  std::ptrdiff_t start_from_, start_to_;
  bool tiles_ = false;
};

}  // namespace sluice::kernels

#endif  // SLUICE_ENGINE_KERNELS_STRIDED_COPY_H_
