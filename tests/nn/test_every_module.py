"""Every module that PyTorch has too: forward and backward with the same weights, on each device.

The files beside this one go through shapes and options; this one leaves no module out.
"""

import inspect

import numpy as np
import pytest

from needle import nn

from .convert import compare_modules, draw, in_floats, on_devices

IDS = np.array([[1, 4, 0], [3, 3, 2]])
CLASSES = np.array([2, 0, 1, 2])
IMAGE, SIGNAL, VOLUME, ROWS = (2, 4, 8, 7), (2, 4, 9), (2, 4, 6, 5, 6), (4, 6)
SEQUENCE, MEMORY = (5, 2, 8), (3, 2, 8)
EVEN = {"low": 0.05, "high": 0.95}  # probabilities


def no_dropout(cls):
    return lambda lib: getattr(lib, cls)(8, 2, 16, dropout=0.0)


def stacked(cls):
    def make(lib):  # batch first: else PyTorch warns that it is slower
        return getattr(lib, cls)(
            getattr(lib, f"{cls}Layer")(8, 2, 16, dropout=0.0, batch_first=True), 2
        )

    return make


def with_(cls, *args, **options):
    return lambda lib: getattr(lib, cls)(*args, **options)


# name -> how to make it (if not without arguments), and what it is called with
TABLE = {
    **{
        name: (with_(name), [draw(3, 4)])
        for name in (
            "ELU GELU SELU Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish ReLU ReLU6 "
            "Sigmoid SiLU Softplus Softsign Tanh Identity"
        ).split()
    },
    **{name: (with_(name, dim=1), [draw(3, 4)]) for name in ("GLU", "Softmax", "LogSoftmax")},
    "PReLU": (with_("PReLU", 4), [draw(*IMAGE)]),
    "Linear": (with_("Linear", 6, 3), [draw(2, 3, 6)]),
    "Flatten": (with_("Flatten"), [draw(*IMAGE)]),
    "Unflatten": (with_("Unflatten", 1, unflattened_size=(2, 3)), [draw(*ROWS)]),
    "Embedding": (with_("Embedding", 5, 4), [IDS]),
    **{name: (with_(name, 0.0), [draw(*SIGNAL)]) for name in ("Dropout", "Dropout1d")},
    "Dropout2d": (with_("Dropout2d", 0.0), [draw(*IMAGE)]),
    "Conv1d": (with_("Conv1d", 4, 6, 3, groups=2, padding=1), [draw(*SIGNAL)]),
    "Conv2d": (with_("Conv2d", 4, 6, 3, stride=2, dilation=2), [draw(*IMAGE)]),
    "Conv3d": (with_("Conv3d", 4, 2, 3), [draw(*VOLUME)]),
    "ConvTranspose1d": (with_("ConvTranspose1d", 4, 3, 3, 2), [draw(*SIGNAL)]),
    "ConvTranspose2d": (with_("ConvTranspose2d", 4, 6, 3, 2, 1, groups=2), [draw(*IMAGE)]),
    "ConvTranspose3d": (with_("ConvTranspose3d", 4, 2, 2), [draw(*VOLUME)]),
    "MaxPool1d": (with_("MaxPool1d", 2), [draw(*SIGNAL)]),
    "MaxPool2d": (with_("MaxPool2d", 3, 2, 1), [draw(*IMAGE)]),
    "MaxPool3d": (with_("MaxPool3d", 2), [draw(*VOLUME)]),
    "AvgPool1d": (with_("AvgPool1d", 2), [draw(*SIGNAL)]),
    "AvgPool2d": (with_("AvgPool2d", 3, 2, 1), [draw(*IMAGE)]),
    "AvgPool3d": (with_("AvgPool3d", 2), [draw(*VOLUME)]),
    "AdaptiveAvgPool1d": (with_("AdaptiveAvgPool1d", 4), [draw(*SIGNAL)]),
    "AdaptiveAvgPool2d": (with_("AdaptiveAvgPool2d", (3, 2)), [draw(*IMAGE)]),
    "AdaptiveMaxPool1d": (with_("AdaptiveMaxPool1d", 4), [draw(*SIGNAL)]),
    "AdaptiveMaxPool2d": (with_("AdaptiveMaxPool2d", (3, 2)), [draw(*IMAGE)]),
    "Upsample": (with_("Upsample", scale_factor=2, mode="bilinear"), [draw(*IMAGE)]),
    "PixelShuffle": (with_("PixelShuffle", 2), [draw(*IMAGE)]),
    "ZeroPad2d": (with_("ZeroPad2d", (1, 2, 0, 3)), [draw(*IMAGE)]),
    "ReflectionPad2d": (with_("ReflectionPad2d", 2), [draw(*IMAGE)]),
    "BatchNorm1d": (with_("BatchNorm1d", 6), [draw(*ROWS)]),
    "BatchNorm2d": (with_("BatchNorm2d", 4), [draw(*IMAGE)]),
    "BatchNorm3d": (with_("BatchNorm3d", 4), [draw(*VOLUME)]),
    "InstanceNorm1d": (with_("InstanceNorm1d", 4, affine=True), [draw(*SIGNAL)]),
    "InstanceNorm2d": (with_("InstanceNorm2d", 4, affine=True), [draw(*IMAGE)]),
    "InstanceNorm3d": (with_("InstanceNorm3d", 4, affine=True), [draw(*VOLUME)]),
    "GroupNorm": (with_("GroupNorm", 2, 4), [draw(*IMAGE)]),
    "LayerNorm": (with_("LayerNorm", (8, 7)), [draw(*IMAGE)]),
    "RMSNorm": (with_("RMSNorm", 6), [draw(*ROWS)]),
    **{name: (with_(name, 6, 3), [draw(*ROWS)]) for name in ("RNNCell", "LSTMCell", "GRUCell")},
    **{
        name: (with_(name, 8, 3, 2, bidirectional=True), [draw(*SEQUENCE)])
        for name in ("RNN", "LSTM", "GRU")
    },
    "MultiheadAttention": (with_("MultiheadAttention", 8, 2), [draw(*SEQUENCE)] * 3),
    "TransformerEncoderLayer": (no_dropout("TransformerEncoderLayer"), [draw(*SEQUENCE)]),
    "TransformerDecoderLayer": (
        no_dropout("TransformerDecoderLayer"),
        [draw(*SEQUENCE), draw(*MEMORY)],
    ),
    "TransformerEncoder": (stacked("TransformerEncoder"), [draw(*SEQUENCE)]),
    "TransformerDecoder": (stacked("TransformerDecoder"), [draw(2, 5, 8), draw(2, 3, 8)]),
    "Sequential": (
        lambda lib: lib.Sequential(lib.Linear(6, 4), lib.Tanh(), lib.Linear(4, 2)),
        [draw(*ROWS)],
    ),
    "CrossEntropyLoss": (with_("CrossEntropyLoss", label_smoothing=0.1), [draw(4, 3), CLASSES]),
    "NLLLoss": (with_("NLLLoss"), [draw(4, 3), CLASSES]),
    "BCELoss": (with_("BCELoss"), [draw(4, 3, **EVEN), draw(4, 3, seed=1, **EVEN)]),
    "BCEWithLogitsLoss": (with_("BCEWithLogitsLoss"), [draw(4, 3), draw(4, 3, seed=1, **EVEN)]),
    "KLDivLoss": (
        with_("KLDivLoss", reduction="batchmean"),
        [draw(4, 3), draw(4, 3, seed=1, **EVEN)],
    ),
    **{
        name: (with_(name), [draw(4, 3), draw(4, 3, seed=1)])
        for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "CosineSimilarity")
    },
    "TripletMarginLoss": (
        with_("TripletMarginLoss", 0.5, p=2, swap=True),
        [draw(4, 3), draw(4, 3, seed=1), draw(4, 3, seed=2)],
    ),
    "CosineEmbeddingLoss": (
        with_("CosineEmbeddingLoss", 0.1),
        [draw(4, 3), draw(4, 3, seed=1)],
    ),
}

# Not in PyTorch, or not under that name: tests/contract and the other files here check these.
OURS = set(
    "Module Conv LayerNorm1d Residual SoftmaxLoss MultiHeadAttention AttentionLayer "
    "TransformerLayer Transformer GlobalAvgPool GlobalMaxPool RotaryEmbedding "
    "QuantizedLinear".split()
)
CONTAINERS = {"ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}  # they have no forward


@in_floats
@on_devices
@pytest.mark.parametrize("name", TABLE)
def test_as_in_pytorch(name, device, dtype):
    make, arrays = TABLE[name]
    call = _with_signs if name == "CosineEmbeddingLoss" else None
    # PyTorch computes hardsigmoid with 1/6 in float32.
    tolerance = 1e-7 if name == "Hardsigmoid" and dtype == "float64" else None
    compare_modules(make, arrays, dtype, device, call=call, tolerance=tolerance)


def _with_signs(module, a, b):
    return module(a, b, (a * b).detach().sum(1).sign())


def test_no_module_is_left_out():
    modules = {
        name
        for name, value in ((name, getattr(nn, name)) for name in dir(nn))
        if inspect.isclass(value) and issubclass(value, nn.Module)
    }
    assert modules == set(TABLE) | OURS | CONTAINERS
