"""Random models of one node, drawn from a seed: operators that the ONNX backend suite covers thinly.

Elements are multiples of 1/8, so that sums of products are exact in single precision, whatever
their order, and a comparison may be strict.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

MICROSOFT = "com.microsoft"


class Case:
    """One node on inputs x0, x1, ...; those marked constant become initialisers."""

    def __init__(self, op, opset, inputs, constant=(), domain="", outputs=1, **attributes):
        self.op, self.opset, self.domain, self.attributes = op, opset, domain, attributes
        self.inputs, self.constant, self.outputs = inputs, set(constant), outputs

    def model(self):
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.inputs)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, name="n", domain=self.domain,
                                **self.attributes)
        kind = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE,
                np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64}
        ports, initializers = [], []
        for i, (name, x) in enumerate(zip(names, self.inputs)):
            if x is None:
                continue
            if i in self.constant:
                initializers.append(numpy_helper.from_array(x, name))
            else:
                ports.append(helper.make_tensor_value_info(name, kind[x.dtype], x.shape))
        first = next(x for x in self.inputs if x is not None and x.dtype.kind == "f")
        results = [helper.make_tensor_value_info(y, kind[first.dtype], None) for y in outputs]
        graph = helper.make_graph([node], "differential", ports, results, initializers)
        imports = [helper.make_opsetid("", self.opset)]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, 1))
        model = helper.make_model(graph, opset_imports=imports)
        model.ir_version = 8
        return model

    def fed(self):
        return [(f"x{i}", x) for i, x in enumerate(self.inputs)
                if x is not None and i not in self.constant]


def floats(draw, *shape, dtype=np.float32):
    return (draw.integers(-16, 17, shape) / 8).astype(dtype)


def positive(draw, *shape):
    return (draw.integers(1, 17, shape) / 8).astype(np.float32)


def some(draw, low, high):
    return int(draw.integers(low, high + 1))


def coin(draw):
    return bool(draw.integers(2))


def constants(draw, count):
    """Which of the inputs behind the first are constant: all or none."""
    return range(1, count) if coin(draw) else ()


def matmul(draw):
    m, k, n = some(draw, 1, 20), some(draw, 1, 40), some(draw, 1, 40)
    batch = [some(draw, 1, 3) for _ in range(some(draw, 0, 2))]
    a = [1 if coin(draw) else size for size in batch] if coin(draw) else batch
    b = batch[some(draw, 0, len(batch)):]
    a = a[:len(batch)] + [m, k]
    shapes = [a, b + [k, n]]
    if some(draw, 0, 5) == 0:
        shapes[some(draw, 0, 1)] = [k]
    return Case("MatMul", 13, [floats(draw, *shape) for shape in shapes], constants(draw, 2))


def gemm(draw):
    m, k, n = some(draw, 1, 20), some(draw, 1, 40), some(draw, 1, 40)
    ta, tb = coin(draw), coin(draw)
    inputs = [floats(draw, *((k, m) if ta else (m, k))), floats(draw, *((n, k) if tb else (k, n)))]
    if coin(draw):
        shapes = [(), (1,), (n,), (1, n), (m, 1), (m, n)]
        inputs.append(floats(draw, *shapes[some(draw, 0, 5)]))
    return Case("Gemm", some(draw, 11, 13), inputs, constants(draw, len(inputs)), transA=int(ta),
                transB=int(tb), alpha=0.5 if coin(draw) else 1.0, beta=2.0 if coin(draw) else 1.0)


def windows(draw, spatial, transposed=False):
    attributes = {"kernel_shape": [some(draw, 1, 4) for _ in range(spatial)],
                  "strides": [some(draw, 1, 3) for _ in range(spatial)],
                  "dilations": [some(draw, 1, 2) for _ in range(spatial)]}
    pad = ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"][some(draw, 0, 3)]
    if transposed or pad == "NOTSET":
        attributes["pads"] = [some(draw, 0, kernel - 1) for kernel in attributes["kernel_shape"] * 2]
    else:
        attributes["auto_pad"] = pad
        if pad != "VALID":
            attributes["dilations"] = [1] * spatial  # ONNX Runtime wants it so.
    return attributes


def conv(draw):
    spatial, groups = some(draw, 1, 3), some(draw, 1, 3)
    attributes = windows(draw, spatial)
    sources, results = some(draw, 1, 6), some(draw, 1, 6) * groups
    if some(draw, 0, 3) == 0:
        groups = sources = some(draw, 2, 20)  # Depth-wise.
        sources, results = 1, groups * some(draw, 1, 2)
    size = [some(draw, 8, 14) for _ in range(spatial)]
    inputs = [floats(draw, some(draw, 1, 2), sources * groups, *size),
              floats(draw, results, sources, *attributes["kernel_shape"])]
    if coin(draw):
        inputs.append(floats(draw, results))
    return Case("Conv", 11, inputs, constants(draw, len(inputs)), group=groups, **attributes)


def conv_transpose(draw):
    spatial, groups = some(draw, 1, 3), some(draw, 1, 2)
    attributes = windows(draw, spatial, transposed=True)
    attributes["output_padding"] = [some(draw, 0, stride - 1) for stride in attributes["strides"]]
    sources, results = some(draw, 1, 5), some(draw, 1, 5)
    size = [some(draw, 4, 8) for _ in range(spatial)]
    inputs = [floats(draw, some(draw, 1, 2), sources * groups, *size),
              floats(draw, sources * groups, results, *attributes["kernel_shape"])]
    if coin(draw):
        inputs.append(floats(draw, results * groups))
    return Case("ConvTranspose", 11, inputs, constants(draw, len(inputs)), group=groups,
                **attributes)


def any_shape(draw, least, most):
    return [some(draw, 1, 9) for _ in range(some(draw, least, most))]


def softmax(draw):
    shape = any_shape(draw, 1, 4)
    op = "LogSoftmax" if some(draw, 0, 3) == 0 else "Softmax"
    return Case(op, 11 if coin(draw) else 13, [floats(draw, *shape)],
                axis=some(draw, -len(shape), len(shape) - 1))


def batch_norm(draw):
    shape = [some(draw, 1, 3), some(draw, 1, 20)] + any_shape(draw, 0, 3)
    channels = shape[1]
    inputs = [floats(draw, *shape), floats(draw, channels), floats(draw, channels),
              floats(draw, channels), positive(draw, channels)]
    return Case("BatchNormalization", [7, 9, 14, 15][some(draw, 0, 3)], inputs, constants(draw, 5),
                epsilon=1e-3)


def layer_norm(draw):
    shape = any_shape(draw, 2, 4)
    axis = some(draw, -len(shape), len(shape) - 1)
    row = shape[axis:] if axis < 0 else shape[axis:]
    inputs = [floats(draw, *shape), floats(draw, *row)]
    if coin(draw):
        inputs.append(floats(draw, *row))
    return Case("LayerNormalization", 17, inputs, constants(draw, len(inputs)), axis=axis,
                epsilon=1e-2)


def instance_norm(draw):
    shape = [some(draw, 1, 2), some(draw, 1, 6)] + any_shape(draw, 1, 3)
    inputs = [floats(draw, *shape), floats(draw, shape[1]), floats(draw, shape[1])]
    return Case("InstanceNormalization", 6, inputs, constants(draw, 3), epsilon=1e-2)


def gelus(draw):
    shape = any_shape(draw, 1, 3)
    op = ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"][some(draw, 0, 3)]
    inputs = [floats(draw, *shape)]
    if op == "BiasGelu" or (op == "FastGelu" and coin(draw)):
        inputs.append(floats(draw, shape[-1]))
    return Case(op, 17, inputs, constants(draw, len(inputs)), MICROSOFT)


def skip_norm(draw):
    shape, simplified = any_shape(draw, 3, 3), coin(draw)
    row = shape[-1:]
    inputs = [floats(draw, *shape), floats(draw, *shape), floats(draw, *row)]
    inputs += [] if simplified else [floats(draw, *row)]
    inputs += [floats(draw, *row)] if coin(draw) else []
    op = "SkipSimplifiedLayerNormalization" if simplified else "SkipLayerNormalization"
    return Case(op, 17, inputs, range(2, len(inputs)), MICROSOFT, epsilon=1e-2)


def fused_matmul(draw):
    m, k, n = some(draw, 1, 20), some(draw, 1, 40), some(draw, 1, 40)
    batch = [some(draw, 1, 3) for _ in range(some(draw, 0, 2))]
    ta, tb = coin(draw), coin(draw)
    inputs = [floats(draw, *batch, *((k, m) if ta else (m, k))),
              floats(draw, *batch, *((n, k) if tb else (k, n)))]
    return Case("FusedMatMul", 17, inputs, constants(draw, 2), MICROSOFT, transA=int(ta),
                transB=int(tb), alpha=0.25)


def attention(draw):
    batch, length, heads, size = some(draw, 1, 2), some(draw, 1, 9), some(draw, 1, 3), some(draw, 1, 8)
    hidden, width = heads * size, some(draw, 1, 12)
    inputs = [floats(draw, batch, length, width) / 4, floats(draw, width, 3 * hidden),
              floats(draw, 3 * hidden)]
    if coin(draw):
        mask = draw.integers(0, 2, (batch, length)).astype(np.int32)
        mask[:, 0] = 1
        inputs.append(mask)
    return Case("Attention", 17, inputs, (1, 2), MICROSOFT, num_heads=heads,
                unidirectional=int(coin(draw)))


def multi_head_attention(draw):
    batch, length, heads, size = some(draw, 1, 2), some(draw, 1, 9), some(draw, 1, 3), some(draw, 1, 8)
    keys, hidden = some(draw, 1, 9), heads * size
    inputs = [floats(draw, batch, rows, hidden) / 2 for rows in (length, keys, keys)]
    if coin(draw):
        inputs.append(floats(draw, 3 * hidden))
    return Case("MultiHeadAttention", 17, inputs, (3,) if len(inputs) > 3 else (), MICROSOFT,
                num_heads=heads)


def rotary(draw):
    batch, length, heads, pairs = some(draw, 1, 2), some(draw, 1, 9), some(draw, 1, 3), some(draw, 1, 4)
    angles = draw.integers(0, 50, (16, pairs)) / 8
    if coin(draw):
        positions = draw.integers(0, 16, (batch, length)).astype(np.int64)
    else:
        positions = np.array([some(draw, 0, 16 - length)], np.int64)
    inputs = [floats(draw, batch, length, heads * pairs * 2), positions,
              np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    return Case("RotaryEmbedding", 17, inputs, (2, 3), MICROSOFT, interleaved=int(coin(draw)))


# What ONNX Runtime computes of an empty sequence, and of a state before one, the specification does
# not say: lengths are at least 1.
def recurrent(draw):
    op, gates = [("RNN", 1), ("GRU", 3), ("LSTM", 4)][some(draw, 0, 2)]
    steps, batch, width, hidden = (some(draw, 1, n) for n in (5, 3, 9, 18))
    direction = ["forward", "reverse", "bidirectional"][some(draw, 0, 2)]
    directions = 2 if direction == "bidirectional" else 1
    state = (directions, batch, hidden)

    def small(*shape):
        return floats(draw, *shape) / 8

    def perhaps(*shape):
        return small(*shape) if coin(draw) else None

    lengths = draw.integers(1, steps + 1, batch).astype(np.int32) if coin(draw) else None
    inputs = [small(steps, batch, width), small(directions, gates * hidden, width),
              small(directions, gates * hidden, hidden), perhaps(directions, 2 * gates * hidden),
              lengths, perhaps(*state)]
    attributes = {"hidden_size": hidden, "direction": direction}
    if op == "LSTM":
        inputs += [perhaps(*state), perhaps(directions, 3 * hidden)]
    if op == "GRU":
        attributes["linear_before_reset"] = int(coin(draw))
    if coin(draw):
        attributes["clip"] = 0.25
    if coin(draw):
        names = ["Sigmoid", "Tanh", "Relu", "HardSigmoid"]
        count = {"RNN": 1, "GRU": 2, "LSTM": 3}[op] * directions
        attributes["activations"] = [names[some(draw, 0, 3)] for _ in range(count)]
    return Case(op, 14, inputs, constants(draw, 4),
                outputs=3 if op == "LSTM" else 2, **attributes)


FAMILIES = {function.__name__: function for function in (
    matmul, gemm, conv, conv_transpose, softmax, batch_norm, layer_norm, instance_norm, gelus,
    skip_norm, fused_matmul, attention, multi_head_attention, rotary, recurrent)}
