// model/operation.h
//
// What a node computes, independent of the file format that it came from and of the backend that
// will run it. Importers translate every version of every foreign operator into one of these, so
// that backends meet one meaning only. Shapes are known: an operation holds no symbolic dimension.
//
// Unless said otherwise the data input and the output have the same type, spatial attributes have
// one entry for each spatial dimension (tensors are [N, C, spatial...]), and inputs are listed in
// order; "c:" marks one that must be a constant.

#ifndef SLUICE_MODEL_OPERATION_H_
#define SLUICE_MODEL_OPERATION_H_

#include <string>
#include <variant>

#include "model/elementwise_operations.h"
#include "model/movement_operations.h"
#include "model/product_operations.h"
#include "model/quantized_operations.h"
#include "model/recurrent_operations.h"
#include "model/reduction_operations.h"
#include "model/selection_operations.h"
#include "model/window_operations.h"

namespace sluice {

using Operation =
    std::variant<Unary, Binary, Convolution, FullyConnected, MatMul, Pool, ChannelAffine, Softmax,
                 Concat, Transpose, Reshape, Slice, Pad, Resize, Gather, Reduce, Cast, Expand, Lrn,
                 Compare, Classify, Select, PoolIndices, GridSample, RoiAlign, MaxRoiPool,
                 Determinant, GatherElements, GatherNd, ScatterElements, ScatterNd, ReverseSequence,
                 Triangle, OneHot, ArgReduce, Hardmax, CumulativeSum, Normalize, TopK, NonZero,
                 Compress, Unique, NonMaxSuppression, Recurrent, Quantize, Dequantize>;

// "convolution", "relu", "add", "max pool": for logs, errors and metrics.
std::string Name(const Operation& operation);

}  // namespace sluice

#endif  // SLUICE_MODEL_OPERATION_H_
